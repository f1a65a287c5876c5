"""Dead letters on their way: sent by tasks, each in a transaction of its own, and counted together.

What a topic refuses, because it does not fit a schema or is too long, is put aside and holds
nothing else up. Only then is it known what has gone, and written down in one more transaction. The
broker decides all of them at once: letters and what is written down of them are there together.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from goqueue.model.topic_partition import TopicPartition
from goqueue.records import Record
from goqueue.spark.errors import SparkSourceError
from goqueue.spark.kafka.producing import Producer, TaskProducer
from goqueue.spark.kafka.sharing import shared_cluster
from goqueue.spark.writing.rows import rows_of
from goqueue.spark.writing.task_identity import task_context

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from goqueue.spark.kafka.cluster import Cluster
    from goqueue.spark.options.write_options import WriteOptions

COLUMNS: Final = ("key", "value", "headers", "topic", "partition", "letter_partition", "letter")
"""What tasks are given: a message, where it goes, and which letter it is."""
ANSWER: Final = (
    "stored bigint, transactional_id string, producer_id bigint, epoch int, "
    "letter_partition int, letter bigint, error string"
)
"""A row for what a task has stored, and one for each letter that was refused."""
_ANSWER_FIELDS: Final[dict[str, pa.DataType]] = {
    "stored": pa.int64(),
    "transactional_id": pa.string(),
    "producer_id": pa.int64(),
    "epoch": pa.int32(),
    "letter_partition": pa.int32(),
    "letter": pa.int64(),
    "error": pa.string(),
}
_RECORD_BYTES: Final = 24
"""About what a record takes beside its key and value."""


class LetterId(NamedTuple):
    """Where a letter is in its topic."""

    partition: int
    offset: int


class Answers(NamedTuple):
    """What all tasks have done."""

    stored: int
    members: list[Producer]
    refused: dict[LetterId, str]
    """And why."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Letters that count together, once: by the number that they have in their series."""

    options: WriteOptions
    series: str
    number: int
    run: str
    """Which job: another one with the same number has other transactions."""

    def producer(self, cluster: Cluster, name: str) -> TaskProducer:
        """Somebody who writes a part of it."""
        return TaskProducer(
            cluster,
            transactional_id=f"{self.series}::{self.number}-{self.run}-{name}",
            timeout_ms=self.options.timeout_ms,
            compression=self.options.compression,
        )

    def send(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What one attempt of a task does; for `mapInArrow`."""
        context = task_context()
        name = f"{context.partitionId()}-{context.taskAttemptId()}"
        yield from send_letters(self, shared_cluster(self.options.link), name, batches)


def send_letters(
    portion: Portion, cluster: Cluster, name: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write letters in a transaction, which stays open if anything of it was taken.

    Raises:
        SparkSourceError: not because of a letter; the transaction is aborted.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return
    producer = portion.producer(cluster, name)
    try:
        post = _Post(producer, portion.options.batch_bytes)
        post.add(first)
        for batch in batches:
            post.add(batch)
        post.finish()
        if not post.stored:
            producer.abort()
    except BaseException:
        # Readers of committed messages would wait for this attempt until its timeout.
        with contextlib.suppress(SparkSourceError):
            producer.abort()
        cluster.close()
        raise
    rows: list[dict[str, Any]] = [
        {"letter_partition": letter.partition, "letter": letter.offset, "error": error}
        for letter, error in post.refused.items()
    ]
    if post.stored:
        rows.append({"stored": post.stored, **producer.who._asdict()})
    yield pa.RecordBatch.from_pylist(rows, pa.schema(_ANSWER_FIELDS))


def answers_of(rows: Sequence[Any]) -> Answers:
    """What tasks have answered."""
    return Answers(
        sum(row["stored"] or 0 for row in rows),
        [
            Producer(row["transactional_id"], row["producer_id"], row["epoch"])
            for row in rows
            if row["stored"]
        ],
        {
            LetterId(row["letter_partition"], row["letter"]): row["error"]
            for row in rows
            if row["error"] is not None
        },
    )


class _Waiting:
    """Letters for one partition that are not sent yet."""

    def __init__(self) -> None:
        self.letters: list[tuple[LetterId, Record]] = []
        self.size_bytes = 0


class _Post:
    """Sends letters in batches; one that is refused is halved until it is known which letter."""

    def __init__(self, producer: TaskProducer, batch_bytes: int) -> None:
        self.stored = 0
        self.refused: dict[LetterId, str] = {}
        self._producer = producer
        self._batch_bytes = batch_bytes
        self._waiting: dict[TopicPartition, _Waiting] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Take letters in, in their order."""
        columns = {name: batch.schema.get_field_index(name) for name in COLUMNS}
        rows = rows_of(batch, columns)
        numbers: list[Any] = batch.column(columns["letter_partition"]).to_pylist()
        letters: list[Any] = batch.column(columns["letter"]).to_pylist()
        places = zip(rows.topics or (), rows.partitions or (), strict=True)
        keys, headers = rows.keys or (), rows.headers or ()
        for letter, (topic, number), *fields in zip(
            map(LetterId, numbers, letters),
            places,
            rows.timestamps_ms,
            keys,
            rows.values,
            headers,
            strict=True,
        ):
            if topic is None or number is None:
                raise SparkSourceError(f"letter {letter} goes nowhere")
            self._put(TopicPartition(topic, number), letter, Record(0, *fields))

    def finish(self) -> None:
        """Send what is left."""
        for place, waiting in self._waiting.items():
            self._offer(place, waiting.letters)
        self._waiting.clear()

    def _put(self, place: TopicPartition, letter: LetterId, record: Record) -> None:
        waiting = self._waiting.setdefault(place, _Waiting())
        size_bytes = _RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
        if waiting.letters and waiting.size_bytes + size_bytes > self._batch_bytes:
            self._offer(place, waiting.letters)
            waiting = self._waiting[place] = _Waiting()
        waiting.letters.append((letter, record))
        waiting.size_bytes += size_bytes

    def _offer(self, place: TopicPartition, letters: Sequence[tuple[LetterId, Record]]) -> None:
        self._producer.add_partitions([place])
        records = [record._replace(offset=at) for at, (_, record) in enumerate(letters)]
        refusal = self._producer.offer(place, records)
        if refusal is None:
            self.stored += len(letters)
        elif len(letters) == 1:
            self.refused[letters[0][0]] = str(refusal)
        else:
            half = len(letters) // 2
            self._offer(place, letters[:half])
            self._offer(place, letters[half:])
