"""Delayed messages as a use case: taken in, listed, cancelled, and delivered when they are due."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar
from uuid import UUID

from goqueue.delays.deltas import Ended
from goqueue.delays.due.timeline import Timeline, timeline
from goqueue.delays.due.wheel import all_wheels
from goqueue.delays.entries import CLASSES, DelayedState, inner_id, public_id, unit_of
from goqueue.delays.following import FollowedUnits
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
from goqueue.state.certainty import refusing
from goqueue.state.coordinators import Family

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from contextlib import AbstractAsyncContextManager

    from goqueue.delays.courier import Due
    from goqueue.delays.parts import DelayParts
    from goqueue.delays.traces import DelayTraces
    from goqueue.metrics.registry import Metrics, Samples
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.sequences import SequencedBatch
    from goqueue.publishing.delayed import Origin, TakenIn
    from goqueue.publishing.delivery_headers import Opened
    from goqueue.publishing.publish import Publisher
    from goqueue.records import BatchInfo, Record
    from goqueue.state.certainty import Confirm
    from goqueue.topics.catalogue import Topic

_T = TypeVar("_T")


class DelayServices(DelayPartServices, Protocol):
    """What delayed messages need."""

    publisher: Publisher
    metrics: Metrics
    delay_traces: DelayTraces
    measures: Measures

    async def create_internal_topic(self, name: str, partition_count: int) -> None:
        """Make one of the broker's own topics, if it is not there."""


class Delays:
    """The delayed messages of the units that this node leads: all of them, on a node alone."""

    def __init__(self, services: DelayServices) -> None:
        self._services = services
        self._family = Family(STATE_TOPIC, 1, self._new_shard, DELAYED_TOPIC, CLASSES)
        self.followed = FollowedUnits(services, self._is_open)
        self.confirm_epoch: Confirm | None = None
        """Who says in which epoch this node leads units; None on one node, which leads all."""

    # --- Life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Find out what waits, and deliver what has fallen due meanwhile."""
        services = self._services
        if not services.targets.is_cluster:  # where the controller makes them
            await services.create_internal_topic(DELAYED_TOPIC, CLASSES)
            await services.create_internal_topic(STATE_TOPIC, 1)
        services.publisher.delays = self
        services.metrics.add_source(self._put_gauges)
        await services.state_logs.coordinators.start(self._family)
        if services.targets.is_cluster:
            self.followed.start()

    async def stop(self) -> None:
        """Finish what is on its way, and keep what the next start needs."""
        await self.followed.stop()
        await self.halt()
        for shard in self._family.shards.values():
            await shard.close()

    async def halt(self) -> None:
        """Finish what is on its way, and begin nothing more."""
        for shard in self._family.shards.values():
            await shard.halt()

    def _new_shard(self, unit: int) -> DelayShard:
        shard = DelayShard(
            self._services, unit, partial(self._on_fired, unit), partial(self._on_expired, unit)
        )
        shard.before_load = self.followed.idle
        return shard

    def _is_open(self, unit: int) -> bool:
        shard = self._family.shards.get(unit)
        return shard is not None and shard.state.is_open

    # --- Units -----------------------------------------------------------------------------------

    def shard(self, unit: int = 0) -> DelayShard:
        """A unit that this node leads. Raises `DelaysUnavailableError` for any other."""
        shard = self._family.shards.get(unit)
        if shard is None:
            raise DelaysUnavailableError(
                f"this node does not lead unit {unit} of the delayed messages; try again"
            )
        return shard

    def _built(self) -> list[DelayParts]:
        """What may be read of the units that this node leads.

        Raises:
            DelaysUnavailableError: on a node alone, while they are being loaded.
        """
        if not self._services.targets.is_cluster:
            return [self.shard(0).built()]
        opened = self._family.opened()
        return [shard.built() for shard in opened if shard.state.is_built]

    def _for_intake(self, topic: Topic, partition: int) -> DelayShard:
        """The unit that takes what is published to a partition here: any that this node leads.

        Raises:
            DelaysUnavailableError: there is none at the moment.
        """
        if not self._services.targets.is_cluster:
            return self.shard(0)
        active = [shard for shard in self._family.opened() if shard.state.is_active]
        if not active:
            raise DelaysUnavailableError(
                "this node leads no unit of the delayed messages at the moment, so it takes none: "
                "try again"
            )
        return active[(topic.topic_id.int + partition) % len(active)]

    async def deliver_due(self) -> int:
        """Do everything that is to be done now; returns how many messages were handed over."""
        return sum([await shard.deliver_due() for shard in self._family.opened()])

    def clock_was_set(self) -> None:
        """Look now at what is due by the new time."""
        for shard in self._family.opened():
            shard.clock_was_set()

    def forget_topic(self, topic: Topic) -> None:
        """A topic is gone, and with it what waits for it, also if one of the same name comes."""
        for shard in self._family.opened():
            shard.forget_topic(topic.topic_id.bytes)

    # --- Taking in -------------------------------------------------------------------------------

    def take(
        self,
        topic: Topic,
        partition: int,
        info: BatchInfo,
        found: Opened,
        origin: Origin | None = None,
    ) -> TakenIn:
        """Store the records of a batch that are due later. Raises like `DelayIntake.take`."""
        shard = self._for_intake(topic, partition)
        parts = shard.active()
        taken = parts.intake.take(topic, partition, info, found.records, found.later, origin=origin)
        self._services.metrics.counter(names.DELAYED_SCHEDULED, topic.name).add(len(taken.messages))
        shard.wake_at(min(due_ms for _, _, due_ms in taken.messages))
        return taken

    def finish(self, topic: Topic, partition: int, info: BatchInfo) -> None:
        """The rest of a batch is stored too. On a node alone."""
        if info.has_producer:
            self.shard(0).active().intake.finish(topic, partition, info)

    async def restore(
        self,
        topic: Topic,
        partition: Partition,
        info: BatchInfo,
        records: list[Record],
        known: SequencedBatch,
    ) -> None:
        """Store what is missing of a repeated batch. Raises like `RepeatedBatches.restore`."""
        shard = self.shard(0)
        await shard.active().repeats.restore(topic, partition, info, records, known)
        shard.arm()

    async def durable(self, taken: TakenIn | None = None) -> None:
        """Return when messages that were taken in are on the disk; without any, all that were.

        Raises:
            LogFailedError: the disk refused.
        """
        store = self.shard(0).store
        await store.durable(store.ends() if taken is None else taken.ends)

    async def committed(self, taken: TakenIn) -> None:
        """Return when every in-sync replica has messages that were taken in.

        Raises:
            StorageError: this node leads their unit no more; they may be lost.
        """
        await self.shard(taken.unit).store.committed(taken.ends)

    def confirm(self, taken: TakenIn) -> None:
        """The rest of an idempotent batch is committed: what waits of it counts."""
        self.shard(taken.unit).confirm(taken.unconfirmed)

    def void(self, taken: TakenIn) -> None:
        """The rest of an idempotent batch is not stored: what waits of it never goes."""
        self.shard(taken.unit).void(taken.unconfirmed)

    def doubt(self, taken: TakenIn) -> None:
        """Nobody knows whether the rest of an idempotent batch is there to stay: find out."""
        self.shard(taken.unit).doubt(taken.unconfirmed)

    # --- Asking and cancelling -------------------------------------------------------------------

    async def _list(self, topic: Topic, limit: int, skip: int) -> list[DelayedMessage]:
        found: list[DelayedMessage] = []
        for parts in self._built():
            pending = parts.book.pending(topic.topic_id.bytes)
            if skip >= pending:
                skip -= pending
                continue
            ranges, left = parts.book.ranges_of(topic.topic_id.bytes), limit - len(found)
            look = partial(found_in, parts.store, parts.book, topic, ranges, limit=left, skip=skip)
            some, skip = await in_thread(self._services.executor, look), 0
            found += [_public(parts.unit, each) for each in some]
            if len(found) >= limit:
                break
        return found

    async def list(self, topic_name: str, limit: int = 100, skip: int = 0) -> list[DelayedMessage]:
        """The messages of a topic that wait, in the order in which they came within their class.

        Of the units that this node leads, one after the other.

        Raises:
            UnknownTopicError: there is no such topic.
        """
        topic = self._services.topics.catalogue.topic(topic_name)
        return await self._told(partial(self._list, topic, limit, skip), self._family.opened)

    async def get(self, topic_name: str, delayed_id: int) -> DelayedMessage:
        """One message, whatever became of it, as long as it is known.

        Raises:
            UnknownTopicError: there is no such topic.
            UnknownDelayedError: the topic has no such message, or not any more.
            DelaysUnavailableError: this node does not lead its unit, or may not.
        """
        topic = self._services.topics.catalogue.topic(topic_name)
        unit, inner = self._split(topic_name, delayed_id)
        shard = self.shard(unit)
        async with self._refusing(shard):
            return await self._told(partial(self._get, topic, shard, inner), lambda: [shard])

    async def _get(self, topic: Topic, shard: DelayShard, inner: int) -> DelayedMessage:
        parts, unit = shard.built(), shard.unit
        if parts.book.state(inner) is not None:
            read = partial(parts.store.read, [inner])
            records = await in_thread(self._services.executor, read)
            state = parts.book.state(inner)
            if state is not None and inner in records:
                message = message_of(topic, inner, records[inner], state)
                if message is not None:
                    return _public(unit, message)
        raise _unknown(topic.name, public_id(unit, inner))

    async def _told(
        self, read: Callable[[], Awaitable[_T]], of: Callable[[], Iterable[DelayShard]]
    ) -> _T:
        """What is read of units, once it is committed. On one node everything that is there is."""
        while True:
            found = await read()
            if self.confirm_epoch is None or all([await each.settled() for each in of()]):
                return found

    def _refusing(self, shard: DelayShard) -> AbstractAsyncContextManager[None]:
        """Refuse what is asked of a message only for certain."""
        refusals = (UnknownDelayedError, DelayedNotPendingError)
        return refusing(shard.state, self.confirm_epoch, *refusals)

    def _split(self, topic_name: str, delayed_id: int) -> tuple[int, int]:
        """The unit of a message, and its id there. Raises `UnknownDelayedError`: no unit has it."""
        unit, inner = unit_of(delayed_id), inner_id(delayed_id)
        if unit >= self._family.partition_count or public_id(unit, inner) != delayed_id:
            raise _unknown(topic_name, delayed_id)
        return unit, inner

    async def cancel(
        self, topic_name: str, partition: int | None, delayed_id: int
    ) -> DelayedMessage:
        """Let a message never be delivered. That is committed when this returns.

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
        unit, inner = self._split(topic_name, delayed_id)
        shard = self.shard(unit)
        async with self._refusing(shard):
            parts = shard.active()
            if not parts.book.is_pending(inner):
                state = parts.book.state(inner) or message.state
                raise DelayedNotPendingError(
                    f"delayed message {delayed_id} of topic {topic_name!r} is {state.name.lower()}"
                )
        ended = Ended(message.topic_id.bytes, DelayedState.CANCELLED, (inner,))
        end_offset = parts.ledger.change(ended)
        parts.index.cancel(inner)
        parts.courier.cache.pop(inner)
        await parts.ledger.committed(end_offset)
        topic = self._services.topics.catalogue.by_name.get(topic_name)
        if self._services.delay_traces.is_on and topic is not None:
            self._services.delay_traces.cancelled(topic, message)
        return message._replace(state=DelayedState.CANCELLED)

    def stats(self) -> DelayStats:
        """Counts, since the beginning and now, of the units that this node leads."""
        by_id, totals = self._services.topics.catalogue.by_id, Counter[DelayedState]()
        built, pending = self._built(), Counter[str]()
        for parts in built:
            totals += parts.book.totals
            for key, count in parts.book.topics().items():
                if (topic := by_id.get(UUID(bytes=key))) is not None:
                    pending[topic.name] += count
        return DelayStats(
            scheduled=totals[DelayedState.PENDING],
            delivered=totals[DelayedState.DELIVERED],
            cancelled=totals[DelayedState.CANCELLED],
            expired=totals[DelayedState.EXPIRED],
            pending=sum(parts.book.pending_count for parts in built),
            pending_by_topic=dict(pending),
            wheel=all_wheels(parts.index.wheel.stats for parts in built),
        )

    async def timeline(self, steps: int) -> Timeline:
        """When the messages that wait will come, of all topics together."""
        dues_ms, slots = list[int](), Counter[int]()
        for parts in self._built():
            near, far = await parts.keeper.dues()
            dues_ms += near
            slots.update(far)
        now_ms = self._services.clock.now_ms()
        count = partial(timeline, now_ms, dues_ms, slots, steps)
        return await in_thread(self._services.executor, count)

    def _put_gauges(self, samples: Samples) -> None:
        with suppress(DelaysUnavailableError):
            for topic, count in self.stats().pending_by_topic.items():
                samples.put(names.DELAYED_PENDING, count, topic)

    def _on_fired(
        self, unit: int, topic: Topic, partition: int, first: int, messages: Sequence[Due]
    ) -> None:
        services, count = self._services, len(messages)
        services.metrics.counter(names.DELAYED_FIRED, topic.name).add(count)
        target = services.partitions.find(TopicPartition(topic.name, partition))
        if target is not None and target.is_leading:  # otherwise its leader counts them
            services.measures.topic(topic.name).messages_published.add(count)
            lanes = target.lanes.counts(first, first + count)
            services.measures.prioritised(topic.name, lanes, count)
        if services.delay_traces.is_on:
            named = [
                each._replace(delayed_id=public_id(unit, each.delayed_id)) for each in messages
            ]
            services.delay_traces.ready(topic, partition, first, named)

    def _on_expired(self, unit: int, ids: Iterable[int]) -> None:
        if self._services.delay_traces.is_on:
            self._services.delay_traces.expired(public_id(unit, each) for each in ids)


def _public(unit: int, message: DelayedMessage) -> DelayedMessage:
    return message._replace(delayed_id=public_id(unit, message.delayed_id)) if unit else message


def _unknown(topic_name: str, delayed_id: int) -> UnknownDelayedError:
    return UnknownDelayedError(f"topic {topic_name!r} has no delayed message {delayed_id}")
