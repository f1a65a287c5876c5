"""Writing messages to a topic in pieces: in order, once each, and not faster than is wanted."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import (
    Observation,
    functions as F,  # noqa: N812 - as everyone writes it
)

from goqueue.model.delivery import DELIVER_AT_HEADER
from goqueue.model.partitioning import PARTITIONERS
from goqueue.spark import clock
from goqueue.spark.errors import OptionsError
from goqueue.spark.jobs.messages import Filters, Messages
from goqueue.spark.jobs.moments import Moment, as_asked, as_ms
from goqueue.spark.jobs.piecework import (
    Outcome,
    Pace,
    Work,
    Written,
    do_pieces,
    message_bytes,
    refuse,
)
from goqueue.spark.jobs.showing import show_time
from goqueue.spark.kafka.topic_admin import create_topic, topic_settings
from goqueue.spark.writing.pacing import Pacer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, SparkSession

    from goqueue.spark.jobs.ledger import Ledger, Piece
    from goqueue.spark.jobs.link import Link, TopicRange
    from goqueue.spark.jobs.report import Progress
    from goqueue.spark.kafka.cluster import Cluster

_PIECE_SECONDS: Final = 60
"""A piece at a limited rate takes about this long: transactions are not to be open for longer."""
_TARGET_ID: Final = "target_id"
_WRITTEN_COLUMNS: Final = ("key", "value", "timestamp", "headers")


@dataclass(frozen=True, slots=True)
class Target:
    """Where messages are written to, and how."""

    topic: str
    keeps_partition: bool = False
    """To the partition of the same number; otherwise the key says which."""
    partitioner: str = "mmh3"
    rate: float | None = None
    """Rows a second, over all tasks; None for as many as there can be."""


@dataclass(frozen=True, slots=True)
class MessageSelection:
    """Which messages, as a job is asked for them."""

    start: Moment | None = None
    end: Moment | None = None
    keys: tuple[bytes, ...] = ()
    where: str | None = None

    def identity(self) -> dict[str, object]:
        """For the ledger: another range is another job, and the last hour is the last hour."""
        return {
            "start_ms": as_asked(self.start),
            "end_ms": as_asked(self.end),
            "keys": [key.hex() for key in self.keys],
            "where": self.where,
        }

    def filters(self, ledger: Ledger) -> Filters:
        """With times that the first run has reckoned: for later ones, an hour ago is the same."""
        times: Any = ledger.entries.notes.setdefault("times", [as_ms(self.start), as_ms(self.end)])
        start_ms, end_ms = times
        return Filters(start_ms, end_ms, self.keys, self.where)


class _Writer:
    """Writes pieces, and remembers the oldest message, which retention may take."""

    def __init__(self, messages: Messages, link: Link, target: Target) -> None:
        self._messages = messages
        self._link = link
        self._target = target
        self._pacer = Pacer(target.rate)
        self.oldest_ms: int | None = None

    def __call__(self, piece: Piece, app: str) -> Written:
        target = self._target
        self._pacer.wait()
        frame, tasks = self._messages.ordered(piece.ranges, evenly=target.rate is not None)
        columns = [*_WRITTEN_COLUMNS, *(["partition"] if target.keeps_partition else [])]
        seen = Observation()
        rows = frame.observe(
            seen,
            F.count(F.lit(1)).alias("rows"),
            F.sum(message_bytes()).alias("size_bytes"),
            F.min(F.unix_millis("timestamp")).alias("oldest_ms"),
        ).withColumn("headers", kept_headers())
        options = {
            **self._link.as_options(),
            "topic": target.topic,
            "partitioner": target.partitioner,
            "txnAppId": app,
            "txnVersion": str(piece.number),
        }
        if target.rate is not None:
            options["taskRowsPerSecond"] = repr(target.rate / tasks)
        rows.select(*columns).write.format("goqueue").options(**options).mode("append").save()
        found = seen.get
        self._pacer.count(found["rows"])
        if found["oldest_ms"] is not None:
            known = [found["oldest_ms"], self.oldest_ms]
            self.oldest_ms = min(each for each in known if each is not None)
        return Written(found["rows"], found["size_bytes"] or 0)


def copy_messages(
    spark: SparkSession,
    link: Link,
    messages: Messages,
    target: Target,
    *,
    ledger: Ledger,
    settled: Sequence[TopicRange] | None,
    pace: Pace,
    progress: Progress,
) -> Outcome:
    """Write messages to a topic that exists.

    Args:
        spark: The session.
        link: The broker that has the target.
        messages: What to write.
        target: Where, and how.
        ledger: What was done before.
        settled: What this job is about; None: all that is there, looked at now.
        pace: How much at once, and whether to go on with what comes later.
        progress: Called with the progress.
    """
    writer = _Writer(messages, link, target)
    if target.rate is not None:
        rows = max(1, min(pace.piece_rows, round(target.rate * _PIECE_SECONDS)))
        pace = replace(pace, piece_rows=rows)
    outcome = do_pieces(
        Work(
            spark=spark,
            ledger=ledger,
            there=messages.there if settled is None else lambda: messages.still_there(settled),
            write=writer,
            progress=progress,
            stage=f"writing {target.topic}",
            pace=pace,
        )
    )
    outcome.warnings += _retention_warnings(link, target.topic, writer.oldest_ms)
    return outcome


def settle(ledger: Ledger, messages: Messages) -> Sequence[TopicRange]:
    """What a job is about, looked up by its first run only: later ones have the same end."""
    entries = ledger.entries
    if entries.settled is None:
        entries.settled = list(messages.there())
        # From here on, what is deleted before it is done is missed.
        entries.done = {each.partition: each.start for each in entries.settled}
        ledger.store()
    return entries.settled


def require_target(cluster: Cluster, ledger: Ledger, topic: str) -> None:
    """See to it that what was written is still where it was.

    Raises:
        OptionsError: the topic was deleted meanwhile: going on would leave it half empty.
    """
    known = ledger.entries.notes.get(_TARGET_ID)
    found = cluster.topics([topic]).get(topic)
    if known is not None and (found is None or found.topic_id != known):
        text = (
            f"checkpoint: what is done was written to a topic {topic} that was deleted since: to "
            "start over, delete the checkpoint or use another one"
        )
        raise OptionsError([text])


def note_target(cluster: Cluster, ledger: Ledger, topic: str) -> None:
    """Write down which topic it is, before anything is written to it."""
    found = cluster.topics([topic]).get(topic)
    if found is not None and ledger.entries.notes.get(_TARGET_ID) != found.topic_id:
        ledger.entries.notes[_TARGET_ID] = found.topic_id
        ledger.store()


def ensure_target(
    link: Link,
    ledger: Ledger,
    target: Target,
    partitions: int | None,
    *,
    like: str | None = None,
) -> bool:
    """Make the target if there is none, with the settings of a topic; whether it was made.

    Raises:
        OptionsError: it has too few partitions for messages to stay in theirs, or another number
            of them than is wanted; or it is not the one that this job has written to before.
    """
    settled = ledger.entries.settled or ()
    needed = max((each.partition + 1 for each in settled), default=1)
    with link.cluster() as cluster:
        require_target(cluster, ledger, target.topic)
        found = cluster.topics([target.topic]).get(target.topic)
        count = (partitions or needed) if found is None else len(found.partitions)
        problems = []
        if target.keeps_partition and count < needed:
            problems.append(
                f"{target.topic} has {count} partitions, and messages are of {needed}: write by "
                "key, or to a topic with as many"
            )
        if found is not None and partitions is not None and partitions != count:
            problems.append(f"partitions: {target.topic} exists, and has {count}, not {partitions}")
        refuse(problems)
        if found is None:
            settings = topic_settings(cluster, like, only_own=True) if like is not None else {}
            create_topic(cluster, target.topic, count, settings)
        note_target(cluster, ledger, target.topic)
    return found is None


def check_target(target: Target, piece_rows: int, partitions: int | None) -> list[str]:
    """What is wrong with the arguments that all copies share."""
    problems = []
    if target.partitioner not in PARTITIONERS:
        known = " or ".join(PARTITIONERS)
        problems.append(f"partitioner: expected {known}, not {target.partitioner!r}")
    if piece_rows < 1:
        problems.append(f"piece_rows: expected 1 and up, not {piece_rows}")
    if partitions is not None and partitions < 1:
        problems.append(f"partitions: expected 1 and up, not {partitions}")
    if target.rate is not None and not 0 < target.rate < math.inf:
        problems.append(f"rate: expected more than 0 rows a second, not {target.rate:g}")
    return problems


def kept_headers() -> Column:
    """The headers that are copied: a message that was delayed once is not delayed again."""
    return F.filter("headers", lambda each: each["key"] != DELIVER_AT_HEADER)


def _retention_warnings(link: Link, topic: str, oldest_ms: int | None) -> list[str]:
    """What the target's settings do to messages that are not of today."""
    with link.cluster() as cluster:
        settings = topic_settings(cluster, topic)
    warnings = []
    if settings.get("message.timestamp.type") == "LogAppendTime":
        warnings.append(f"{topic} gives messages the time of their arrival: theirs are not kept")
    elif oldest_ms is not None:
        kept_ms = int(settings.get("retention.ms", "-1"))
        if 0 <= kept_ms < clock.now_ms() - oldest_ms:
            warnings.append(
                f"the oldest message is of {show_time(oldest_ms)}, and {topic} deletes what is "
                f"older than retention.ms={kept_ms}"
            )
    return warnings
