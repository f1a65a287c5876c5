"""What is on its way to one partition: batches that were sent, and intents that nobody is sure of.

One thing at a time is done for a partition, in order: its batches have sequences that follow each
other, and none is sent while it is not known what became of those before it. Partitions do not wait
for each other: a leader that does not answer holds up what is due there and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.model.errors import (
    DelayError,
    FencedProducerError,
    GoQueueError,
    HandoverUnknownError,
    UnknownTopicError,
    UnknownTopicIdError,
)
from goqueue.model.tuples import NamedTuple
from goqueue.publishing.handover import SEQUENCES, Fate, Handover
from goqueue.publishing.local_target import LocalTarget
from goqueue.publishing.remote_target import RemoteTarget

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from goqueue.delays.deltas import Intent
    from goqueue.partitions.partition import Placed
    from goqueue.publishing.handover import Position, Target
    from goqueue.publishing.local_target import LogMark

logger = logging.getLogger(__name__)

Place: TypeAlias = tuple[bytes, int]
"""The id of a topic, and the number of a partition."""

_MAX_QUEUED: Final = 8
"""Batches that wait for a leader elsewhere; what falls due beyond them waits with its id alone."""
RETRY_S: Final = 0.2
"""Between questions to a leader that cannot answer."""


class _Sent(NamedTuple):
    """A batch that is in the log of a partition of this node, perhaps not yet for good."""

    intent: Intent
    target: LocalTarget
    end_offset: int
    mark: LogMark


class _Queued(NamedTuple):
    """A batch for a leader elsewhere."""

    intent: Intent
    target: Target
    batch: bytearray
    on_stored: Callable[[Placed], None]


class Outcomes:
    """What all destinations of a unit share: the producer, and what is to be stored of intents."""

    def __init__(self, *, fences: bool) -> None:
        """`fences`: resolving an intent ends the epoch of the producer, as in a cluster."""
        self._fences = fences
        self.handover: Handover | None = None
        """Set before the first round."""
        self.settled: list[int] = []
        """Intents whose messages are in their partition for good, or whose topic is deleted."""
        self.released: list[Intent] = []
        """What was not appended; its messages wait again once that is stored."""
        self.again: list[int] = []
        """Messages that were held up, and are due."""
        self.on_change: Callable[[], None] = lambda: None
        """Called when something was added beside the rounds."""

    @property
    def is_empty(self) -> bool:
        """Nothing is to be stored."""
        return not (self.settled or self.released)

    def resolved(self, epoch: int) -> None:
        """Batches of this epoch are refused from now on, somewhere: go on in a later one."""
        if self._fences and self.handover is not None and self.handover.epoch <= epoch:
            self.handover = Handover(self.handover.producer_id, epoch + 1)

    def refused(self, intent: Intent, error: GoQueueError) -> None:
        """A partition took nothing of an intent: its messages wait again.

        Where it knows a later epoch of the producer, an earlier leader of the unit has ended this
        one to resolve an intent, and was gone before it had stored anything in the next.
        """
        if isinstance(error, FencedProducerError):
            self.resolved(intent.epoch)
        self.released.append(intent)

    def required_handover(self) -> Handover:
        """The producer. Raises `DelayError` when there is none yet."""
        if self.handover is None:
            raise DelayError("nothing can be handed over before there is a producer id for it")
        return self.handover


class Destination:
    """One partition that messages are handed over to."""

    def __init__(
        self, topic_id: bytes, number: int, outcomes: Outcomes, find: Callable[[Place], Target]
    ) -> None:
        """Tell `outcomes` what became of intents; `find` says who leads the partition."""
        self.place: Place = topic_id, number
        self._outcomes = outcomes
        self._find = find
        self._sent: list[_Sent] = []
        """As many as are appended between two flushes, or until the in-sync replicas have them."""
        self._queued: deque[_Queued] = deque()
        self.unresolved: list[Intent] = []
        self._position: tuple[Handover, Position] | None = None
        """Where the next batch of a producer goes, if the leader is elsewhere and has said so."""
        self._held: list[int] = []
        """Messages that are due and cannot go yet."""
        self._task: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        """Nothing is on its way or waits to be."""
        return not (self._sent or self._queued or self.unresolved or self._task)

    @property
    def is_unsettled(self) -> bool:
        """Something must be looked at again soon."""
        return bool(self._sent)

    def takes(self, target: LocalTarget | RemoteTarget) -> bool:
        """Whether the next batch may go to this target: what went before must be known by then."""
        if self.unresolved or len(self._queued) >= _MAX_QUEUED:
            return False
        if isinstance(target, RemoteTarget):
            return not self._sent and (not self._queued or target.has_room)
        is_same = not self._sent or target.is_same(self._sent[-1].mark)
        return is_same and not self._queued

    def hold(self, ids: Iterable[int]) -> bool:
        """Let messages wait until this partition can take more; false when nothing is under way."""
        if self._task is None:
            return False
        self._held += ids
        return True

    def position(
        self, target: LocalTarget | RemoteTarget, handover: Handover, count: int
    ) -> Position | None:
        """Where the next batches go, of so many records; None while that is being asked."""
        if isinstance(target, LocalTarget):
            return target.known_position(handover)
        if self._position is None:
            if self._task is None:
                self._start(self._ask(target, handover))
            return None
        known_of, known = self._position
        if known_of is not handover:  # another epoch, which begins anew
            known = known._replace(next_sequence=0)
        following = known._replace(next_sequence=(known.next_sequence + count) % SEQUENCES)
        self._position = handover, following
        return known

    # --- Sending ---------------------------------------------------------------------------------

    def sent(self, intent: Intent, target: LocalTarget, end_offset: int, mark: LogMark) -> None:
        """A batch was appended here."""
        self._sent.append(_Sent(intent, target, end_offset, mark))

    def send(
        self,
        intent: Intent,
        target: Target,
        batch: bytearray,
        on_stored: Callable[[Placed], None],
    ) -> None:
        """Have a leader elsewhere append a batch, after those before it."""
        self._queued.append(_Queued(intent, target, batch, on_stored))
        self._work_soon()

    async def _ask(self, target: Target, handover: Handover) -> None:
        try:
            self._position = handover, await target.position(handover)
        except GoQueueError as error:
            logger.info("delayed messages wait for %s: %s", target.id, error)
            await asyncio.sleep(RETRY_S)

    def look(self) -> None:
        """See which of the batches that were appended here are there to stay."""
        open_before, self._sent = self._sent, []
        for each in open_before:
            fate = each.target.fate(each.end_offset, each.mark)
            if fate is Fate.SETTLED:
                self._outcomes.settled.append(each.intent.number)
            elif fate is Fate.UNDER_WAY:
                self._sent.append(each)
            else:
                self.unresolved.append(each.intent)
        self._work_soon()

    # --- Beside the rounds -----------------------------------------------------------------------

    def _work_soon(self) -> None:
        if self._task is None and (self._queued or (self.unresolved and not self._sent)):
            self._start(self._work())

    def _start(self, work: Coroutine[object, object, None]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(work))

    async def _run(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except Exception:
            logger.exception("delayed messages for %s: retrying in the next round", self.place)
        finally:
            self._task = None
        held, self._held = self._held, []
        self._outcomes.again += held
        self._outcomes.on_change()
        self._work_soon()

    def resume(self) -> None:
        """Go on with what an earlier run has left."""
        self._work_soon()

    def cancel(self) -> None:
        """End what is under way: whoever leads next finds out what became of it."""
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        """Send what is queued; resolve what nobody is sure of."""
        while self._queued and not self.unresolved:
            await self._send(self._queued[0])
        if not await self.resolve():
            await asyncio.sleep(RETRY_S)

    async def resolve(self) -> bool:
        """Find out what became of the intents that nobody is sure of; false when that failed."""
        try:
            while self.unresolved:
                await self._resolve()
        except (UnknownTopicError, UnknownTopicIdError):
            self._outcomes.settled += [intent.number for intent in self.unresolved]
            self.unresolved.clear()
        except GoQueueError as error:
            logger.info("checking whether due messages were delivered failed, retrying: %s", error)
            return False
        return True

    async def _send(self, first: _Queued) -> None:
        try:
            placed = await first.target.append(first.batch)
        except HandoverUnknownError as error:
            logger.warning("%s", error)
            self.unresolved.append(first.intent)
        except GoQueueError as error:
            logger.warning("%s refuses delayed messages for now: %s", first.target.id, error)
            self._outcomes.refused(first.intent, error)
        else:
            self._queued.popleft()
            if self._position is not None:
                handover, position = self._position
                self._position = handover, position._replace(end_offset=placed.end_offset)
            self._outcomes.settled.append(first.intent.number)
            first.on_stored(placed)
            return
        # What was to follow was not sent, and its sequences would not continue anything.
        self._queued.popleft()
        self._outcomes.released += [each.intent for each in self._queued]
        self._queued.clear()
        self._position = None

    async def _resolve(self) -> None:
        """Find out which of the newest of these intents are in the log."""
        target = self._find(self.place)
        epoch = max(intent.epoch for intent in self.unresolved)
        mine = [intent for intent in self.unresolved if intent.epoch == epoch]
        first = min(intent.from_offset for intent in mine)
        producer_id = self._outcomes.required_handover().producer_id
        self._outcomes.resolved(epoch)
        found = await target.found(producer_id, epoch, first)
        for intent in mine:
            self.unresolved.remove(intent)
            if intent.base_sequence in found:
                self._outcomes.settled.append(intent.number)
            else:
                self._outcomes.released.append(intent)
        self._position = None
