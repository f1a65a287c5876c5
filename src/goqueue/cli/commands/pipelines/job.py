"""`goqueue job`: archive topics and bring them back, copy them and clean them up."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.cli.calls import parse_pairs
from goqueue.cli.commands.pipelines import job_reports
from goqueue.cli.spark.job_command import JobCall, app, job
from goqueue.cli.spark.job_options import (
    CatalogOption,
    FormatOption,
    IcebergTableOption,
    TableArgument,
    TargetArgument,
    TopicArgument,
    UntilOption,
    choice,
    data_loss,
    new_target,
    pace,
    resumption,
    stopping,
    time_range,
)
from goqueue.cli.times import moment_ms, span_ms
from goqueue.spark import jobs

if TYPE_CHECKING:
    from goqueue.spark.jobs.report import JobReport

__all__ = ["app", "job_reports"]

_FILE_MB = 128


@job("archive", data_loss, resumption)
def archive(
    call: JobCall,
    topic: TopicArgument,
    table: TableArgument,
    *,
    table_format: FormatOption = "parquet",
    table_name: IcebergTableOption = None,
    catalog: CatalogOption = None,
    until: UntilOption = None,
    merge: Annotated[
        bool, typer.Option("--merge/--no-merge", help="Merge small files at the end.")
    ] = True,
    file_mb: Annotated[
        int, typer.Option("--file-mb", min=1, help="The target size of merged files, in MB.")
    ] = _FILE_MB,
) -> JobReport:
    """Copy a topic to a table that is partitioned by day; run again, it adds new messages.

    The progress is stored in TABLE.checkpoint, unless --checkpoint names another folder.
    """
    to = _table(table_format, table, table_name, catalog)
    end = moment_ms(until, "--until")
    call.require_topic(topic)
    return jobs.archive(
        call.spark,
        call.servers,
        topic,
        to,
        until=end,
        merge=merge,
        target_file_bytes=file_mb << 20,
        **call.shared,
    )


@job("restore", time_range, choice, new_target, pace, resumption)
def restore(
    call: JobCall,
    table: TableArgument,
    target: TargetArgument,
    *,
    table_format: FormatOption = "parquet",
    table_name: IcebergTableOption = None,
    catalog: CatalogOption = None,
    topic: Annotated[
        str | None,
        typer.Option("--topic", help="The topic to restore, if the table has several."),
    ] = None,
) -> JobReport:
    """Write archived messages to a topic, in order by key, with keys, headers and timestamps."""
    archived = _table(table_format, table, table_name, catalog)
    return jobs.restore(
        call.spark,
        call.servers,
        archived,
        target,
        topic=topic,
        **call.shared,
    )


@job("replay", time_range, choice, new_target, pace, data_loss, resumption)
def replay(call: JobCall, topic: TopicArgument, target: TargetArgument) -> JobReport:
    """Write the messages of a time range to a topic again, in order by key."""
    call.require_topic(topic)
    return jobs.replay(
        call.spark,
        call.servers,
        topic,
        target,
        **call.shared,
    )


@job("repartition", pace, data_loss, resumption)
def repartition(
    call: JobCall,
    topic: TopicArgument,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The topic to create.")],
    partitions: Annotated[
        int, typer.Argument(metavar="PARTITIONS", min=1, help="The number of partitions.")
    ],
    *,
    follow: Annotated[
        bool, typer.Option("--follow", help="Copy new messages too, until Ctrl-C.")
    ] = False,
    verify: Annotated[
        bool,
        typer.Option("--verify/--no-verify", help="Compare both topics at the end."),
    ] = True,
) -> JobReport:
    """Copy a topic to a new one with another number of partitions, in order by key.

    The new topic has the settings of the old one. At the end both topics are read, and the counts
    and checksums of every key are compared.
    """
    call.require_topic(topic)
    spark = call.spark  # takes Ctrl-C for itself when it starts
    stop = threading.Event() if follow else None
    with nullcontext() if stop is None else stopping(stop, "piece"):
        return jobs.repartition(
            spark,
            call.servers,
            topic,
            target,
            partitions,
            follow=follow,
            stop=stop,
            verify=verify,
            **call.shared,
        )


@job("dedupe", time_range, new_target, pace, resumption)
def dedupe(
    call: JobCall,
    topic: TopicArgument,
    target: TargetArgument,
    *,
    by: Annotated[
        str,
        typer.Option("--by", metavar="SQL", help="Messages with the same value are duplicates."),
    ] = "key",
    keep: Annotated[
        str, typer.Option("--keep", help="Which duplicate is kept: first or last.")
    ] = "first",
    order: Annotated[
        str | None,
        typer.Option(
            "--order",
            help="The order of duplicates: offset or timestamp. (default: offset with --by key, "
            "otherwise timestamp)",
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window", metavar="TIME", help="Only duplicates within this time, as in 1h."
        ),
    ] = None,
) -> JobReport:
    """Copy a topic without duplicates, in the original order."""
    window_ms = span_ms(window, "--window")
    call.require_topic(topic)
    words: Any = {"keep": keep, "order": order}  # checked with everything else
    return jobs.dedupe(
        call.spark,
        call.servers,
        topic,
        target,
        by=by,
        window_ms=window_ms,
        **call.shared,
        **words,
    )


@job("compact", new_target, pace, resumption)
def compact(
    call: JobCall,
    topic: TopicArgument,
    target: TargetArgument,
    *,
    keep_tombstones: Annotated[
        bool,
        typer.Option(
            "--keep-tombstones", help="Keep tombstones that are the newest message of their key."
        ),
    ] = False,
) -> JobReport:
    """Copy the newest message of each key; keys with a tombstone are left out."""
    call.require_topic(topic)
    return jobs.compact(
        call.spark,
        call.servers,
        topic,
        target,
        keep_tombstones=keep_tombstones,
        **call.shared,
    )


def _table(table_format: str, path: str, name: str | None, catalog: list[str] | None) -> Any:
    from goqueue.spark.lake import lake_table  # noqa: PLC0415 - start-up stays light

    return lake_table(
        table_format, path, table=name, catalog=parse_pairs(catalog, "--catalog") or None
    )
