"""Handing delayed messages over to their partitions when they are due.

The steps are those of `goqueue.publishing.handover`: what is due is read ahead, an intention is
stored and synced, the messages are appended, and when their partition has synced them, that is
stored too.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from goqueue.delays.deltas import Delta, Ended, Intent, ProducerGiven, Released, Settled
from goqueue.delays.entries import DelayedState, Waiting, as_delivered, decode_waiting
from goqueue.delays.record_cache import RecordCache, size_of
from goqueue.delays.wheel import AT_ONCE
from goqueue.model.errors import (
    DelayError,
    GoQueueError,
    NotLeaderError,
    StorageError,
    TopicError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor

    from goqueue.delays.book import DelayBook
    from goqueue.delays.due_index import DueIndex
    from goqueue.delays.intake import DelayIntake
    from goqueue.delays.store import DelayLedger, DelayStore
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.publishing.handover import Handover
    from goqueue.records import Record
    from goqueue.runtime.clock import Clock
    from goqueue.storage.recovery import RecoveryReport
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
RETRY_MS: Final = 1000
"""Before another attempt at a partition that took nothing."""


OnFired: TypeAlias = "Callable[[Topic, int, int, Sequence[Due]], None]"
"""Told of messages that were handed over: topic, partition, the first offset, and what they are."""


class Due(NamedTuple):
    """A message on its way."""

    delayed_id: int
    waiting: Waiting
    record: Record


class _Sent(NamedTuple):
    """A batch that is in its partition, perhaps not yet for good."""

    intent: Intent
    partition: Partition
    end_offset: int
    recovery: RecoveryReport | None
    """Of the log as it was then: after another one, what was appended may be lost."""
    epoch: int
    """In which it was led; another leader may have cut it off since."""


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
        partitions: Partitions,
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
        self._topics = topics
        self._partitions = partitions
        self._clock = clock
        self._on_fired = on_fired
        self.handover: Handover | None = None
        """Set before the first round."""
        self._due: deque[int] = deque()
        self._sent: list[_Sent] = []
        self._to_release: list[Intent] = []
        """What was not appended; its messages wait again once that is stored."""
        self._gone: list[int] = []
        """Intents that nobody need care for: their topics are deleted."""
        self._read_until_ms = 0

    @property
    def _book(self) -> DelayBook:
        return self._ledger.book

    @property
    def has_unsettled(self) -> bool:
        """Something must be looked at again soon, also when nothing falls due."""
        return bool(self._sent or self._to_release or self._gone or self._due)

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
        gone: list[Ended] = []
        batches: list[tuple[Intent, Topic, Partition, list[Due]]] = []
        for (topic_id, number), messages in due.items():
            try:
                topic = self._topics.catalogue.topic_with_id(UUID(bytes=topic_id))
                partition = self._partitions.partition(TopicPartition(topic.name, number))
            except NotLeaderError:
                self._postpone(each.delayed_id for each in messages)
                continue
            except TopicError:
                ended = tuple(each.delayed_id for each in messages)
                gone.append(Ended(topic_id, DelayedState.EXPIRED, ended))
                continue
            if partition.failure is not None:
                self._postpone(each.delayed_id for each in messages)
                continue
            batches += self._intents(topic, partition, messages, len(batches))
        deltas: list[Delta] = [*gone, *(intent for intent, _, _, _ in batches)]
        if not deltas:
            return 0
        # The producer with every intention: one without the other would say nothing of whether the
        # batch is in its partition, and the entry in which it was said first may be damaged.
        end_offset = self._ledger.change(
            ProducerGiven(self._required_handover().producer_id), *deltas
        )
        await self._ledger.committed(end_offset)
        delivered = appended = 0
        for batch in batches:
            self._ledger.check()
            delivered += self._append(*batch)
            appended += len(batch[-1]) + _BATCH_COST
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
        if waiting.due_ms > now_ms:  # a garbled slot, or a clock that was set back meanwhile
            self._index.restore(waiting.due_ms, delayed_id)
            return
        place = (waiting.topic_id, waiting.partition)
        due.setdefault(place, []).append(Due(delayed_id, waiting, record))

    def _lose(self, delayed_id: int) -> None:
        """A message cannot be read: whose it was is not known, so it stays, and is told of."""
        logger.error("delayed message %d cannot be read: its record is damaged", delayed_id)

    def _intents(
        self, topic: Topic, partition: Partition, messages: list[Due], made: int
    ) -> list[tuple[Intent, Topic, Partition, list[Due]]]:
        """Batches for one partition, in the order in which the messages fell due."""
        handover = self._required_handover()
        batches: list[tuple[Intent, Topic, Partition, list[Due]]] = []
        before = 0
        for batch in _batches(messages):
            intent = Intent(
                self._book.next_intent + made + len(batches),
                topic.topic_id.bytes,
                partition.id.partition,
                partition.log_end,
                handover.next_sequence(partition, before),
                tuple(each.delayed_id for each in batch),
            )
            batches.append((intent, topic, partition, batch))
            before += len(batch)
        return batches

    def _append(
        self, intent: Intent, topic: Topic, partition: Partition, messages: list[Due]
    ) -> int:
        now_ms = self._clock.now_ms()
        records = [as_delivered(each.record, at, now_ms) for at, each in enumerate(messages)]
        try:
            placed = self._required_handover().append(
                partition, topic.settings, records, intent.base_sequence
            )
        except GoQueueError as error:
            logger.warning("%s refuses delayed messages for now: %s", partition.id, error)
            self._to_release.append(intent)
            return 0
        end, recovery = placed.end_offset, partition.recovery
        self._sent.append(_Sent(intent, partition, end, recovery, partition.leader_epoch))
        self._on_fired(topic, partition.id.partition, placed.first_offset, messages)
        return len(records)

    def _required_handover(self) -> Handover:
        if self.handover is None:
            raise DelayError("nothing can be handed over before there is a producer id for it")
        return self.handover

    def _postpone(self, ids: Iterable[int]) -> None:
        later_ms = self._clock.now_ms() + RETRY_MS
        for each in ids:
            self._index.restore(later_ms, each)

    # --- Settling --------------------------------------------------------------------------------

    def resume(self, intents: Iterable[tuple[Intent, Partition | None]]) -> None:
        """Find out what became of intentions from before the start; None is a topic that is gone.

        Those whose messages are in their partition settle like any other: they may be there for
        now only. Without a producer to look for, as when that entry is damaged, all are taken for
        not appended: better twice than never.
        """
        if self.handover is None:
            self._to_release += [intent for intent, _ in intents]
            return
        known: dict[Partition, list[Intent]] = {}
        for intent, partition in intents:
            if partition is not None:
                known.setdefault(partition, []).append(intent)
            else:
                self._gone.append(intent.number)
        for partition, mine in known.items():
            end, epoch = partition.log_end, partition.leader_epoch
            if not partition.is_leading:
                self._sent += [_Sent(intent, partition, end, None, epoch) for intent in mine]
                continue
            first = min(intent.from_offset for intent in mine)
            found = self._required_handover().found(partition, first)
            for intent in mine:
                if intent.base_sequence in found:
                    recovery = partition.recovery
                    self._sent.append(_Sent(intent, partition, end, recovery, epoch))
                else:
                    self._to_release.append(intent)

    def _settle(self) -> None:
        """Store which messages are where they belong for good, and which are not."""
        settled: list[_Sent] = []
        open_before, self._sent = self._sent, []
        for each in open_before:
            partition = each.partition
            is_same = partition.recovery is each.recovery
            if not (is_same and partition.leader_epoch == each.epoch) and not partition.is_closed:
                self._look_again(each)
            elif self._required_handover().is_settled(each.partition, each.end_offset):
                settled.append(each)
            else:
                self._sent.append(each)
        deltas: list[Delta] = []
        released = self._to_release
        if released:
            deltas.append(Released(tuple(intent.number for intent in released)))
        if settled or self._gone:
            numbers = (*self._gone, *(each.intent.number for each in settled))
            deltas.append(Settled(numbers))
        if not deltas:
            return
        self._ledger.change(*deltas)
        self._to_release, self._gone = [], []
        later_ms = self._clock.now_ms() + RETRY_MS
        for intent in released:
            for delayed_id in intent.ids:
                self._index.add(later_ms, delayed_id)

    def _look_again(self, sent: _Sent) -> None:
        """The partition's log has recovered since: what was appended may have been lost with it."""
        if sent.partition.failure is not None or not sent.partition.is_leading:
            self._sent.append(sent)
            return
        found = self._required_handover().found(sent.partition, sent.intent.from_offset)
        if sent.intent.base_sequence in found:
            recovery, epoch = sent.partition.recovery, sent.partition.leader_epoch
            self._sent.append(sent._replace(recovery=recovery, epoch=epoch))
        else:
            self._to_release.append(sent.intent)


def _batches(messages: list[Due]) -> list[list[Due]]:
    batches: list[list[Due]] = []
    size = BATCH_BYTES
    for each in messages:
        if size >= BATCH_BYTES or len(batches[-1]) == BATCH_RECORDS:
            batches.append([])
            size = 0
        batches[-1].append(each)
        size += size_of(each.record)
    return batches
