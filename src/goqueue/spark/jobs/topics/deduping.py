"""A topic without its repetitions, to a new topic; and a topic with the newest of each key only."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import (
    Observation,
    Window,
    functions as F,  # noqa: N812 - as everyone writes it
)

from goqueue.spark.jobs.ledger import Ledger, open_ledger
from goqueue.spark.jobs.link import Link
from goqueue.spark.jobs.messages import COLUMNS, TableMessages, TopicMessages, sql_problems
from goqueue.spark.jobs.piecework import DEFAULT_PIECE_ROWS, Outcome, Pace, refuse
from goqueue.spark.jobs.reading import load_topic
from goqueue.spark.jobs.report import JobReport, Progress, silent
from goqueue.spark.jobs.task_progress import rows_done
from goqueue.spark.jobs.topics.copying import (
    MessageSelection,
    Target,
    check_target,
    copy_messages,
    ensure_target,
    require_target,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from goqueue.spark.jobs.moments import Moment

Keep = Literal["first", "last"]
Order = Literal["offset", "timestamp"]
_KEEPS: Final = ("first", "last")
_ORDERS: Final = ("offset", "timestamp")


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which messages stay."""

    by: str = "key"
    """In SQL: messages with the same are the same; null is never the same."""
    keep: Keep = "first"
    order: Order = "offset"
    window_ms: int | None = None
    drops_tombstones: bool = False

    def apply(self, frame: DataFrame) -> DataFrame:
        """The survivors. Spark ranks within groups that it shuffles, and spills what is large."""
        keys = [F.expr(self.by)]
        if self.window_ms is not None:
            keys.append(F.floor(F.unix_millis("timestamp") / self.window_ms))
        # What is null is not the same as anything: each such message is a group of its own.
        keys.append(F.when(keys[0].isNull(), F.struct("partition", "offset")))
        order = ["partition", "offset"]
        if self.order == "timestamp":
            order.insert(0, "timestamp")
        ordered: list[Column] = [
            F.col(each) if self.keep == "first" else F.col(each).desc() for each in order
        ]
        rank = F.row_number().over(Window.partitionBy(*keys).orderBy(*ordered))
        found = frame.select("*", rank.alias("_rank")).where("_rank = 1").drop("_rank")
        return found.where("value IS NOT NULL") if self.drops_tombstones else found

    def identity(self) -> dict[str, object]:
        return {
            "by": self.by, "keep": self.keep, "order": self.order, "window_ms": self.window_ms,
            "drops_tombstones": self.drops_tombstones,
        }  # fmt: skip

    def problems(self, spark: SparkSession) -> list[str]:
        found = sql_problems(spark, "by", self.by)
        if self.keep not in _KEEPS:
            found.append(f"keep: expected {' or '.join(_KEEPS)}, not {self.keep!r}")
        if self.order not in _ORDERS:
            found.append(f"order: expected {' or '.join(_ORDERS)}, not {self.order!r}")
        if self.window_ms is not None and self.window_ms < 1:
            found.append(f"window_ms: expected 1 and up, not {self.window_ms}")
        return found


def dedupe(
    spark: SparkSession,
    servers: str,
    topic: str,
    target: str,
    *,
    by: str = "key",
    keep: Keep = "first",
    order: Order | None = None,
    window_ms: int | None = None,
    start: Moment | None = None,
    end: Moment | None = None,
    partitions: int | None = None,
    partitioner: str = "mmh3",
    rate: float | None = None,
    checkpoint: str | Path | None = None,
    piece_rows: int = DEFAULT_PIECE_ROWS,
    options: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> JobReport:
    """Copy a topic without repetitions, in the order of the original offsets.

    Args:
        spark: The session.
        servers: The broker's Kafka address.
        topic: The topic to read.
        target: The topic to write; created with the settings of the source if it does not exist.
        by: What makes messages the same, in SQL: `key`, `value`, or an id inside of the value as in
            `get_json_object(CAST(value AS STRING), '$.id')`. Where it is null, a message stays.
        keep: Which of the same messages stays: `first` or `last`.
        order: What first and last mean: `offset`, or `timestamp` where the same messages may be in
            several partitions. By key it is the offset, otherwise the time.
        window_ms: Messages are the same only within such a stretch of time (from 1970 on).
        start: Only messages of this time or later; a `timedelta` counts back from the first run.
        end: Only messages before this time.
        partitions: The partitions of a new target; by default as many as the topic has.
        partitioner: The partitioner for keys: `mmh3` or `murmur2`.
        rate: The rate limit in rows per second.
        checkpoint: A folder that driver and executors share; with it, a job that was killed goes
            on when it is run again. The messages that stay are kept there until the job is done.
        piece_rows: How many rows are committed at once.
        options: Options of the connection.
        progress: Called with the progress of the job.

    Raises:
        OptionsError: arguments are invalid; it lists all problems.
        TopicMissingError: there is no such topic.
    """
    rule = _Rule(by, keep, order or ("offset" if by == "key" else "timestamp"), window_ms)
    return _run(
        "dedupe", spark, Link(servers, options or {}), topic,
        to=Target(target, partitioner=partitioner, rate=rate), rule=rule,
        wanted=MessageSelection(start, end), partitions=partitions, checkpoint=checkpoint,
        piece_rows=piece_rows, progress=progress,
    )  # fmt: skip


def compact(
    spark: SparkSession,
    servers: str,
    topic: str,
    target: str,
    *,
    keep_tombstones: bool = False,
    partitions: int | None = None,
    partitioner: str = "mmh3",
    rate: float | None = None,
    checkpoint: str | Path | None = None,
    piece_rows: int = DEFAULT_PIECE_ROWS,
    options: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> JobReport:
    """Copy the newest message of each key, and none of a key whose newest is a tombstone.

    Messages without a key stay. The arguments that `dedupe` has too mean the same.

    Args:
        spark: The session.
        servers: The broker's Kafka address.
        topic: The topic to read.
        target: The topic to write; created with the settings of the source if it does not exist.
        keep_tombstones: A tombstone that is the newest of its key stays.
        partitions: The partitions of a new target.
        partitioner: The partitioner for keys.
        rate: The rate limit in rows per second.
        checkpoint: A folder that driver and executors share.
        piece_rows: How many rows are committed at once.
        options: Options of the connection.
        progress: Called with the progress of the job.
    """
    rule = _Rule(keep="last", drops_tombstones=not keep_tombstones)
    return _run(
        "compact", spark, Link(servers, options or {}), topic,
        to=Target(target, partitioner=partitioner, rate=rate), rule=rule, wanted=MessageSelection(),
        partitions=partitions, checkpoint=checkpoint, piece_rows=piece_rows, progress=progress,
    )  # fmt: skip


def _run(
    job: str,
    spark: SparkSession,
    link: Link,
    topic: str,
    *,
    to: Target,
    rule: _Rule,
    wanted: MessageSelection,
    partitions: int | None,
    checkpoint: str | Path | None,
    piece_rows: int,
    progress: Progress,
) -> JobReport:
    problems = check_target(to, piece_rows, partitions) + rule.problems(spark)
    if to.topic == topic:
        problems.append("target: a topic cannot be cleaned up in its place; name another one")
    refuse(problems)
    topic_id = link.topic_id(topic)
    identity = {
        "job": job, "topic": topic, "topic_id": topic_id, "target": to.topic,
        "partitioner": to.partitioner, **rule.identity(), **wanted.identity(),
    }  # fmt: skip
    with (
        open_ledger(checkpoint, identity) as ledger,
        _work_folder(checkpoint) as folder,
    ):
        notes = ledger.entries.notes
        with link.cluster() as cluster:
            require_target(cluster, ledger, to.topic)
        if notes.get("is_over"):
            outcome = Outcome(warnings=["all of it was done before"])
        else:
            if "read" not in notes:
                messages = TopicMessages(spark, link, topic, wanted.filters(ledger))
                _keep_survivors(rule, messages, ledger, folder, progress)
            ensure_target(link, ledger, to, partitions, like=topic)
            survivors = TableMessages(spark, lambda: spark.read.parquet(str(folder)))
            outcome = copy_messages(
                spark, link, survivors, to,
                ledger=ledger, settled=survivors.there(), pace=Pace(piece_rows), progress=progress,
            )  # fmt: skip
            notes["is_over"] = True
            ledger.store()
        shutil.rmtree(folder, ignore_errors=True)
    read, kept = int(str(notes["read"])), ledger.entries.rows
    return JobReport(
        job,
        {
            "topic": topic, "target": to.topic, "read": read, "kept": kept,
            "dropped": read - kept, **outcome.summary(),
        },
        warnings=outcome.warnings,
    )  # fmt: skip


def _keep_survivors(
    rule: _Rule, messages: TopicMessages, ledger: Ledger, folder: Path, progress: Progress
) -> None:
    """Write what stays to a folder, in order, so that a piece of it is found in a few files.

    Nothing is written to the target before that: a run that was killed here begins anew, with what
    is there then.
    """
    entries = ledger.entries
    entries.settled = messages.there()
    spark, topic = messages.spark, messages.topic
    frame = load_topic(spark, messages.link, topic, COLUMNS, entries.settled)
    seen = Observation()
    with rows_done(spark, progress, f"reading {topic}", sum(each.size for each in entries.settled)):
        (
            rule.apply(messages.filters.apply(frame).observe(seen, F.count(F.lit(1)).alias("rows")))
            .repartitionByRange("partition", "offset")
            .sortWithinPartitions("partition", "offset")
            .write.mode("overwrite")
            .parquet(str(folder))
        )
    entries.notes["read"] = int(seen.get["rows"])
    ledger.store()


@contextmanager
def _work_folder(checkpoint: str | Path | None) -> Iterator[Path]:
    """Where the survivors are between the two halves of the job."""
    if checkpoint is not None:
        yield Path(checkpoint) / "survivors"
        return
    with tempfile.TemporaryDirectory(prefix="goqueue-job-", ignore_cleanup_errors=True) as folder:
        yield Path(folder) / "survivors"
