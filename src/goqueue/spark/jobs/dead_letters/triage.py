"""`dlq-triage`: what is in the dead-letter queues, by cause, and what to do about each."""

from __future__ import annotations

import shlex
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window, functions as sql
from pyspark.storagelevel import StorageLevel

from goqueue.spark.jobs.dead_letters.letters import COLUMNS, described, find_letter_topics
from goqueue.spark.jobs.dead_letters.redriven_index import RedrivenIndex, look_up, without
from goqueue.spark.jobs.error_text import normalised
from goqueue.spark.jobs.link import Link
from goqueue.spark.jobs.reading import load, resolve, size
from goqueue.spark.jobs.report import JobReport, Progress, Row, Table, silent
from goqueue.spark.jobs.showing import show_key, show_time
from goqueue.spark.jobs.task_progress import watched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goqueue.spark.http_client import Http

_MAX_GROUPS: Final = 1000
"""That a report can have; what is not among the largest is counted together."""
_MAX_HOURS: Final = 24 * 14
"""Rows of hours that are shown, the newest: as long as the broker keeps dead letters."""
_CAUSE: Final = ("letters_in", "reason", "source_topic", "group", "cause")
_UNKNOWN: Final = "-"


def dlq_triage(
    spark: SparkSession,
    servers: str,
    topics: Sequence[str] = (),
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    top: int = 50,
    keys: int = 3,
    include_gone: bool = False,
    http: Http | None = None,
    options: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> JobReport:
    """Group dead letters by what killed them.

    Errors that differ only in numbers, ids, times and quoted texts are one cause. Letters that were
    redriven are left out, as far as that is known: see `redriven_index`.

    Args:
        spark: The session.
        servers: The broker.
        topics: Topics with dead letters, or topics whose letters are meant; none: all `*.dlq`.
        since_ms: Died from then on.
        until_ms: Died before then.
        top: How many causes are shown, the largest first.
        keys: How many of the most frequent keys are shown of each.
        include_gone: Count those too that were redriven.
        http: The broker's HTTP side, which knows what was redriven.
        options: Options of the connection, such as `kafka.sasl.username`.
        progress: Called with the progress of the job.

    Returns:
        Tables `causes` and `hours`; each cause has its number of letters, first and last death, one
        letter to look at, its most frequent keys and the command that redrives them.

    Raises:
        SparkSourceError: there is no such topic, or the broker is unavailable or refuses.
    """
    link = Link(servers, options or {})
    names = find_letter_topics(link, topics)
    ranges = resolve(link, names)
    known = RedrivenIndex() if include_gone else look_up(link, names, http)
    letters = load(spark, link, [ranges], COLUMNS)
    rows = _rows(without(letters, known), since_ms, until_ms)
    rows.persist(StorageLevel.DISK_ONLY)
    try:
        with watched(spark, "reading letters", progress):
            groups = _groups(rows, min(top, _MAX_GROUPS))
            cause_count = len(groups)
            if cause_count >= min(top, _MAX_GROUPS):  # there may be more than are shown
                cause_count = rows.select("id").distinct().count()
        with watched(spark, "counting keys and hours", progress):
            top_keys = _top_keys(rows, [each["id"] for each in groups], keys)
            hours = _hours(rows)
    finally:
        rows.unpersist()
    total = sum(each["letters"] for each in hours)
    shown = sum(each["letters"] for each in groups)
    summary: dict[str, str | int | None] = {
        "topics": ", ".join(names) or None,
        "offsets": size(ranges),
        "letters": total,
        "cause_count": cause_count,
        "in_other_causes": total - shown,
        "first_death": show_time(min((each[4] for each in hours), default=None)),
        "last_death": show_time(max((each[5] for each in hours), default=None)),
    }
    causes = [_cause_row(each, top_keys, since_ms, until_ms) for each in groups]
    return JobReport(
        "dlq-triage",
        summary,
        (Table("causes", causes), Table("hours", _hour_rows(hours))),
        warnings=known.warnings,
    )


def _rows(letters: DataFrame, since_ms: int | None, until_ms: int | None) -> DataFrame:
    """A row a letter, with what the report needs of it and nothing else."""
    found = described(letters)
    if since_ms is not None:
        found = found.where(sql.col("died_ms") >= since_ms)
    if until_ms is not None:
        found = found.where(sql.col("died_ms") < until_ms)
    cause = sql.udf(normalised, "string", useArrow=False)
    return found.select(
        sql.col("topic").alias("letters_in"),
        _said("reason").alias("reason"),
        _said("source_topic").alias("source_topic"),
        _said("group").alias("group"),
        cause("error").alias("cause"),
        sql.substring(sql.coalesce("error", sql.lit("")), 1, 500).alias("error"),
        "partition",
        "offset",
        "key",
        "died_ms",
        "attempts",
        "redriven",
    ).withColumn("id", sql.xxhash64(*_CAUSE))


def _said(name: str) -> Column:
    return sql.coalesce(sql.nullif(sql.col(name), sql.lit("")), sql.lit(_UNKNOWN))


def _groups(rows: DataFrame, top: int) -> list[Any]:
    sample = sql.struct("died_ms", "partition", "offset", "error")
    return (
        rows.groupBy("id", *_CAUSE)
        .agg(
            sql.count("*").alias("letters"),
            sql.min("died_ms").alias("first_ms"),
            sql.max("died_ms").alias("last_ms"),
            sql.max("attempts").alias("attempts"),
            sql.count_if(sql.col("redriven") > 0).alias("died_again"),
            sql.max(sample).alias("sample"),
        )
        .orderBy(sql.desc("letters"), *_CAUSE)
        .limit(top)
        .collect()
    )


def _top_keys(rows: DataFrame, ids: list[int], keys: int) -> dict[int, list[tuple[str, int]]]:
    if not ids or not keys:
        return {}
    order = Window.partitionBy("id").orderBy(sql.desc("count"), "key")
    counted = rows.where(sql.col("id").isin(ids)).groupBy("id", "key").count()
    best = counted.withColumn("place", sql.row_number().over(order)).where(f"place <= {keys}")
    found: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for each in best.orderBy("id", "place").collect():
        found[each["id"]].append((show_key(each["key"]), each["count"]))
    return found


def _hours(rows: DataFrame) -> list[Any]:
    hour = (sql.floor(sql.col("died_ms") / 3_600_000) * 3_600_000).alias("hour")
    counted = rows.groupBy(hour, "letters_in", "reason").agg(
        sql.count("*").alias("letters"), sql.min("died_ms"), sql.max("died_ms")
    )
    return sorted(counted.collect(), key=lambda each: tuple(each)[:3])


def _hour_rows(hours: Sequence[Any]) -> list[Row]:
    return [
        {
            "hour": show_time(each["hour"]),
            "letters_in": each["letters_in"],
            "reason": each["reason"],
            "letters": each["letters"],
        }
        for each in hours[-_MAX_HOURS:]
    ]


def _cause_row(
    group: Any,
    top_keys: dict[int, list[tuple[str, int]]],
    since_ms: int | None,
    until_ms: int | None,
) -> Row:
    sample = group["sample"]
    keys = ", ".join(f"{key} ({count})" for key, count in top_keys.get(group["id"], []))
    return {
        "letters": group["letters"],
        "reason": group["reason"],
        "topic": group["source_topic"],
        "group": group["group"],
        "error": group["cause"] or None,
        "first": show_time(group["first_ms"]),
        "last": show_time(group["last_ms"]),
        "attempts": group["attempts"],
        "died_again": group["died_again"],
        "sample": f"{group['letters_in']}/{sample['partition']}/{sample['offset']}",
        "sample_error": sample["error"] or None,
        "top_keys": keys or None,
        "redrive": redrive_command(group.asDict(), since_ms, until_ms),
    }


def redrive_command(group: dict[str, Any], since_ms: int | None, until_ms: int | None) -> str:
    """The command that redrives the letters of one cause, as it can be pasted into a shell."""
    words = ["goqueue", "pipeline", "job", "dlq-redrive", group["letters_in"]]
    for option, name in (("--reason", "reason"), ("--from", "source_topic"), ("--group", "group")):
        words += [option, "" if group[name] == _UNKNOWN else group[name]]
    words += ["--error", group["cause"]]
    for option, moment in (("--since", since_ms), ("--until", until_ms)):
        if moment is not None:
            words += [option, str(show_time(moment))]
    return shlex.join(words)
