"""`skew-report`: which keys and partitions of a topic hold how much, of what size, and when."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, SparkSession, functions as sql
from pyspark.storagelevel import StorageLevel

from goqueue.model.partitioning import PARTITIONERS
from goqueue.spark.errors import OptionsError
from goqueue.spark.jobs.link import Link
from goqueue.spark.jobs.reading import Ranges, load, resolve, sample_of
from goqueue.spark.jobs.report import JobReport, Progress, Row, Table, silent
from goqueue.spark.jobs.reports import histograms
from goqueue.spark.jobs.reports.balance import EVEN, Outlook, gini, max_to_mean, outlooks, suggested
from goqueue.spark.jobs.reports.skew_counts import Skew
from goqueue.spark.jobs.reports.skew_plot import skew_plot
from goqueue.spark.jobs.showing import show_key, show_time
from goqueue.spark.jobs.task_progress import watched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_MAX_TOP: Final = 1000
HOT_KEYS: Final = 1000
"""That are looked at one by one for a suggestion; all others are taken to be even."""
_MAX_MOMENTS: Final = 500
_MS: Final = {"minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_SHARES: Final = (0.5, 0.9, 0.99, 0.999)
_Z: Final = 1.96
"""Of a normal distribution: 19 of 20 values are no further away than this."""


def skew_report(
    spark: SparkSession,
    servers: str,
    topic: str,
    *,
    since_ms: int | None = None,
    until_ms: int | None = None,
    top: int = 20,
    every: str = "hour",
    sample: float | None = None,
    plot: str | Path | None = None,
    partitioner: str = "mmh3",
    options: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> JobReport:
    """Count a topic's messages by key, partition, size and time.

    Args:
        spark: The session.
        servers: The broker.
        topic: The topic.
        since_ms: From the first message of this time on.
        until_ms: Up to the first message of this time.
        top: How many of the hottest keys are shown. Their counts are exact, unless it is a sample.
        every: How time is cut: `minute`, `hour` or `day`.
        sample: Read only this share of each partition.
        plot: Draw it into this file, as SVG.
        partitioner: How producers choose partitions, `mmh3` or `murmur2`; for the suggestion.
        options: Options of the connection, such as `kafka.sasl.username`.
        progress: Called with the progress of the job.

    Returns:
        Tables `partitions`, `keys`, `sizes`, `times` and `outlook`, and a suggested number of
        partitions.

    Raises:
        OptionsError: arguments are invalid.
        SparkSourceError: there is no such topic, or the broker is unavailable or refuses.
    """
    _check(top, every, partitioner, plot)
    link = Link(servers, options or {})
    sampled = sample_of(resolve(link, [topic], since_ms, until_ms), sample)
    with link.cluster() as cluster:
        count = len(cluster.topics([topic])[topic].partitions)
    skew = _counted(
        spark,
        link,
        sampled.pieces,
        partition_count=count,
        moment_ms=_MS[every],
        top=top,
        progress=progress,
    )
    hot = [(key, messages) for key, messages, _ in skew.keys if key is not None]
    rest = skew.messages - sum(messages for _, messages in hot)
    views = outlooks(hot, rest, count, PARTITIONERS[partitioner])
    report = JobReport(
        "skew-report",
        _summary(topic, skew, suggested(views, count) if skew.messages else count)
        | {"sampled": not sampled.is_whole},
        (
            Table("partitions", skew.partitions),
            Table("keys", _key_rows(skew, top, is_whole=sampled.is_whole)),
            Table("sizes", _size_rows(skew)),
            Table("times", _time_rows(skew)),
            Table("outlook", _outlook_rows(views)),
        ),
        warnings=[*sampled.warnings(), *_advice(skew, hot, count)],
    )
    if plot is None:
        return report
    path = Path(plot)
    path.write_text(skew_plot(topic, skew, top), encoding="utf-8")
    return JobReport(report.job, report.summary, report.tables, (str(path),), report.warnings)


def _check(top: int, every: str, partitioner: str, plot: str | Path | None) -> None:
    problems = []
    if not 0 < top <= _MAX_TOP:
        problems.append(f"top is {top}: expected 1 to {_MAX_TOP}")
    if every not in _MS:
        problems.append(f"every is {every!r}: expected {', '.join(_MS)}")
    if partitioner not in PARTITIONERS:
        problems.append(f"partitioner is {partitioner!r}: expected {', '.join(PARTITIONERS)}")
    if plot is not None and not Path(plot).absolute().parent.is_dir():
        problems.append(f"plot is {plot}: there is no such folder")
    if problems:
        raise OptionsError(problems)


# --- Counting ------------------------------------------------------------------------------------


def _counted(
    spark: SparkSession,
    link: Link,
    pieces: Sequence[Ranges],
    *,
    partition_count: int,
    moment_ms: int,
    top: int,
    progress: Progress,
) -> Skew:
    """Two passes, each of which aggregates as it reads; neither keeps a message."""
    size = sql.coalesce(sql.octet_length("key"), sql.lit(0)) + sql.coalesce(
        sql.octet_length("value"), sql.lit(0)
    )
    moment = (sql.floor(sql.unix_millis("timestamp") / moment_ms) * moment_ms).alias("moment")
    columns = "partition timestamp key value"
    messages = load(spark, link, pieces, columns).select(
        "partition", "key", moment, size.cast("bigint").alias("size")
    )
    with watched(spark, "counting partitions and sizes", progress):
        classes = (
            messages.groupBy("partition", "moment", histograms.class_column(sql.col("size")))
            .agg(sql.count("*").alias("messages"), sql.sum("size"), sql.max("size"))
            .collect()
        )
    with watched(spark, "counting keys", progress):
        keys, distinct = _keys(messages, max(top, HOT_KEYS))
    return _skew(classes, keys, distinct, partition_count, moment_ms)


def _keys(messages: DataFrame, most: int) -> tuple[list[tuple[bytes | None, int, int]], int]:
    counted = messages.groupBy("key").agg(
        sql.count("*").alias("messages"), sql.sum("size").alias("bytes")
    )
    counted.persist(StorageLevel.DISK_ONLY)
    try:
        rows = counted.orderBy(sql.desc("messages"), "key").limit(most).collect()
        distinct = counted.agg(sql.count("key")).collect()[0][0]
    finally:
        counted.unpersist()
    hottest = [
        (None if each["key"] is None else bytes(each["key"]), each["messages"], each["bytes"])
        for each in rows
    ]
    return hottest, distinct


def _skew(
    classes: Sequence[Any],
    keys: Sequence[tuple[bytes | None, int, int]],
    distinct: int,
    partition_count: int,
    moment_ms: int,
) -> Skew:
    by_partition: Counter[int] = Counter(dict.fromkeys(range(partition_count), 0))
    bytes_of: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    messages_at: Counter[int] = Counter()
    bytes_at: Counter[int] = Counter()
    for partition, moment, size_class, messages, size, _ in classes:
        by_partition[partition] += messages
        bytes_of[partition] += size
        sizes[size_class] += messages
        messages_at[moment] += messages
        bytes_at[moment] += size
    total, total_bytes = by_partition.total(), bytes_of.total()
    mean = total / max(1, len(by_partition))
    partitions: list[Row] = [
        {
            "partition": number,
            "messages": count,
            "bytes": bytes_of[number],
            "share": round(count / total, 4) if total else 0.0,
            "to_mean": round(count / mean, 3) if mean else 0.0,
        }
        for number, count in sorted(by_partition.items())
    ]
    known = sorted(messages_at)[-_MAX_MOMENTS:]
    if known and (known[-1] - known[0]) // moment_ms < _MAX_MOMENTS:
        known = list(range(known[0], known[-1] + 1, moment_ms))  # silence is worth seeing
    moments = [(at, messages_at[at], bytes_at[at]) for at in known]
    largest = max((each[5] for each in classes), default=0)
    return Skew(partitions, keys, distinct, sizes, moments, total, total_bytes, largest)


# --- Telling -------------------------------------------------------------------------------------


def _summary(topic: str, skew: Skew, partitions: int) -> dict[str, Any]:
    messages = [int(each["messages"] or 0) for each in skew.partitions]
    sizes = [int(each["bytes"] or 0) for each in skew.partitions]
    hottest = next((each for each in skew.keys if each[0] is not None), None)
    return {
        "topic": topic,
        "messages": skew.messages,
        "bytes": skew.bytes,
        "partition_count": len(skew.partitions),
        "max_to_mean": round(max_to_mean(messages), 3),
        "max_to_mean_bytes": round(max_to_mean(sizes), 3),
        "gini": round(gini(messages), 4),
        "distinct_keys": skew.distinct_keys,
        "hottest_key": None if hottest is None else show_key(hottest[0]),
        "hottest_share": None if hottest is None else round(hottest[1] / skew.messages, 4),
        "suggested_partitions": partitions,
    }


def _key_rows(skew: Skew, top: int, *, is_whole: bool) -> list[Row]:
    rows: list[Row] = []
    for key, messages, size in skew.keys[:top]:
        share = messages / skew.messages
        row: dict[str, str | int | float] = {
            "key": show_key(key),
            "messages": messages,
            "bytes": size,
            "share": round(share, 4),
        }
        if not is_whole:
            row["share_error"] = round(_Z * (share * (1 - share) / skew.messages) ** 0.5, 4)
        rows.append(row)
    return rows


def _size_rows(skew: Skew) -> list[Row]:
    found: list[Row] = [
        {"of_messages": f"{share:.4g}", "at_most_bytes": _rounded(skew, share)} for share in _SHARES
    ]
    mean = round(skew.bytes / skew.messages) if skew.messages else None
    return [
        {"of_messages": "mean", "at_most_bytes": mean},
        *found,
        {"of_messages": "all", "at_most_bytes": skew.largest_bytes},
    ]


def _rounded(skew: Skew, share: float) -> int | None:
    found = histograms.percentile(skew.sizes, share, skew.largest_bytes)
    return None if found is None else round(found)


def _time_rows(skew: Skew) -> list[Row]:
    return [
        {"from": show_time(at), "messages": messages, "bytes": size}
        for at, messages, size in skew.moments
    ]


def _outlook_rows(views: Sequence[Outlook]) -> list[Row]:
    return [{"partitions": each.partitions, "max_to_mean": round(each[1], 3)} for each in views]


def _advice(skew: Skew, hot: Sequence[tuple[bytes, int]], count: int) -> list[str]:
    if not hot or not skew.messages:
        return []
    key, messages = hot[0]
    share = messages / skew.messages
    if share * count <= EVEN - 1:
        return []  # too little to make its partition uneven by itself
    found = f"key {show_key(key)} alone holds {share:.1%} of the messages"
    share_of_one = f"a partition's share is {1 / count:.1%}"
    return [f"{found}, where {share_of_one}: more partitions would not spread it, split the key"]
