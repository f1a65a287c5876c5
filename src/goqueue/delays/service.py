"""Delayed messages as a use case: taken in, listed, cancelled, and delivered when they are due.

The parts do the work: the intake stores what comes, the courier hands over what is due, the keeper
maintains snapshots and slots. This starts them, wakes them when there is something to do, and
answers questions.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID

from goqueue.delays.courier import AHEAD_MS
from goqueue.delays.deltas import Ended, ProducerGiven
from goqueue.delays.entries import DelayedState
from goqueue.delays.parts import DelayPartServices, open_parts
from goqueue.delays.views import DelayedMessage, DelayStats, found_in, ids_in, message_of
from goqueue.delays.wheel import TICK_MS
from goqueue.metrics import names
from goqueue.model.errors import (
    DelayDisabledError,
    DelayedNotPendingError,
    MetadataError,
    StorageError,
    UnknownDelayedError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.handover import Handover
from goqueue.runtime.tasks import in_thread
from goqueue.storage.snapshot_kinds import SnapshotKind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from concurrent.futures import Executor

    from goqueue.delays.courier import Due
    from goqueue.delays.parts import DelayParts
    from goqueue.delays.timeline import Timeline
    from goqueue.delays.traces import DelayTraces
    from goqueue.metrics.registry import Metrics, Samples
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.partitions.producer_ids import ProducerIds
    from goqueue.partitions.sequences import SequencedBatch
    from goqueue.publishing.delayed import TakenIn
    from goqueue.publishing.delivery_headers import Opened
    from goqueue.publishing.publish import Publisher
    from goqueue.records import BatchInfo, Record
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topic, Topics

logger = logging.getLogger(__name__)

_SETTLE_MS: Final = 100
"""Between looks whether what was handed over is on the disk."""
_READ_AHEAD_MS: Final = 1000
"""Between looks for what falls due soon, while something does."""
_EXPIRED_AT_ONCE: Final = 1000


class DelayServices(DelayPartServices, Protocol):
    """What delayed messages need."""

    clock: Clock
    publisher: Publisher
    metrics: Metrics
    topics: Topics
    executor: Executor
    delay_traces: DelayTraces
    measures: Measures
    partitions: Partitions
    producer_ids: ProducerIds


class Delays:
    """Every delayed message of this broker."""

    def __init__(self, services: DelayServices) -> None:
        self._services = services
        self._clock = services.clock
        self._parts: DelayParts | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wake_ms = 0
        self._round: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._aside: set[asyncio.Task[None]] = set()
        """Reading ahead, snapshots, and topics that go; a few at a time."""
        self._reading = self._saving = False
        self._read_at_ms = 0
        self._look_again = False
        """The wall clock was set during a round: the next one follows at once."""
        self._is_stopping = False

    # --- Life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Find out what waits, and deliver what has fallen due meanwhile."""
        services = self._services
        self._parts = parts = await open_parts(services, self._on_fired, self._saved)
        services.publisher.delays = self
        services.metrics.add_source(self._put_gauges)
        for topic_id in parts.book.topics():
            if UUID(bytes=topic_id) not in services.topics.catalogue.by_id:
                self._spawn(partial(self._expire, topic_id))
        self._arm()

    async def stop(self) -> None:
        """Finish what is on its way, and keep what the next start needs."""
        await self.halt()
        if self._parts is not None:
            try:
                await self._ensure_handover(self._parts)
            except (StorageError, MetadataError) as error:
                logger.warning("delayed messages: the next start has more to read: %s", error)
            await self._parts.keeper.save()

    async def halt(self) -> None:
        """Finish what is on its way, and begin nothing more."""
        self._is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        begun = [*self._aside] if self._round is None else [*self._aside, self._round]
        await asyncio.gather(*begun, return_exceptions=True)

    def _running(self) -> DelayParts:
        if self._parts is None or self._is_stopping:
            raise DelayDisabledError("the broker is starting or stopping: try again")
        return self._parts

    # --- Taking in -------------------------------------------------------------------------------

    def take(self, topic: Topic, partition: int, info: BatchInfo, found: Opened) -> TakenIn:
        """Store the records of a batch that are due later. Raises like `DelayIntake.take`."""
        parts = self._running()
        taken = parts.intake.take(topic, partition, info, found.records, found.later)
        self._services.metrics.counter(names.DELAYED_SCHEDULED, topic.name).add(len(taken.messages))
        earliest_ms = min(due_ms for _, _, due_ms in taken.messages)
        if self._timer is None or earliest_ms < self._wake_ms or parts.keeper.is_overdue:
            self._arm()
        return taken

    def finish(self, topic: Topic, partition: int, info: BatchInfo) -> None:
        """The rest of a batch is stored too."""
        if info.has_producer:
            self._running().intake.finish(topic, partition, info)

    async def restore(
        self,
        topic: Topic,
        partition: Partition,
        info: BatchInfo,
        records: list[Record],
        known: SequencedBatch,
    ) -> None:
        """Store what is missing of a repeated batch. Raises like `RepeatedBatches.restore`."""
        await self._running().repeats.restore(topic, partition, info, records, known)
        self._arm()

    async def durable(self, taken: TakenIn | None = None) -> None:
        """Return when messages that were taken in are on the disk; without any, all that were.

        Raises:
            LogFailedError: the disk refused.
        """
        store = self._running().store
        await store.durable(store.ends() if taken is None else taken.ends)

    # --- Asking and cancelling -------------------------------------------------------------------

    async def list(self, topic_name: str, limit: int = 100, skip: int = 0) -> list[DelayedMessage]:
        """The messages of a topic that wait, in the order in which they came within their class.

        Raises:
            UnknownTopicError: there is no such topic.
        """
        parts = self._running()
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
        parts = self._running()
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
            DiskError, LogFailedError: it may be delivered, or not.
        """
        message = await self.get(topic_name, delayed_id)
        if partition is not None and message.partition != partition:
            raise UnknownDelayedError(
                f"partition {partition} of topic {topic_name!r} has no delayed message {delayed_id}"
            )
        parts = self._running()
        if not parts.book.is_pending(delayed_id):
            state = parts.book.state(delayed_id) or message.state
            raise DelayedNotPendingError(
                f"delayed message {delayed_id} of topic {topic_name!r} is {state.name.lower()}"
            )
        ended = Ended(message.topic_id.bytes, DelayedState.CANCELLED, (delayed_id,))
        end_offset = parts.ledger.change(ended)
        parts.index.cancel(delayed_id)
        parts.courier.forget(delayed_id)
        await parts.ledger.durable(end_offset)
        topic = self._services.topics.catalogue.by_name.get(topic_name)
        if self._services.delay_traces.is_on and topic is not None:
            self._services.delay_traces.cancelled(topic, message)
        return message._replace(state=DelayedState.CANCELLED)

    def stats(self) -> DelayStats:
        """Counts, since the beginning and now."""
        parts = self._running()
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
        return await self._running().keeper.timeline(self._services.clock.now_ms(), steps)

    def _put_gauges(self, samples: Samples) -> None:
        if self._parts is not None and not self._is_stopping:
            for topic, count in self.stats().pending_by_topic.items():
                samples.put(names.DELAYED_PENDING, count, topic)

    def _on_fired(self, topic: Topic, partition: int, first: int, messages: Sequence[Due]) -> None:
        count = len(messages)
        self._services.metrics.counter(names.DELAYED_FIRED, topic.name).add(count)
        self._services.measures.topic(topic.name).messages_published.add(count)
        place = TopicPartition(topic.name, partition)
        lanes = self._services.partitions.partition(place).state.lanes.counts(first, first + count)
        self._services.measures.prioritised(topic.name, lanes, count)
        if self._services.delay_traces.is_on:
            self._services.delay_traces.ready(topic, partition, first, messages)

    def _saved(self, took_s: float) -> None:
        if self._parts is not None:
            self._parts.keeper.on_saved(took_s)
        self._services.measures.snapshot_saved(SnapshotKind.DELAYS.label, took_s)

    # --- Topics that go --------------------------------------------------------------------------

    def forget_topic(self, topic: Topic) -> None:
        """A topic is gone, and with it what waits for it, also if one of the same name comes."""
        if self._parts is not None and self._parts.book.pending(topic.topic_id.bytes):
            self._spawn(partial(self._expire, topic.topic_id.bytes))

    async def _expire(self, topic_id: bytes) -> None:
        parts = self._running()
        for found in parts.book.ranges_of(topic_id):
            look = partial(ids_in, parts.store, topic_id, found)
            ids = await in_thread(self._services.executor, look)
            ids = [each for each in ids if parts.book.is_pending(each)]
            self._end(topic_id, ids)
            if self._services.delay_traces.is_on:
                self._services.delay_traces.expired(ids)

    def _end(self, topic_id: bytes, ids: Sequence[int]) -> None:
        parts = self._running()
        for start in range(0, len(ids), _EXPIRED_AT_ONCE):
            portion = tuple(ids[start : start + _EXPIRED_AT_ONCE])
            parts.ledger.change(Ended(topic_id, DelayedState.EXPIRED, portion))
            for each in portion:
                parts.index.cancel(each)

    # --- Time ------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Be woken when there is something to do next."""
        if self._parts is None or self._is_stopping or self._round is not None:
            return
        now_ms, due_ms = self._clock.now_ms(), self._parts.index.next_due_hint()
        if due_ms > now_ms + _READ_AHEAD_MS:
            due_ms = max(now_ms + _READ_AHEAD_MS, due_ms - AHEAD_MS)
        if self._parts.courier.has_unsettled:
            due_ms = min(due_ms, now_ms + _SETTLE_MS)
        save_in_ms = self._parts.keeper.due_in_ms()
        if save_in_ms is not None and not self._saving:
            due_ms = min(due_ms, now_ms + save_in_ms)
        if self._look_again:
            self._look_again, due_ms = False, now_ms
        if self._timer is not None:
            self._timer.cancel()
        self._wake_ms = due_ms
        wait_s = max(due_ms - now_ms, 0) / 1000
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._on_timer)

    def clock_was_set(self) -> None:
        """Look now at what is due by the new time, and wait anew for the rest.

        The timer counts the time that passes, and was set for a moment of the old time.
        """
        if self._parts is None or self._is_stopping:
            return
        self._look_again = self._round is not None  # which has read the old time
        if self._timer is not None:
            self._timer.cancel()
        self._on_timer()

    def _on_timer(self) -> None:
        self._timer = None
        if self._round is None and not self._is_stopping:
            self._round = asyncio.get_running_loop().create_task(self._run_round())

    async def _run_round(self) -> None:
        try:
            await self.deliver_due()
        except DelayDisabledError:
            pass  # it ends
        except Exception:
            logger.exception("delayed messages: a round failed; the next one comes")
            await asyncio.sleep(_SETTLE_MS / 1000)
        self._round = None
        self._arm()

    async def deliver_due(self) -> int:
        """Do everything that is to be done now; returns how many messages were handed over."""
        async with self._one_at_a_time:
            return await self._deliver_due()

    async def _deliver_due(self) -> int:
        parts, now_ms = self._running(), self._clock.now_ms()
        if now_ms < parts.index.wheel.now_ms - TICK_MS:
            logger.warning("the clock was set back: delayed messages wait for the new time")
            parts.index.turn_back(now_ms)
        if parts.index.wanted_slot(now_ms) is not None:
            await parts.keeper.load_slots(now_ms)
        await self._ensure_handover(parts)
        delivered = await parts.courier.deliver(now_ms)
        self._read_ahead(parts, now_ms)
        save_in_ms = parts.keeper.due_in_ms()
        if save_in_ms is not None and save_in_ms <= 0 and not self._saving:
            self._saving = True
            self._spawn(partial(self._save, parts))
        return delivered

    async def _save(self, parts: DelayParts) -> None:
        try:
            await parts.keeper.save()
        finally:
            self._saving = False
            self._arm()

    async def _ensure_handover(self, parts: DelayParts) -> None:
        """Have a producer id from the first message on, and the same for ever."""
        if parts.courier.handover is None and parts.book.pending_count:
            producer_id = await self._services.producer_ids.allocate()
            await parts.ledger.durable(parts.ledger.change(ProducerGiven(producer_id)))
            parts.courier.handover = Handover(producer_id)

    def _read_ahead(self, parts: DelayParts, now_ms: int) -> None:
        if self._reading or 0 <= now_ms - self._read_at_ms < _READ_AHEAD_MS // 2:
            return
        self._reading, self._read_at_ms = True, now_ms

        async def read() -> None:
            try:
                await parts.courier.read_ahead(now_ms)
            finally:
                self._reading = False

        self._spawn(read)

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something beside the rounds."""
        task = asyncio.get_running_loop().create_task(self._logged(work))
        self._aside.add(task)
        task.add_done_callback(self._aside.discard)

    @staticmethod
    async def _logged(work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except (StorageError, DelayDisabledError) as error:
            logger.warning("delayed messages: %s", error)
