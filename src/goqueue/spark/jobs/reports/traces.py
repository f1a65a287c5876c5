"""`trace-report`: how long messages take, stage by stage, from the files that tracing writes."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, functions as sql

from goqueue.spark.errors import SparkSourceError
from goqueue.spark.jobs.reading import check_share
from goqueue.spark.jobs.report import JobReport, Progress, Row, Table, silent
from goqueue.spark.jobs.reports import histograms
from goqueue.spark.jobs.reports.stages import OUTCOMES, STAGES, TOTAL, Found, Happened, found_in
from goqueue.spark.jobs.showing import show_time
from goqueue.spark.jobs.task_progress import watched
from goqueue.tracing.context import derived_id, offset_in

if TYPE_CHECKING:
    from collections.abc import Sequence


_MAX_COUNT: Final = 1_000_000
"""Neighbours that one entry may be of; a line that says more is no entry."""
_MAX_EVENTS: Final = 10_000
"""Events of one trace that are looked at, the first ones: a message with more is rare, and ill."""
_DAMAGE: Final = "_damage"
_ENTRY: Final = f"""
    event string, at_ns bigint, topic string, partition int, offset bigint, count bigint,
    place string, trace string, duration_ns bigint, `group` string, deliver_at_ms bigint,
    {_DAMAGE} string
"""
_FOUND: Final = "array<struct<what:string,topic:string,group:string,took_ns:bigint>>"
_SAMPLE: Final = 1_000_000


def trace_report(
    spark: SparkSession,
    paths: str | Sequence[str],
    *,
    topics: Sequence[str] = (),
    since_ms: int | None = None,
    until_ms: int | None = None,
    slowest: int = 10,
    sample: float | None = None,
    progress: Progress = silent,
) -> JobReport:
    """Show how long each stage of a message's life takes, by topic and group.

    Args:
        spark: The session.
        paths: Files of traces, folders with such files (`data/traces`), or patterns of either, as
            Spark reads them. Several brokers' files together are fine.
        topics: Only messages of these topics.
        since_ms: Only what happened from then on.
        until_ms: Only what happened before then.
        slowest: How many of the slowest messages are shown.
        sample: Look at this share of the messages only, each with all that happened to it.
        progress: Called with the progress of the job.

    Returns:
        Tables `stages` (percentiles in ms, right to 1 %), `outcomes` (shares of messages),
        `slowest` and `damaged` (files with lines that are no events; those are passed over).

    Raises:
        OptionsError: arguments are invalid.
        SparkSourceError: there are no such files.
    """
    check_share(sample)
    lines = _lines(spark, [paths] if isinstance(paths, str) else list(paths))
    with watched(spark, "reading traces", progress):
        damaged = _damaged(lines)
        found = _found(lines, since_ms, until_ms, sample)
        if topics:
            found = found.where(sql.col("topic").isin(list(topics)))
        counted = (
            found.groupBy("what", "topic", "group", histograms.class_column(sql.col("took_ns")))
            .agg(sql.count("*"), sql.max("took_ns"))
            .collect()
        )
    with watched(spark, "looking for the slowest", progress):
        slow = (
            found.where(sql.col("what") == TOTAL)
            .orderBy(sql.desc("took_ns"), "key")
            .limit(max(0, slowest))
            .collect()
        )
    outcomes = _outcome_rows(counted)
    messages = sum(int(str(each["messages"])) for each in outcomes)
    bad = sum(each["lines"] for each in damaged)
    warnings = [f"{bad} lines are no trace events and were passed over"] if bad else []
    if sample is not None and sample < 1:
        warnings.append(f"a sample: {sample:.2%} of the messages; counts are of the sample")
    return JobReport(
        "trace-report",
        {"messages": messages, "topics": len(outcomes), "damaged_lines": bad},
        (
            Table("stages", _stage_rows(counted)),
            Table("outcomes", outcomes),
            Table("slowest", [_slow_row(each) for each in slow]),
            Table("damaged", damaged),
        ),
        warnings=warnings,
    )


# --- Reading -------------------------------------------------------------------------------------


def _lines(spark: SparkSession, paths: list[str]) -> DataFrame:
    """Every line as an entry, or as damage."""
    named = [f"{each}/traces-*.json" if Path(each).is_dir() else each for each in paths]
    try:
        read = (
            spark.read.schema(_ENTRY)
            .option("mode", "PERMISSIVE")
            .option("columnNameOfCorruptRecord", _DAMAGE)
            .json(named)
        )
    except AnalysisException as error:
        raise SparkSourceError(
            f"no traces at {', '.join(paths)}: {error.getCondition()}"
        ) from error
    defaults = {
        "topic": "",
        "partition": -1,
        "offset": -1,
        "count": 1,
        "place": "",
        "trace": "",
        "duration_ns": 0,
        "group": "",
        "deliver_at_ms": 0,
    }
    whole = read.withColumns(
        {
            name: sql.coalesce(sql.col(f"`{name}`"), sql.lit(value))
            for name, value in defaults.items()
        }
    )
    return whole.withColumns({"file": sql.col("_metadata.file_name"), "is_sound": _is_sound()})


def _is_sound() -> Column:
    """The same rule as the broker's: see `Entry.is_sound`."""
    count = sql.col("count")
    named = (count == 1) & sql.col("trace").rlike("^[0-9a-f]{32}$")
    placed = sql.col("place").rlike("^[0-9a-f]{16}$") & (sql.col("offset") >= 0)
    return (
        sql.col(_DAMAGE).isNull()
        & sql.col("event").isNotNull()
        & sql.col("at_ns").isNotNull()
        & count.between(1, _MAX_COUNT)
        & sql.when(sql.col("trace") != "", named).otherwise(placed)
    )


def _damaged(lines: DataFrame) -> list[dict[str, Any]]:
    bad = lines.where(~sql.col("is_sound")).groupBy("file").count()
    return [
        {"file": each["file"], "lines": each["count"]} for each in bad.orderBy("file").collect()
    ]


def _found(
    lines: DataFrame, since_ms: int | None, until_ms: int | None, sample: float | None
) -> DataFrame:
    """What is to be counted: a row for each stage of each message."""
    entries = lines.where("is_sound")
    if since_ms is not None:
        entries = entries.where(sql.col("at_ns") >= since_ms * 1_000_000)
    if until_ms is not None:
        entries = entries.where(sql.col("at_ns") < until_ms * 1_000_000)
    named = sql.udf(_key_of_trace, "string", useArrow=False)
    at = sql.explode(sql.sequence("offset", sql.col("offset") + sql.col("count") - 1))
    events = (
        entries.withColumn("named", named("trace"))
        .select("*", at.alias("at"))
        .withColumn(
            "key", sql.coalesce("named", sql.concat_ws(":", "place", sql.col("at").cast("string")))
        )
    )
    if sample is not None and sample < 1:
        kept = sql.pmod(sql.xxhash64("key"), sql.lit(_SAMPLE)) < round(sample * _SAMPLE)
        events = events.where(kept)
    happened = sql.struct("at_ns", "event", "topic", "group", "duration_ns", "deliver_at_ms")
    place = sql.struct("topic", "partition", sql.col("at").alias("offset"))
    placed_ns = sql.when(sql.col("partition") >= 0, sql.col("at_ns"))  # null counts for nothing
    traces = events.groupBy("key").agg(
        sql.slice(sql.sort_array(sql.collect_list(happened)), 1, _MAX_EVENTS).alias("events"),
        sql.min_by(place, placed_ns).alias("placed"),
        sql.min("at_ns").alias("began_ns"),
    )
    find = sql.udf(_find, _FOUND, useArrow=False)
    rows = traces.select(
        "key", "placed", "began_ns", sql.size("events").alias("events"), find("events").alias("all")
    )
    return rows.select("key", "placed", "began_ns", "events", sql.inline("all"))


def _key_of_trace(trace: str) -> str | None:
    """A named trace as the place and offset that it would be derived from.

    A dead letter names the trace that its message had without a name: so they are one.
    """
    return f"{trace[:16]}:{offset_in(trace[:16], trace)}" if trace else None


def _find(events: Sequence[Any]) -> list[Found]:
    return found_in(Happened(*each) for each in events)


# --- Telling -------------------------------------------------------------------------------------


def _stage_rows(counted: Sequence[Any]) -> list[Row]:
    classes: dict[tuple[str, str, str], dict[int, int]] = defaultdict(dict)
    largest: dict[tuple[str, str, str], int] = {}
    for what, topic, group, number, count, took_ns in counted:
        if what in STAGES:
            key = topic, what, group
            classes[key][number] = count
            largest[key] = max(largest.get(key, 0), took_ns)
    order = list(STAGES)
    rows: list[Row] = []
    for topic, what, group in sorted(
        classes, key=lambda key: (key[0], order.index(key[1]), key[2])
    ):
        counts, most = classes[topic, what, group], largest[topic, what, group]
        rows.append(
            {
                "topic": topic,
                "stage": what,
                "group": group or None,
                "messages": sum(counts.values()),
                "p50_ms": _ms(histograms.percentile(counts, 0.5, most)),
                "p90_ms": _ms(histograms.percentile(counts, 0.9, most)),
                "p99_ms": _ms(histograms.percentile(counts, 0.99, most)),
                "max_ms": _ms(most),
            }
        )
    return rows


def _ms(took_ns: float | None) -> float | None:
    return None if took_ns is None else float(f"{took_ns / 1e6:.4g}")


def _outcome_rows(counted: Sequence[Any]) -> list[Row]:
    counts: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(OUTCOMES, 0))
    for what, topic, _, _, count, _ in counted:
        if what in OUTCOMES:
            counts[topic][what] += count
    return [
        {
            "topic": topic,
            "messages": each["seen"],
            **{name: round(each[name] / each["seen"], 4) for name in OUTCOMES[1:]},
        }
        for topic, each in sorted(counts.items())
    ]


def _slow_row(row: Any) -> Row:
    place, _, offset = row["key"].partition(":")
    placed = row["placed"]
    return {
        "trace": derived_id(place, int(offset)),
        "message": "/".join(map(str, placed)) if placed is not None else None,
        "start": show_time(row["began_ns"] // 1_000_000),
        "took_ms": _ms(row["took_ns"]),
        "events": row["events"],
    }
