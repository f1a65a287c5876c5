"""A topic to a new one with another number of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from goqueue.spark.errors import OptionsError, VerificationError
from goqueue.spark.jobs.ledger import Ledger, open_ledger
from goqueue.spark.jobs.link import Link, TopicRange, ranges_of
from goqueue.spark.jobs.messages import TopicMessages
from goqueue.spark.jobs.piecework import DEFAULT_PIECE_ROWS, Pace, partition_rows, refuse
from goqueue.spark.jobs.reading import load_topic
from goqueue.spark.jobs.report import JobReport, Progress, Row, Table, silent
from goqueue.spark.jobs.task_progress import rows_done
from goqueue.spark.jobs.topics.copying import (
    Target,
    check_target,
    copy_messages,
    kept_headers,
    note_target,
    require_target,
)
from goqueue.spark.kafka.topic_admin import create_topic, topic_settings

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


_PRIME: Final = 2_147_483_647
"""Checksums are summed up modulo this, so that a sum of billions of them fits."""
_READ: Final = "key value timestamp headers"
_SAME: Final = ("key", "value", "headers", "timestamp")
"""What a message and its copy have in common."""
_SAME_AT_OTHER_TIMES: Final = ("key", "value", "headers")
"""The same where the target has given copies the time of their arrival."""
_TIME_SETTING: Final = "message.timestamp.type"


def repartition(
    spark: SparkSession,
    servers: str,
    topic: str,
    target: str,
    partitions: int,
    *,
    partitioner: str = "mmh3",
    rate: float | None = None,
    fail_on_data_loss: bool = True,
    follow: bool = False,
    stop: threading.Event | None = None,
    verify: bool = True,
    checkpoint: str | Path | None = None,
    piece_rows: int = DEFAULT_PIECE_ROWS,
    options: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> JobReport:
    """Copy a topic to a new one with another number of partitions, in order by key.

    The new topic gets the settings of the old one. Run again with the same checkpoint, the job goes
    on with what has come meanwhile; with `follow` it does so by itself until it is stopped, so that
    producers and then consumers can move while it runs.

    Args:
        spark: The session.
        servers: The broker's Kafka address.
        topic: The topic to read.
        target: The topic to create.
        partitions: The number of partitions.
        partitioner: The partitioner for keys: `mmh3` or `murmur2`.
        rate: The rate limit in rows per second.
        fail_on_data_loss: Whether messages that were deleted before they were copied are an
            error, or a warning.
        follow: Copy new messages too, until `stop` is set or Ctrl-C is pressed.
        stop: Ends a job that follows.
        verify: Read both topics at the end, and compare counts and checksums of every key.
        checkpoint: A folder for the progress, from which the job resumes.
        piece_rows: How many rows are committed at once.
        options: Options of the connection.
        progress: Called with the progress of the job.

    Raises:
        OptionsError: arguments are invalid; it lists all problems.
        TopicMissingError: there is no such topic.
        DataLossError: messages were deleted before they were copied.
        VerificationError: the topics differ.
    """
    link = Link(servers, options or {})
    to = Target(target, partitioner=partitioner, rate=rate)
    problems = check_target(to, piece_rows, partitions)
    if target == topic:
        problems.append("target: a topic cannot be copied to itself; name a new one")
    if follow and checkpoint is None:
        problems.append("follow: needs a checkpoint, or what was done is forgotten in the end")
    refuse(problems)
    topic_id = link.topic_id(topic)
    identity = {
        "job": "repartition", "topic": topic, "topic_id": topic_id, "target": target,
        "partitions": partitions, "partitioner": partitioner,
    }  # fmt: skip
    messages = TopicMessages(spark, link, topic, fails_on_loss=fail_on_data_loss)
    with open_ledger(checkpoint, identity) as ledger:
        _make_target(link, ledger, topic, target, partitions)
        outcome = copy_messages(
            spark, link, messages, to,
            ledger=ledger, settled=None, progress=progress,
            pace=Pace(piece_rows, fail_on_data_loss, follow, stop),
        )  # fmt: skip
        checked: dict[str, str | int | bool | None] = {"verified": False}
        if verify:
            checked, warnings = _verify(
                spark, link, ledger, topic=topic, target=target, progress=progress
            )
            outcome.warnings += warnings
        return JobReport(
            "repartition",
            {"topic": topic, "target": target, **outcome.summary(), **checked},
            [
                Table("partitions", partition_rows(ledger, outcome)),
                Table("target partitions", _target_rows(link, target)),
            ],
            warnings=outcome.warnings,
        )


def _make_target(link: Link, ledger: Ledger, topic: str, target: str, partitions: int) -> None:
    """Made by the first run; that it is about to be is written down before."""
    notes = ledger.entries.notes
    with link.cluster() as cluster:
        require_target(cluster, ledger, target)
        is_there = target in cluster.topics([target])
        if "starts" not in notes:
            if is_there:
                text = (
                    f"target: {target} exists. Name a topic that does not; or, to go on with a "
                    "copy, the checkpoint that it began with"
                )
                raise OptionsError([text])
            starts = {each.partition: each.start for each in ranges_of(cluster, topic)}
            notes["starts"] = {str(number): at for number, at in starts.items()}
            ledger.entries.done = starts  # what is deleted from here on is missed
            ledger.store()
        if not is_there:
            settings = topic_settings(cluster, topic, only_own=True)
            create_topic(cluster, target, partitions, settings)
        note_target(cluster, ledger, target)


def _target_rows(link: Link, target: str) -> list[Row]:
    with link.cluster() as cluster:
        return [
            {"partition": each.partition, "offsets": each.size}
            for each in ranges_of(cluster, target)
        ]


# --- Is it the same? -----------------------------------------------------------------------------


def _verify(
    spark: SparkSession, link: Link, ledger: Ledger, *, topic: str, target: str, progress: Progress
) -> tuple[dict[str, str | int | bool | None], list[str]]:
    """Compare both topics key by key.

    Raises:
        VerificationError: they differ; says in how many keys, and names some.
    """
    entries = ledger.entries
    starts = {int(number): at for number, at in dict(entries.notes["starts"]).items()}  # type: ignore[call-overload]  # what JSON made of it
    copied = [
        TopicRange(number, starts.get(number, 0), end)
        for number, end in sorted(entries.done.items())
    ]
    with link.cluster() as cluster:
        earliest = {each.partition: each.start for each in ranges_of(cluster, topic)}
        made = ranges_of(cluster, target)
        settings = topic_settings(cluster, target)
    deleted = {
        topic: [each for each in copied if earliest.get(each.partition, 0) > each.start],
        target: [each for each in made if each.start > 0],
    }
    for name, ranges in deleted.items():
        if ranges:
            numbers = ", ".join(str(each.partition) for each in ranges)
            return {"verified": False}, [
                f"not verified: messages of partition {numbers} of {name} have been deleted since"
            ]
    if not any(each.size for each in [*copied, *made]):
        return {"verified": True, "keys": 0}, []
    same = _SAME_AT_OTHER_TIMES if settings.get(_TIME_SETTING) == "LogAppendTime" else _SAME
    with rows_done(spark, progress, "verifying", 2 * entries.rows):
        compared = _compare(
            _counted(load_topic(spark, link, topic, _READ, _filled(copied)), same, 1),
            _counted(load_topic(spark, link, target, _READ, _filled(made)), same, -1),
        )
    if not compared["differing_keys"]:
        return {
            "verified": True, "keys": compared["keys"], "checksum": compared["checksum"],
        }, []  # fmt: skip
    text = (
        f"{target} does not hold what {topic} does: {compared['differing_keys']} of "
        f"{compared['keys']} keys differ, {compared['example']!r} among them"
    )
    if "compact" in settings.get("cleanup.policy", ""):
        return {"verified": False}, [f"not verified: {text}. Both are compacted, each in its time"]
    raise VerificationError(text)


def _filled(ranges: Sequence[TopicRange]) -> list[TopicRange]:
    """Without those that have nothing, unless none has."""
    return [each for each in ranges if each.size] or list(ranges[:1])


def _counted(frame: DataFrame, same: Sequence[str], sign: int) -> DataFrame:
    """Each message as a key, a count of one, and a checksum of all that it says."""
    copied = frame.withColumn("headers", kept_headers())
    checksum = F.pmod(F.xxhash64(*same), F.lit(_PRIME))
    return copied.select(
        "key", F.lit(sign).cast("bigint").alias("one"), (checksum * sign).alias("checksum")
    )


def _compare(old: DataFrame, new: DataFrame) -> dict[str, str | int | bool | None]:
    """Equal messages cancel out: what is left of a key is what differs."""
    by_key = (
        old.unionAll(new)
        .groupBy("key")
        .agg(
            F.sum("one").alias("more"),
            F.sum("checksum").alias("off"),
            F.sum(F.when(F.col("one") > 0, F.col("checksum"))).alias("checksum"),
        )
    )
    differs = (F.col("more") != 0) | (F.col("off") != 0)
    (row,) = by_key.agg(
        F.count(F.lit(1)).alias("keys"),
        F.count(F.when(differs, 1)).alias("differing"),
        F.min(F.when(differs, F.coalesce(F.col("key"), F.lit(b"")))).alias("example"),
        F.sum("checksum").alias("checksum"),
    ).collect()
    return {
        "keys": row["keys"],
        "differing_keys": row["differing"],
        "example": bytes(row["example"] or b"").decode("utf-8", "replace"),
        "checksum": f"{(row['checksum'] or 0) & (2**64 - 1):016x}",
    }
