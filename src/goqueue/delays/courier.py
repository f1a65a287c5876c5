"""Handing delayed messages over to their partitions when they are due.

The steps are those of `goqueue.publishing.handover`: what is due is read ahead, an intention is
stored and committed, the messages are appended by whoever leads their partition, and when they are
there to stay, that is stored too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.delays.deltas import Delta, Ended, Intent, ProducerGiven, Released, Settled
from goqueue.delays.destinations import Destinations
from goqueue.delays.due.wheel import AT_ONCE
from goqueue.delays.entries import DelayedState, Waiting, as_delivered, decode_waiting
from goqueue.delays.record_cache import RecordCache, size_of
from goqueue.model.errors import (
    DelayError,
    GoQueueError,
    StorageError,
    UnknownPartitionError,
    UnknownTopicError,
    UnknownTopicIdError,
)
from goqueue.model.tuples import NamedTuple
from goqueue.publishing.handover import LAST_EPOCH, SEQUENCES
from goqueue.publishing.local_target import LocalTarget
from goqueue.publishing.remote_target import RemoteTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor

    from goqueue.delays.book import DelayBook
    from goqueue.delays.destination import Destination, Place
    from goqueue.delays.due.due_index import DueIndex
    from goqueue.delays.intake import DelayIntake
    from goqueue.delays.store import DelayLedger, DelayStore
    from goqueue.partitions.partition import Placed
    from goqueue.publishing.handover import Handover
    from goqueue.publishing.targets import Targets
    from goqueue.records import Record
    from goqueue.runtime.clock import Clock
    from goqueue.topics.catalogue import Topic, Topics

logger = logging.getLogger(__name__)

ROUND: Final = 2000
"""Messages handed over at once; more wait for the next round, in which others have their turn."""
BATCH_RECORDS: Final = 1000
BATCH_BYTES: Final = 512 * 1024
"""Of what is appended to a partition at once; a single message may be larger."""
AHEAD_MS: Final = 2500
"""So long before they are due, messages are read."""
_MAX_READ_AHEAD: Final = 100_000
"""Messages looked for at once; more are read when they are due."""
_BATCH_COST: Final = 20
"""What a batch costs, in messages."""
_CONFIRM_MS: Final = 20
"""Before another look at a message of which it is not known whether it counts."""
RETRY_MS: Final = 1000
"""Before another attempt at a partition that took nothing."""

OnFired: TypeAlias = "Callable[[Topic, int, int, Sequence[Due]], None]"
"""Told of messages that were handed over: topic, partition, the first offset, and what they are."""


class Due(NamedTuple):
    """A message on its way."""

    delayed_id: int
    waiting: Waiting
    record: Record


class _Batch(NamedTuple):
    """Messages that go to their partition at once."""

    intent: Intent
    topic: Topic
    target: LocalTarget | RemoteTarget
    messages: list[Due]


class Courier:
    """Takes what is due where it belongs. One round at a time."""

    def __init__(
        self,
        store: DelayStore,
        ledger: DelayLedger,
        intake: DelayIntake,
        index: DueIndex,
        *,
        topics: Topics,
        targets: Targets,
        executor: Executor,
        clock: Clock,
        on_fired: OnFired,
    ) -> None:
        """Tell `on_fired` what was handed over."""
        self._ledger = ledger
        self._index = index
        self._intake = intake
        self.cache = RecordCache(store, executor)
        intake.keep = self.cache.keep
        self._clock = clock
        self._on_fired = on_fired
        self.destinations = Destinations(topics, targets)
        self.outcomes = self.destinations.outcomes
        self._due: deque[int] = deque()
        self._read_until_ms = 0

    @property
    def _book(self) -> DelayBook:
        return self._ledger.book

    @property
    def has_due(self) -> bool:
        """Something is due that was held up: the next round follows at once."""
        return bool(self.outcomes.again)

    @property
    def has_unsettled(self) -> bool:
        """Something must be looked at again soon, also when nothing falls due."""
        return bool(self._due) or not self.outcomes.is_empty or self.destinations.is_unsettled

    # --- Reading ahead ---------------------------------------------------------------------------

    async def read_ahead(self, now_ms: int) -> None:
        """Have at hand what falls due soon."""
        until_ms = now_ms + AHEAD_MS
        soon = self._index.wheel.due_between(min(self._read_until_ms, until_ms), until_ms)
        self._read_until_ms = self._intake.keep_until_ms = until_ms
        wanted: list[int] = []
        for number, some in enumerate(soon):
            wanted += [each for each in some if each not in self.cache]
            if len(wanted) >= _MAX_READ_AHEAD:
                break
            if number % 16 == 0:
                await asyncio.sleep(0)
        await self.cache.read_ahead(wanted, self._book.is_pending)

    # --- Handing over ----------------------------------------------------------------------------

    async def deliver(self, now_ms: int) -> int:
        """Hand over what is due; returns how many messages went."""
        drawn = 0
        for some in self._index.advance(now_ms, self._book.is_pending):
            self._due.extend(some)
            drawn += len(some) or AT_ONCE
            if drawn >= AT_ONCE:
                drawn = 0
                await asyncio.sleep(0)
        self._settle()
        again, self.outcomes.again = self.outcomes.again, []
        self._due.extend(again)
        delivered = 0
        while self._due:
            ids = [self._due.popleft() for _ in range(min(ROUND, len(self._due)))]
            try:
                delivered += await self._deliver(ids)
            except StorageError as error:
                logger.warning("delayed messages are overdue: %s", error)
                self._postpone(ids)
                return delivered
            if self._due:
                await asyncio.sleep(0)
        return delivered

    async def _deliver(self, ids: list[int]) -> int:
        records = await self.cache.take(ids)
        # From here to the stored intention nothing is awaited: what is cancelled by now does not
        # go, and what goes cannot be cancelled any more.
        now_ms = self._clock.now_ms()
        due: dict[tuple[bytes, int], list[Due]] = {}
        for each in dict.fromkeys(ids):
            if self._book.is_pending(each):
                self._sort(each, records.get(each), now_ms, due)
        deltas: list[Delta] = []
        batches: list[_Batch] = []
        for place, messages in due.items():
            try:
                batches += self._batches(place, messages, len(batches))
            except (UnknownTopicError, UnknownTopicIdError, UnknownPartitionError):
                ended = tuple(each.delayed_id for each in messages)
                deltas.append(Ended(place[0], DelayedState.EXPIRED, ended))
            except GoQueueError as error:
                logger.info("delayed messages wait for their partition: %s", error)
                self._postpone(each.delayed_id for each in messages)
        deltas += [batch.intent for batch in batches]
        if not deltas:
            return 0
        # The producer with every intention: one without the other would say nothing of whether the
        # batch is in its partition, and the entry in which it was said first may be damaged.
        handover = self.outcomes.required_handover()
        given = ProducerGiven(handover.producer_id, handover.epoch)
        await self._ledger.committed(self._ledger.change(given, *deltas))
        delivered = appended = 0
        for batch in batches:
            self._ledger.check()
            delivered += self._send(handover, batch)
            appended += len(batch.messages) + _BATCH_COST
            if appended >= BATCH_RECORDS:
                appended = 0
                await asyncio.sleep(0)
        return delivered

    def _sort(
        self,
        delayed_id: int,
        record: Record | None,
        now_ms: int,
        due: dict[tuple[bytes, int], list[Due]],
    ) -> None:
        """Put a message to the others of its partition, if it is what the index takes it for."""
        if record is None:
            self._lose(delayed_id)
            return
        try:
            waiting = decode_waiting(record.headers)
        except DelayError:
            self._lose(delayed_id)
            return
        if delayed_id in self._intake.unconfirmed:
            self._index.restore(now_ms + _CONFIRM_MS, delayed_id)
            self.cache.keep(delayed_id, record)
            return
        if waiting.due_ms > now_ms:  # a garbled slot, or a clock that was set back meanwhile
            self._index.restore(waiting.due_ms, delayed_id)
            return
        place = (waiting.topic_id, waiting.partition)
        due.setdefault(place, []).append(Due(delayed_id, waiting, record))

    def _lose(self, delayed_id: int) -> None:
        """A message cannot be read: whose it was is not known, so it stays, and is told of."""
        logger.error("delayed message %d cannot be read: its record is damaged", delayed_id)

    def _batches(self, place: Place, messages: list[Due], made: int) -> list[_Batch]:
        """Batches for one partition, in the order in which the messages fell due.

        None while the partition takes nothing; the messages wait for it.

        Raises:
            TopicError, LeaderUnavailableError: as `Targets.of` does.
            StorageError: its log refuses appends.
        """
        topic, target = self.destinations.target(place)
        if isinstance(target, LocalTarget) and target.partition.failure is not None:
            raise target.partition.failure
        handover = self.outcomes.required_handover()
        if handover.epoch > LAST_EPOCH:
            raise DelayError("the producer of delayed messages has no epoch left: another follows")
        destination = self.destinations.of(place)
        if not destination.takes(target):
            destination.look()
        position = None
        if destination.takes(target):
            position = destination.position(target, handover, len(messages))
        if position is None:
            self._hold(destination, messages)
            return []
        sequence, batches = position.next_sequence, list[_Batch]()
        for some in _portions(messages):
            intent = Intent(
                self._book.next_intent + made + len(batches),
                *place,
                position.end_offset,
                sequence,
                tuple(each.delayed_id for each in some),
                handover.epoch,
            )
            batches.append(_Batch(intent, topic, target, some))
            sequence = (sequence + len(some)) % SEQUENCES
        return batches

    def _hold(self, destination: Destination, messages: list[Due]) -> None:
        """Let messages wait for what is under way for their partition."""
        if destination.hold(each.delayed_id for each in messages):
            for delayed_id, _, record in messages:
                self.cache.keep(delayed_id, record)
        else:
            self._postpone(each.delayed_id for each in messages)

    def _send(self, handover: Handover, batch: _Batch) -> int:
        intent, topic, target, messages = batch
        now_ms = self._clock.now_ms()
        records = [as_delivered(each.record, at, now_ms) for at, each in enumerate(messages)]
        destination = self.destinations.of((intent.topic_id, intent.partition))
        try:
            encoded = handover.batch_for(topic.settings, records, intent.base_sequence)
            if isinstance(target, RemoteTarget):
                destination.send(
                    intent, target, encoded, partial(self._stored, topic, intent, messages)
                )
                return len(records)
            mark, placed = target.mark(), target.append_now(encoded)
        except GoQueueError as error:
            logger.warning("%s refuses delayed messages for now: %s", target.id, error)
            self.outcomes.refused(intent, error)
            return 0
        destination.sent(intent, target, placed.end_offset, mark)
        self.destinations.is_unsettled = True
        self._stored(topic, intent, messages, placed)
        return len(records)

    def _stored(self, topic: Topic, intent: Intent, messages: list[Due], placed: Placed) -> None:
        self._on_fired(topic, intent.partition, placed.first_offset, messages)

    def _postpone(self, ids: Iterable[int]) -> None:
        later_ms = self._clock.now_ms() + RETRY_MS
        for each in ids:
            self._index.restore(later_ms, each)

    # --- Settling --------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Store which messages are where they belong for good, and which are not."""
        self.destinations.look()
        outcomes = self.outcomes
        if outcomes.is_empty:
            return
        settled, released = outcomes.settled, outcomes.released
        deltas: list[Delta] = []
        if released:
            deltas.append(Released(tuple(intent.number for intent in released)))
        if settled:
            deltas.append(Settled(tuple(settled)))
        self._ledger.change(*deltas)
        outcomes.settled, outcomes.released = [], []
        later_ms = self._clock.now_ms() + RETRY_MS
        for intent in released:
            for delayed_id in intent.ids:
                self._index.add(later_ms, delayed_id)


def _portions(messages: list[Due]) -> list[list[Due]]:
    batches: list[list[Due]] = []
    size = BATCH_BYTES
    for each in messages:
        if size >= BATCH_BYTES or len(batches[-1]) == BATCH_RECORDS:
            batches.append([])
            size = 0
        batches[-1].append(each)
        size += size_of(each.record)
    return batches
