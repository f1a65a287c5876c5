"""What an attempt of a writing task does: rows become record batches of its own transaction."""

from __future__ import annotations

import contextlib
import gc
from itertools import chain
from typing import TYPE_CHECKING, Final

from goqueue.model.topic_partition import TopicPartition
from goqueue.spark.errors import RowError, SparkSourceError, TopicMissingError
from goqueue.spark.kafka.atomic_commit import check_support
from goqueue.spark.kafka.producing import Producer, TaskProducer
from goqueue.spark.kafka.sharing import shared_cluster
from goqueue.spark.kafka.topic_admin import topic_setting
from goqueue.spark.writing.batches import BatchMaker, Pending
from goqueue.spark.writing.rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from goqueue.spark.kafka.cluster import Cluster
    from goqueue.spark.options.write_options import WriteOptions
    from goqueue.spark.writing.task_identity import Attempt

_BATCHES_A_COLLECTION: Final = 64
_REQUEST_BYTES: Final = 8 << 20
"""Of what is left at the end of a task and goes out together."""


def write_rows(
    batches: Iterator[pa.RecordBatch],
    options: WriteOptions,
    columns: Mapping[str, int],
    attempt: Attempt,
) -> tuple[Producer | None, int]:
    """Write everything; returns whose transaction it is in, and how many rows. No row, no producer.

    Raises:
        SparkSourceError: not everything could be written; the transaction is aborted.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return None, 0
    cluster = shared_cluster(options.link)
    if options.is_transactional:
        check_support(cluster)
    # Attempts of a task may run at the same time: each has an id of its own.
    own_id = f"{attempt.series}::{attempt.number}-{attempt.task}-{attempt.attempt}"
    producer = TaskProducer(
        cluster,
        transactional_id=own_id if options.is_transactional else None,
        timeout_ms=options.timeout_ms,
        compression=options.compression,
    )
    try:
        maker = _batch_maker(producer, cluster, options, attempt)
        heeding = _Heeding(cluster, options.topic)
        with _without_collections():
            rows = _write(producer, maker, heeding, chain([first], batches), columns)
    except BaseException:
        # Readers of committed messages would wait for this attempt until its timeout.
        with contextlib.suppress(SparkSourceError):
            producer.abort()
        cluster.close()
        raise
    return (producer.who if options.is_transactional else None), rows


def _batch_maker(
    producer: TaskProducer, cluster: Cluster, options: WriteOptions, attempt: Attempt
) -> BatchMaker:
    def partition_count(topic: str) -> int:
        found = cluster.topics([topic]).get(topic)
        if found is None:
            raise TopicMissingError(f"there is no topic {topic!r} to write to: create it first")
        producer.add_partitions(TopicPartition(topic, number) for number in found.partitions)
        return len(found.partitions)

    return BatchMaker(
        partition_count,
        topic=options.topic,
        partitioner=options.partitioner,
        batch_bytes=options.batch_bytes,
        first_turn=attempt.task,
    )


def _write(
    producer: TaskProducer,
    maker: BatchMaker,
    heeding: _Heeding,
    batches: Iterable[pa.RecordBatch],
    columns: Mapping[str, int],
) -> int:
    count = 0
    for number, batch in enumerate(batches, 1):
        count += batch.num_rows
        if number % _BATCHES_A_COLLECTION == 0:
            gc.collect()
        rows = rows_of(batch, columns)
        if rows.says_delivery:
            heeding.check(rows.topics)
        for place, pending in maker.add(rows):
            producer.send([(place, producer.batch(place, pending.records()))])
    _send_rest(producer, maker.rest())
    producer.finish()
    return count


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Rows become very many tuples, none in a cycle: looking for cycles is a third of the work."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Heeding:
    """Makes sure that topics heed what rows say of their delivery, instead of only storing it."""

    def __init__(self, cluster: Cluster, topic: str | None) -> None:
        self._cluster = cluster
        self._topic = topic
        self._checked: set[str] = set()

    def check(self, topics: Iterable[str | None] | None) -> None:
        """Raise `RowError` where a topic would take no notice of a priority or a delay."""
        wanted = {self._topic} if self._topic is not None else set(topics or ())
        for topic in sorted(each for each in wanted if each and each not in self._checked):
            if topic_setting(self._cluster, topic, "goqueue.kafka.headers") == "false":
                raise RowError(
                    f"topic {topic!r} takes no notice of priorities and delays that come over "
                    "Kafka's protocol: set goqueue.kafka.headers=true for it, or leave out the "
                    "columns priority, deliver_at and delay_ms"
                )
            self._checked.add(topic)


def _send_rest(producer: TaskProducer, rest: Iterable[tuple[TopicPartition, Pending]]) -> None:
    waiting: list[tuple[TopicPartition, bytearray]] = []
    size_bytes = 0
    for place, pending in rest:
        if size_bytes + pending.size_bytes > _REQUEST_BYTES and waiting:
            producer.send(waiting)
            waiting, size_bytes = [], 0
        waiting.append((place, producer.batch(place, pending.records())))
        size_bytes += pending.size_bytes
    if waiting:
        producer.send(waiting)
