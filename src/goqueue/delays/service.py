"""Delayed messages as a use case: taken in, listed, cancelled, and delivered when they are due."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from goqueue.delays.deltas import Ended
from goqueue.delays.entries import CLASSES, DelayedState
from goqueue.delays.parts import DelayPartServices
from goqueue.delays.shard import DELAYED_TOPIC, STATE_TOPIC, DelayShard
from goqueue.delays.views import DelayedMessage, DelayStats, found_in, message_of
from goqueue.metrics import names
from goqueue.model.errors import (
    DelayedNotPendingError,
    DelaysUnavailableError,
    UnknownDelayedError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.runtime.tasks import in_thread
from goqueue.state.coordinators import Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.delays.courier import Due
    from goqueue.delays.timeline import Timeline
    from goqueue.delays.traces import DelayTraces
    from goqueue.metrics.registry import Metrics, Samples
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.sequences import SequencedBatch
    from goqueue.publishing.delayed import TakenIn
    from goqueue.publishing.delivery_headers import Opened
    from goqueue.publishing.publish import Publisher
    from goqueue.records import BatchInfo, Record
    from goqueue.topics.catalogue import Topic


class DelayServices(DelayPartServices, Protocol):
    """What delayed messages need."""

    publisher: Publisher
    metrics: Metrics
    delay_traces: DelayTraces
    measures: Measures

    async def create_internal_topic(self, name: str, partition_count: int) -> None:
        """Make one of the broker's own topics, if it is not there."""


class Delays:
    """Every delayed message of this broker."""

    def __init__(self, services: DelayServices) -> None:
        self._services = services
        self._family = Family(STATE_TOPIC, 1, self._new_shard, DELAYED_TOPIC, CLASSES)

    # --- Life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Find out what waits, and deliver what has fallen due meanwhile."""
        services = self._services
        await services.create_internal_topic(DELAYED_TOPIC, CLASSES)
        await services.create_internal_topic(STATE_TOPIC, 1)
        services.publisher.delays = self
        services.metrics.add_source(self._put_gauges)
        await services.state_logs.coordinators.start(self._family)

    async def stop(self) -> None:
        """Finish what is on its way, and keep what the next start needs."""
        await self.halt()
        for shard in self._family.shards.values():
            await shard.close()

    async def halt(self) -> None:
        """Finish what is on its way, and begin nothing more."""
        for shard in self._family.shards.values():
            await shard.halt()

    def _new_shard(self, _unit: int) -> DelayShard:
        return DelayShard(self._services, self._on_fired, self._on_expired)

    @property
    def shard(self) -> DelayShard:
        """The unit of this node. Raises `DelaysUnavailableError` before it leads one."""
        shard = self._family.shards.get(0)
        if shard is None:
            raise DelaysUnavailableError("this node does not lead the delayed messages; try again")
        return shard

    async def deliver_due(self) -> int:
        """Do everything that is to be done now; returns how many messages were handed over."""
        return await self.shard.deliver_due()

    def clock_was_set(self) -> None:
        """Look now at what is due by the new time."""
        for shard in self._family.shards.values():
            shard.clock_was_set()

    def forget_topic(self, topic: Topic) -> None:
        """A topic is gone, and with it what waits for it, also if one of the same name comes."""
        for shard in self._family.shards.values():
            shard.forget_topic(topic.topic_id.bytes)

    # --- Taking in -------------------------------------------------------------------------------

    def take(self, topic: Topic, partition: int, info: BatchInfo, found: Opened) -> TakenIn:
        """Store the records of a batch that are due later. Raises like `DelayIntake.take`."""
        shard = self.shard
        parts = shard.active()
        taken = parts.intake.take(topic, partition, info, found.records, found.later)
        self._services.metrics.counter(names.DELAYED_SCHEDULED, topic.name).add(len(taken.messages))
        shard.wake_at(min(due_ms for _, _, due_ms in taken.messages))
        return taken

    def finish(self, topic: Topic, partition: int, info: BatchInfo) -> None:
        """The rest of a batch is stored too."""
        if info.has_producer:
            self.shard.active().intake.finish(topic, partition, info)

    async def restore(
        self,
        topic: Topic,
        partition: Partition,
        info: BatchInfo,
        records: list[Record],
        known: SequencedBatch,
    ) -> None:
        """Store what is missing of a repeated batch. Raises like `RepeatedBatches.restore`."""
        shard = self.shard
        await shard.active().repeats.restore(topic, partition, info, records, known)
        shard.arm()

    async def durable(self, taken: TakenIn | None = None) -> None:
        """Return when messages that were taken in are on the disk; without any, all that were.

        Raises:
            LogFailedError: the disk refused.
        """
        store = self.shard.store
        await store.durable(store.ends() if taken is None else taken.ends)

    # --- Asking and cancelling -------------------------------------------------------------------

    async def list(self, topic_name: str, limit: int = 100, skip: int = 0) -> list[DelayedMessage]:
        """The messages of a topic that wait, in the order in which they came within their class.

        Raises:
            UnknownTopicError: there is no such topic.
        """
        parts = self.shard.built()
        topic = self._services.topics.catalogue.topic(topic_name)
        ranges = parts.book.ranges_of(topic.topic_id.bytes)
        look = partial(found_in, parts.store, parts.book, topic, ranges, limit=limit, skip=skip)
        return await in_thread(self._services.executor, look)

    async def get(self, topic_name: str, delayed_id: int) -> DelayedMessage:
        """One message, whatever became of it, as long as it is known.

        Raises:
            UnknownTopicError: there is no such topic.
            UnknownDelayedError: the topic has no such message, or not any more.
        """
        parts = self.shard.built()
        topic = self._services.topics.catalogue.topic(topic_name)
        if parts.book.state(delayed_id) is not None:
            read = partial(parts.store.read, [delayed_id])
            records = await in_thread(self._services.executor, read)
            state = parts.book.state(delayed_id)
            if state is not None and delayed_id in records:
                message = message_of(topic, delayed_id, records[delayed_id], state)
                if message is not None:
                    return message
        raise UnknownDelayedError(f"topic {topic_name!r} has no delayed message {delayed_id}")

    async def cancel(
        self, topic_name: str, partition: int | None, delayed_id: int
    ) -> DelayedMessage:
        """Let a message never be delivered. That is on the disk when this returns.

        Raises:
            UnknownTopicError, UnknownDelayedError: there is no such message.
            DelayedNotPendingError: it was delivered or cancelled already.
            DelaysUnavailableError: it could not be stored; try again.
        """
        message = await self.get(topic_name, delayed_id)
        if partition is not None and message.partition != partition:
            raise UnknownDelayedError(
                f"partition {partition} of topic {topic_name!r} has no delayed message {delayed_id}"
            )
        parts = self.shard.active()
        if not parts.book.is_pending(delayed_id):
            state = parts.book.state(delayed_id) or message.state
            raise DelayedNotPendingError(
                f"delayed message {delayed_id} of topic {topic_name!r} is {state.name.lower()}"
            )
        ended = Ended(message.topic_id.bytes, DelayedState.CANCELLED, (delayed_id,))
        end_offset = parts.ledger.change(ended)
        parts.index.cancel(delayed_id)
        parts.courier.cache.pop(delayed_id)
        await parts.ledger.committed(end_offset)
        topic = self._services.topics.catalogue.by_name.get(topic_name)
        if self._services.delay_traces.is_on and topic is not None:
            self._services.delay_traces.cancelled(topic, message)
        return message._replace(state=DelayedState.CANCELLED)

    def stats(self) -> DelayStats:
        """Counts, since the beginning and now."""
        parts = self.shard.built()
        by_id, totals = self._services.topics.catalogue.by_id, parts.book.totals
        waiting = parts.book.topics().items()
        pending = {
            by_id[UUID(bytes=key)].name: count for key, count in waiting if UUID(bytes=key) in by_id
        }
        return DelayStats(
            scheduled=totals[DelayedState.PENDING],
            delivered=totals[DelayedState.DELIVERED],
            cancelled=totals[DelayedState.CANCELLED],
            expired=totals[DelayedState.EXPIRED],
            pending=parts.book.pending_count,
            pending_by_topic=pending,
            wheel=parts.index.wheel.stats,
        )

    async def timeline(self, steps: int) -> Timeline:
        """When the messages that wait will come, of all topics together."""
        keeper = self.shard.built().keeper
        return await keeper.timeline(self._services.clock.now_ms(), steps)

    def _put_gauges(self, samples: Samples) -> None:
        with suppress(DelaysUnavailableError):
            for topic, count in self.stats().pending_by_topic.items():
                samples.put(names.DELAYED_PENDING, count, topic)

    def _on_fired(self, topic: Topic, partition: int, first: int, messages: Sequence[Due]) -> None:
        count = len(messages)
        self._services.metrics.counter(names.DELAYED_FIRED, topic.name).add(count)
        self._services.measures.topic(topic.name).messages_published.add(count)
        place = TopicPartition(topic.name, partition)
        lanes = self._services.partitions.partition(place).lanes.counts(first, first + count)
        self._services.measures.prioritised(topic.name, lanes, count)
        if self._services.delay_traces.is_on:
            self._services.delay_traces.ready(topic, partition, first, messages)

    def _on_expired(self, ids: Iterable[int]) -> None:
        if self._services.delay_traces.is_on:
            self._services.delay_traces.expired(ids)
