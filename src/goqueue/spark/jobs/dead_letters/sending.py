"""Portions of dead letters: published by Spark's tasks, recorded, and committed atomically."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as sql

from goqueue.model.dead_letters import HEADER_PREFIX, REDRIVEN_HEADER
from goqueue.model.delivery import DELIVER_AT_HEADER
from goqueue.model.topic_partition import TopicPartition
from goqueue.records import Record
from goqueue.spark import clock
from goqueue.spark.errors import SparkSourceError
from goqueue.spark.jobs.dead_letters import redrive_task, redriven_index
from goqueue.spark.jobs.dead_letters.letters import COLUMNS, described
from goqueue.spark.jobs.dead_letters.redrive_task import LetterId, Portion
from goqueue.spark.jobs.reading import load
from goqueue.spark.kafka.atomic_commit import abort_atomically, check_support, commit_atomically
from goqueue.spark.kafka.topic_admin import create_topic
from goqueue.spark.options.write_options import parse_write_options
from goqueue.spark.writing.writers import STREAM_KEEP_MS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from goqueue.spark.jobs.dead_letters.redrive_task import Answers
    from goqueue.spark.jobs.link import Link
    from goqueue.spark.kafka.cluster import Cluster
    from goqueue.spark.kafka.producing import Producer

_TASKS: Final = 8
"""Of a portion, at most: each holds whole partitions, so that their order is kept."""


class Letter(NamedTuple):
    """One that is to go: where it is, and where it goes."""

    partition: int
    offset: int
    target: str
    target_partition: int


class Sender:
    """Sends letters of one topic; each portion has the next number."""

    def __init__(
        self, spark: SparkSession, link: Link, letters_in: str, *, to: str | None, number: int
    ) -> None:
        self._spark = spark
        self._link = link
        self._letters_in = letters_in
        self._receipts_in = redriven_index.receipts_topic(letters_in)
        self._to = to
        self._number = number
        self._run = str(uuid.uuid4())
        given = {name.lower(): value for name, value in link.as_options().items()}
        self._options = parse_write_options(given, "batch")
        with link.cluster() as cluster:
            self._topic_id = cluster.topics([letters_in])[letters_in].topic_id

    def spans_of(self, letters: Iterable[Letter]) -> dict[TopicPartition, redriven_index.Spans]:
        """Which offsets of which partitions letters are."""
        offsets: dict[int, list[int]] = {}
        for each in letters:
            offsets.setdefault(each.partition, []).append(each.offset)
        return {
            TopicPartition(self._letters_in, number): redriven_index.spans_of(some)
            for number, some in sorted(offsets.items())
        }

    def send(self, letters: Sequence[Letter]) -> tuple[list[Letter], list[tuple[Letter, str]]]:
        """Publish letters and record that they are redriven, in one commit.

        Returns:
            Those that are redriven, and those that their topics refuse, with why.

        Raises:
            SparkSourceError: none of them is redriven.
        """
        portion = Portion(
            self._options, f"spark-dlq-redrive-{self._topic_id}", self._number, self._run
        )
        with self._link.cluster() as cluster:
            check_support(cluster)
            if self._receipts_in not in cluster.topics([self._receipts_in]):
                create_topic(cluster, self._receipts_in, 1, {"retention.ms": "-1"})
        try:
            rows = self._messages(letters).mapInArrow(portion.send, redrive_task.ANSWER).collect()
            answers = redrive_task.answers_of(rows)
            sent = [each for each in letters if _id_of(each) not in answers.refused]
            with self._link.cluster() as cluster:
                self._decide(cluster, portion, answers, sent)
        except BaseException:
            self._give_up(portion)
            raise
        refused = [
            (each, answers.refused[_id_of(each)])
            for each in letters
            if _id_of(each) in answers.refused
        ]
        return sent, refused

    def _give_up(self, portion: Portion) -> None:
        """End what tasks have left open; readers would wait for it until its timeout."""
        with contextlib.suppress(SparkSourceError), self._link.cluster() as cluster:
            abort_atomically(cluster, portion.series, portion.number, ())

    def _decide(
        self, cluster: Cluster, portion: Portion, answers: Answers, sent: Sequence[Letter]
    ) -> None:
        """Commit what was sent, with the record of it."""
        self._check(answers, sent)
        if not sent:
            return
        before = redriven_index.end_of_receipts(self._link, self._letters_in)
        members = [*answers.members, self._record(cluster, portion, sent)]
        is_new = commit_atomically(cluster, portion.series, portion.number, members, STREAM_KEEP_MS)
        if not is_new and not self._is_written(before):  # who asks twice is told that it was done
            raise SparkSourceError(
                f"another job sends letters of {self._letters_in} back at this moment: nothing of "
                "this portion was sent; run this again when the other one is done"
            )
        self._number += 1

    def _check(self, answers: Answers, sent: Sequence[Letter]) -> None:
        """Nothing is recorded as redriven that no task has sent."""
        if answers.stored != len(sent):
            raise SparkSourceError(
                f"of {len(sent)} letters of {self._letters_in} only {answers.stored} are there any "
                "more: nothing of this portion was sent; run this again"
            )

    def _is_written(self, from_offset: int) -> bool:
        return redriven_index.is_written(
            self._link,
            self._letters_in,
            self._topic_id,
            number=self._number,
            run=self._run,
            from_offset=from_offset,
        )

    def _record(self, cluster: Cluster, portion: Portion, sent: Sequence[Letter]) -> Producer:
        """Record which letters are redriven, in a transaction of their own; returns whose it is."""
        place = TopicPartition(self._receipts_in, 0)
        producer = portion.producer(cluster, "receipts")
        producer.add_partitions([place])
        now_ms = clock.now_ms()
        for (_, number), spans in self.spans_of(sent).items():
            key = f"{self._topic_id}/{number}".encode()
            for value in redriven_index.receipt(
                topic=self._letters_in,
                topic_id=self._topic_id,
                partition=number,
                number=self._number,
                run=self._run,
                to=self._to or "",
                spans=spans,
            ):
                producer.send([(place, producer.batch(place, [Record(0, now_ms, key, value)]))])
        producer.finish()
        return producer.who

    def _messages(self, letters: Sequence[Letter]) -> DataFrame:
        """The letters as new messages, in order within each partition of the letters."""
        ranges = {
            place: (spans[0][0], spans[-1][1]) for place, spans in self.spans_of(letters).items()
        }
        places = {(each.partition, each.offset): each for each in letters}
        rows = described(load(self._spark, self._link, [ranges], f"{COLUMNS} value"))
        goes = sql.udf(_target_of(places), "struct<topic:string,partition:int>", useArrow=False)
        return (
            rows.withColumn("goes", goes("partition", "offset"))
            .where("goes is not null")
            .repartition(min(len(ranges), _TASKS), "partition")
            .sortWithinPartitions("partition", "offset")
            .select(
                "key",
                "value",
                headers_again().alias("headers"),
                "goes.topic",
                "goes.partition",
                sql.col("partition").alias("letter_partition"),
                sql.col("offset").alias("letter"),
            )
        )


def _id_of(letter: Letter) -> LetterId:
    return LetterId(letter.partition, letter.offset)


def _target_of(places: Mapping[tuple[int, int], Letter]) -> Any:
    """Where a letter goes, for Spark's tasks; None: it does not."""

    def target_of(partition: int, offset: int) -> dict[str, Any] | None:
        found = places.get((partition, offset))
        if found is None:
            return None
        return {"topic": found.target, "partition": found.target_partition}

    return target_of


def headers_again() -> Column:
    """The headers of a message that goes back: those it had, and how often it went back."""
    said = sql.coalesce("headers", sql.array())
    own = sql.filter(
        said,
        lambda each: (
            ~each["key"].startswith(HEADER_PREFIX)
            & ~each["key"].isin(REDRIVEN_HEADER, DELIVER_AT_HEADER)
        ),
    )
    again = sql.struct(
        sql.lit(REDRIVEN_HEADER).alias("key"),
        (sql.col("redriven") + 1).cast("string").cast("binary").alias("value"),
    )
    return sql.concat(own, sql.array(again)).cast("array<struct<key:string,value:binary>>")
