"""An archive, or a time range of it, back to a topic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from goqueue.spark.errors import OptionsError
from goqueue.spark.jobs.ledger import open_ledger
from goqueue.spark.jobs.link import Link
from goqueue.spark.jobs.messages import COLUMNS, Filters, TableMessages, sql_problems
from goqueue.spark.jobs.moments import DAY_MS, Moment
from goqueue.spark.jobs.piecework import DEFAULT_PIECE_ROWS, Pace, partition_rows, refuse
from goqueue.spark.jobs.report import JobReport, Progress, Table, silent
from goqueue.spark.jobs.topics.archiving import DATE_COLUMN
from goqueue.spark.jobs.topics.copying import (
    MessageSelection,
    Target,
    check_target,
    copy_messages,
    ensure_target,
    settle,
)
from goqueue.spark.lake import LakeTable, describe_table, lake_table, read_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession


def restore(
    spark: SparkSession,
    servers: str,
    table: str | Path | LakeTable,
    target: str,
    *,
    table_format: str = "parquet",
    topic: str | None = None,
    start: Moment | None = None,
    end: Moment | None = None,
    keys: Sequence[bytes] = (),
    where: str | None = None,
    keep_partition: bool = False,
    partitions: int | None = None,
    partitioner: str = "mmh3",
    rate: float | None = None,
    checkpoint: str | Path | None = None,
    piece_rows: int = DEFAULT_PIECE_ROWS,
    options: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> JobReport:
    """Write archived messages to a topic, in order by key, each once.

    Keys, values, headers and times are kept. What is restored is settled when the job begins.

    Args:
        spark: The session.
        servers: The broker's Kafka address.
        table: The archive's folder, or a table as `goqueue.spark.lake.lake_table` describes it.
        target: The topic to write; created if it does not exist.
        table_format: `parquet`, `delta` or `iceberg`, where `table` is a folder.
        topic: Which topic's messages, where the table has several.
        start: Only messages of this time or later; a `timedelta` counts back from the first run.
        end: Only messages before this time.
        keys: Only messages with one of these keys.
        where: Only messages that match this SQL condition.
        keep_partition: Write to the original partition, instead of by key.
        partitions: The partitions of a new target; by default as many as were archived.
        partitioner: The partitioner for keys: `mmh3` or `murmur2`.
        rate: The rate limit in rows per second.
        checkpoint: A folder for the progress, from which a killed job resumes.
        piece_rows: How many rows are committed at once.
        options: Options of the connection.
        progress: Called with the progress of the job.

    Raises:
        OptionsError: arguments are invalid; it lists all problems.
        LakeError: the table cannot be read.
    """
    link = Link(servers, options or {})
    archive = lake_table(table_format, table) if isinstance(table, str | Path) else table
    wanted = MessageSelection(start, end, tuple(keys), where)
    to = Target(target, keep_partition, partitioner, rate)
    refuse(
        check_target(to, piece_rows, partitions)
        + sql_problems(spark, "where", where, is_condition=True)
        + _table_problems(archive)
    )
    identity = {
        "job": "restore", "table": str(archive.path), "format": str(archive.format),
        "topic": topic, "target": target, "keep_partition": keep_partition,
        "partitioner": partitioner, **wanted.identity(),
    }  # fmt: skip
    with open_ledger(checkpoint, identity) as ledger:
        filters = wanted.filters(ledger)
        load = _loader(spark, archive, topic, filters)
        messages = TableMessages(spark, load, filters)
        if ledger.entries.settled is None:
            _check_one_topic(load(), topic)
        settled = settle(ledger, messages)
        is_new = ensure_target(link, ledger, to, partitions)
        outcome = copy_messages(
            spark, link, messages, to,
            ledger=ledger, settled=settled, pace=Pace(piece_rows), progress=progress,
        )  # fmt: skip
        return JobReport(
            "restore",
            {
                "table": str(archive.path), "target": target, "target_made": is_new,
                **outcome.summary(),
            },
            [Table("partitions", partition_rows(ledger, outcome))],
            warnings=outcome.warnings,
        )  # fmt: skip


def _table_problems(archive: LakeTable) -> list[str]:
    """What keeps a table from being an archive."""
    state = describe_table(archive)
    if state is None:
        return [f"table: there is no {archive.format} table at {archive.path}"]
    missing = sorted({*COLUMNS.split(), "topic"} - set(state.schema.names))
    if missing:
        return [f"table: {archive.path} is no archive: it has no column {', '.join(missing)}"]
    return []


def _loader(
    spark: SparkSession, archive: LakeTable, topic: str | None, filters: Filters
) -> Callable[[], DataFrame]:
    """Reads the archive, only the days that matter."""

    def load() -> DataFrame:
        frame = read_table(spark, archive)
        if topic is not None:
            frame = frame.where(F.col("topic") == topic)
        if DATE_COLUMN in frame.columns:
            for moment_ms, is_wanted in (
                (filters.start_ms, F.col(DATE_COLUMN).__ge__),
                (filters.end_ms, F.col(DATE_COLUMN).__le__),
            ):
                if moment_ms is not None:
                    frame = frame.where(
                        is_wanted(F.date_from_unix_date(F.lit(moment_ms // DAY_MS)))
                    )
        return frame

    return load


def _check_one_topic(frame: DataFrame, topic: str | None) -> None:
    """Offsets of two topics are not to be mixed up.

    Raises:
        OptionsError: the table has several, and none was chosen.
    """
    if topic is not None:
        return
    found = sorted(row["topic"] for row in frame.select("topic").distinct().limit(10).collect())
    if len(found) > 1:
        raise OptionsError([f"topic: the table has several, say which: {', '.join(found)}"])
