"""Publishing: the one way into a partition, whichever protocol a batch came by."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from goqueue.broker.rewrite import rewritten
from goqueue.model.errors import (
    BatchTooLargeError,
    DiskFullError,
    GoQueueError,
    InternalTopicError,
    InvalidTransactionStateError,
    MalformedBatchError,
)
from goqueue.records import Compression
from goqueue.records.batch import peek, validate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.broker.measures import Measures, TopicMeasures
    from goqueue.broker.partition import Partition, PartitionId, Placed
    from goqueue.broker.partitions import Partitions
    from goqueue.broker.topics import Topic
    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.clock import Clock


class Acks(IntEnum):
    """What a publisher waits for; the numbers are Kafka's.

    On one node the leader is all there is. Whoever waits at all waits for what the topic promises:
    under `fsync=always` for the disk.
    """

    ALL = -1
    NONE = 0
    LEADER = 1


class PublishRequest(NamedTuple):
    """One batch for one partition."""

    partition: PartitionId
    batch: memoryview
    """Exactly one record batch. A writable view is stamped in place."""
    acks: Acks = Acks.ALL
    internal: bool = False
    """The broker itself publishes, which alone may write to internal topics."""
    delivery: bool = False
    """The batch was made here, and its attribute `DELIVERY` is true: nobody else may set it."""


class Published(NamedTuple):
    """What became of a batch."""

    placed: Placed
    log_start: int
    append_time_ms: int = -1
    """Set when the topic stamps records with the time of the append."""
    durable: Awaitable[None] | None = None
    """To be awaited before the publisher is told; None when there is nothing to wait for."""


def _no_transactions(info: BatchInfo, partition: PartitionId) -> None:
    raise InvalidTransactionStateError(
        f"producer {info.producer_id} has no open transaction in {partition}"
    )


class Publisher:
    """Takes batches in: check, rewrite if the topic asks for it, deduplicate, append, measure."""

    def __init__(self, partitions: Partitions, clock: Clock, measures: Measures) -> None:
        self._partitions = partitions
        self._clock = clock
        self._measures = measures
        self.disk_full: str | None = None
        """Why nothing is taken in at the moment; set by the disk monitor."""
        self.verify_transaction: Callable[[BatchInfo, PartitionId], None] = _no_transactions
        """Refuses a transactional batch that belongs to no open transaction; set by whoever
        coordinates them."""

    def publish(self, request: PublishRequest) -> Published:
        """Store a batch. It is in the log when this returns, durable when `durable` has been.

        Raises:
            TopicError: there is no such partition, or it is not the caller's to write.
            BatchError: the batch is damaged, malformed or too large.
            ProducerError: an idempotent producer's batch is out of order or fenced.
            DiskError, LogFailedError: the disk refused.
        """
        started_s = self._clock.monotonic_s()
        topic, partition = self._partitions.resolve(request.partition)
        try:
            published = self._store(topic, partition, request)
        except GoQueueError as error:
            self._measures.refused(topic.name, error)
            raise
        measures = self._measures.topic(topic.name)
        placed = published.placed
        measures.messages_published.add(placed.end_offset - placed.first_offset)
        measures.bytes_published.add(len(request.batch))
        if published.durable is None:
            measures.publish_latency.observe(self._clock.monotonic_s() - started_s)
            return published
        return published._replace(durable=self._timed(published.durable, measures, started_s))

    async def _timed(
        self, durable: Awaitable[None], measures: TopicMeasures, started_s: float
    ) -> None:
        await durable
        measures.publish_latency.observe(self._clock.monotonic_s() - started_s)

    def _store(self, topic: Topic, partition: Partition, request: PublishRequest) -> Published:
        if topic.is_internal and not request.internal:
            raise InternalTopicError(f"{topic.name} belongs to the broker: nobody else writes it")
        if self.disk_full is not None:
            raise DiskFullError(self.disk_full)
        info = _admit(topic, request.batch)
        if info.has_delivery_headers and not request.delivery:
            raise MalformedBatchError(
                "the batch has the attribute bit 7, which the broker alone gives"
            )
        if info.is_transactional:
            self.verify_transaction(info, request.partition)
        batch, append_time_ms = rewritten(topic.settings, request.batch, info, self._clock)
        if batch is not request.batch:
            info = peek(batch)
            _check_size(topic, info)  # compressed anew it may be larger, or not compressed at all
        placed = partition.append(batch, info)
        waits = request.acks is not Acks.NONE and not partition.is_durable(placed)
        return Published(
            placed,
            partition.log_start,
            append_time_ms,
            partition.durable(placed) if waits else None,
        )


def _admit(topic: Topic, batch: memoryview) -> BatchInfo:
    """Hold a batch to what every batch must be, at the cost of its header."""
    info = peek(batch)
    if info.size_bytes != len(batch):
        raise MalformedBatchError(
            f"{len(batch) - info.size_bytes} bytes behind the batch: publish one batch at a time"
        )
    _check_size(topic, info)
    if info.is_control:
        raise MalformedBatchError("control batches are written by the broker alone")
    if info.has_delete_horizon:
        raise MalformedBatchError(
            "the batch has a delete horizon, which compaction alone gives: it would say when "
            "tombstones go"
        )
    if info.count == 0 or info.count != info.last_offset_delta + 1:
        raise MalformedBatchError(
            f"{info.count} records over {info.last_offset_delta + 1} offsets: a published batch "
            "has one record for each offset, and at least one"
        )
    Compression.of(info.compression)  # nobody could read a codec that does not exist
    validate(batch, 0, info)
    return info


def _check_size(topic: Topic, info: BatchInfo) -> None:
    limit = topic.settings.max_message_bytes
    if info.size_bytes > limit:
        raise BatchTooLargeError(
            f"a batch of {info.size_bytes} bytes; topic {topic.name!r} takes up to {limit} "
            "(max.message.bytes)"
        )
