"""The straight way into a partition: of batches that are stored as they were sent.

Most are. What such a batch is held to is in its header and its checksum; what is asked for its
topic and its partition is looked up once (`StraightWay`). Whatever else a batch or a topic wants is
left to `goqueue.publishing.publish`, before anything has been changed.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError, NotLeaderError, TopicError
from goqueue.model.ids import NO_PRODUCER_ID
from goqueue.model.tuples import NamedTuple
from goqueue.publishing.requests import Acks, Published
from goqueue.wire.kafka.replies import Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.measures import Measures, TopicMeasures
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.publishing.traces import PublishTraces, TracedPublish
    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.clock import Clock
    from goqueue.tracing.tracer import Place

_FOREVER: Final = 1 << 63
_published: Final[Callable[[tuple[Any, ...]], Published]] = partial(tuple.__new__, Published)
"""`Published` of a tuple, in a third of the time."""


class StraightWay(NamedTuple):
    """A partition whose topic stores batches as they are sent, and what is asked for each."""

    partition: Partition
    measures: TopicMeasures
    place: Place
    max_bytes: int
    after_ms: int
    """How far ahead of the clock a record may be dated."""


class StraightPublisher:
    """Takes in what is stored as it was sent."""

    def __init__(
        self, partitions: Partitions, clock: Clock, measures: Measures, traces: PublishTraces
    ) -> None:
        self._partitions = partitions
        self._traces = traces
        self._clock = clock
        self._measures = measures
        self.disk_full: str | None = None
        """Why nothing is taken in at the moment; set by the disk monitor."""

    def refuse(self, reason: str | None) -> None:
        """Take nothing in from now on, for this reason; None: take everything again."""
        self.disk_full = reason

    def straight_way(self, partition_id: TopicPartition) -> StraightWay | None:
        """What `publish_plain` takes, for as long as the catalogue stays the same object.

        None when each batch of the topic is to be looked at, or the partition is not led here.
        """
        try:
            topic, partition = self._partitions.resolve(partition_id)
        except (TopicError, NotLeaderError):
            return None
        settings = topic.settings
        limits = settings.timestamp_limits
        is_plain = not (topic.is_internal or topic.is_restoring or settings.validates)
        if not is_plain or settings.may_open or limits is None:
            return None
        place = self._traces.place(topic, partition_id.partition)
        measures = self._measures.topic(topic.name)
        after_ms = _FOREVER if limits.after_ms is None else limits.after_ms
        return StraightWay(partition, measures, place, settings.max_message_bytes, after_ms)

    def publish_plain(
        self, way: StraightWay, batch: memoryview, info: BatchInfo, acks: Acks
    ) -> Published | None:
        """`publish` for a batch of which nothing is unusual, by what `plain_header` says of it.

        None when it is `publish` that must look at the batch: nothing has been changed then.

        Raises:
            DiskError, LogFailedError: the disk refused.
        """
        partition, measures, place, max_bytes, after_ms = way
        _, _, _, _, _, _, _, _, newest_ms, producer_id, _, _, count = info
        clock, size_bytes = self._clock, len(batch)
        started_s, now_ms = clock.monotonic_s(), clock.now_ms()
        if (
            size_bytes > max_bytes
            or (measures.quota is not None and measures.quota.refuses(size_bytes))
            or not partition.is_leading
            or self.disk_full is not None
            or newest_ms > now_ms + after_ms
            or (producer_id != NO_PRODUCER_ID and not partition.expects(info))
            or (partition.not_enough is not None and acks is Acks.ALL)
        ):
            return None
        try:
            placed = partition.append_new(batch, info, now_ms)
        except GoQueueError as error:
            self._measures.refused(partition.id.topic, error, count)
            raise
        measures.messages_published.value += count
        measures.bytes_published.value += size_bytes
        traced = None
        if self._traces.is_on:
            traced = self._traces.published(place, batch, placed, started_s)
        durable, end_offset = None, placed[1]
        if acks is not Acks.NONE and not partition.is_committed(end_offset):
            durable = waits_for(partition, end_offset, acks)
        if durable is None:
            self._acknowledged(measures, started_s, traced)
        else:
            durable = self._timed(durable, measures, started_s, traced)
        return _published((placed, partition.log_start, -1, durable, (), count))

    def _acknowledged(
        self, measures: TopicMeasures, started_s: float, traced: TracedPublish | None
    ) -> None:
        """A batch is as durable as it is to be when its publisher is told."""
        measures.publish_latency.observe(self._clock.monotonic_s() - started_s)
        if traced is not None:
            self._traces.persisted(traced)

    def _timed(
        self,
        durable: Awaitable[None],
        measures: TopicMeasures,
        started_s: float,
        traced: TracedPublish | None,
    ) -> Awaitable[None]:
        """The same to wait for, and measured when it is over; a future costs no task."""

        def settled(future: asyncio.Future[None] | Reply[None]) -> None:
            if not future.cancelled() and future.exception() is None:
                self._acknowledged(measures, started_s, traced)

        waited_for = durable if isinstance(durable, Reply) else asyncio.ensure_future(durable)
        waited_for.add_done_callback(settled)
        return waited_for


def waits_for(partition: Partition, end_offset: int, acks: Acks) -> Awaitable[None] | None:
    """What a publisher of a batch that ends there waits for; None when there is nothing.

    `ALL` waits for every in-sync replica, `LEADER` for what this node's disk promises.
    """
    if acks is Acks.ALL:
        return None if partition.is_committed(end_offset) else partition.acknowledged(end_offset)
    if acks is Acks.NONE or partition.is_persisted(end_offset):
        return None
    return partition.persisted(end_offset)
