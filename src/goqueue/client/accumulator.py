"""Messages on their way out, as plain state: batches, their order, their numbers, their tries.

A lane is one partition. Messages fill its open batch, closed batches wait in line, and a few are in
flight, answered in the order they were sent. What makes a retry safe is the numbering:

- A batch whose answer was lost is in doubt, and keeps its number until it is known what became of
  it. Only two answers tell: that it is stored, or that the broker misses a batch before it. Another
  refusal says nothing about the first time.
- A number is never used for another batch while one in doubt may have it: a lane that gives up such
  a batch goes on as another producer.

Nothing here waits, reads a clock or knows gRPC; the producer does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.client.settings import ClientSettings
    from goqueue.model.topic_partition import TopicPartition

T = TypeVar("T")

_MAX_IN_FLIGHT: Final = 5
"""Batches of one partition; as many as a broker remembers, to recognise one that is sent again."""

_SEQUENCES: Final = 1 << 31


class Identity(NamedTuple):
    """A producer, as the broker knows it."""

    producer_id: int
    epoch: int


class Refusal(Enum):
    """Why a batch was not stored."""

    FINAL = auto()
    """It never will be."""
    FOR_NOW = auto()
    """The same batch may be stored later."""
    OUT_OF_ORDER = auto()
    """The broker misses a batch before it."""
    TOO_LARGE = auto()
    """Half of it may fit."""


@dataclass(slots=True, eq=False)
class Batch(Generic[T]):
    """Messages for one partition that are stored together, or not at all."""

    place: TopicPartition
    opened_s: float
    items: list[T] = field(default_factory=list)
    size_bytes: int = 0
    tries: int = 0
    not_before_s: float = 0.0
    identity: Identity | None = None
    first_sequence: int = -1
    """-1 until it is sent for the first time, and again once it is known not to be stored."""
    in_doubt: bool = False
    """It was sent, and the connection was lost before the answer came."""

    @property
    def end_sequence(self) -> int:
        """The number of the first message behind it."""
        return (self.first_sequence + len(self.items)) % _SEQUENCES


class Lane(Generic[T]):
    """The batches of one partition, from the oldest in flight to the one that is being filled."""

    def __init__(self, place: TopicPartition, settings: ClientSettings) -> None:
        self.place = place
        self.identity: Identity | None = None
        self.was_identified = False
        """It had an identity before, which must not be used again."""
        self.open: Batch[T] | None = None
        self.waiting: deque[Batch[T]] = deque()
        self.in_flight: deque[Batch[T]] = deque()
        self.returned: list[Batch[T]] = []
        """Refused, and to be sent again when everything in flight is answered."""
        self._settings = settings
        self._next_sequence = 0
        self._stored_to = 0
        """The sequence after the last batch that is known to be stored: what the broker expects
        once nothing is in flight."""
        self._is_known = False
        """A broker takes any first sequence from a producer that it has not heard of, so the first
        batch of an identity goes alone: behind it, none can be stored before it is."""
        self._is_draining = False
        """A batch was refused: those in flight behind it will be, too; nothing more is sent."""

    # --- In --------------------------------------------------------------------------------------

    def add(self, item: T, size_bytes: int, now_s: float) -> bool:
        """Put a message in; says whether a batch is closed by it."""
        batch, closed = self.open, False
        if batch is not None and batch.size_bytes + size_bytes > self._settings.batch_bytes:
            closed = self.close_open()
            batch = None
        if batch is None:
            batch = self.open = Batch(self.place, now_s)
        batch.items.append(item)
        batch.size_bytes += size_bytes
        settings = self._settings
        if (
            len(batch.items) >= settings.batch_messages
            or batch.size_bytes >= settings.batch_bytes
            or settings.linger_ms == 0
        ):
            closed = self.close_open()
        return closed

    def close_open(self) -> bool:
        """Let the batch that is being filled be sent; says whether there was one."""
        if self.open is None:
            return False
        self.waiting.append(self.open)
        self.open = None
        return True

    # --- Out -------------------------------------------------------------------------------------

    def due_s(self) -> float | None:
        """When there will be something to send, if nothing comes in: None when never."""
        if self._is_draining or len(self.in_flight) >= self._most_in_flight:
            return None
        if self.waiting:
            return self.waiting[0].not_before_s
        if self.open is not None:
            return self.open.opened_s + self._settings.linger_ms / 1000
        return None

    @property
    def _most_in_flight(self) -> int:
        return _MAX_IN_FLIGHT if self._is_known else 1

    def take(self, now_s: float) -> Batch[T] | None:
        """The next batch to send, numbered; None when none is due. Needs an identity."""
        due_s = self.due_s()
        if due_s is None or due_s > now_s:
            return None
        if not self.waiting:
            self.close_open()
        batch = self.waiting.popleft()
        if batch.first_sequence < 0:
            batch.identity = self.identity
            batch.first_sequence = self._next_sequence
            self._next_sequence = (self._next_sequence + len(batch.items)) % _SEQUENCES
        self.in_flight.append(batch)
        return batch

    # --- Answers, in the order of the batches ----------------------------------------------------

    def stored(self) -> Batch[T]:
        """The oldest batch in flight is stored."""
        batch = self.in_flight.popleft()
        if batch.identity == self.identity:
            self._is_known = True
            self._stored_to = _later(self._stored_to, batch.end_sequence)
        self._settle()
        return batch

    def refused(self, refusal: Refusal, now_s: float) -> Batch[T] | None:
        """The oldest batch in flight is not stored; it is returned when that is final."""
        batch = self.in_flight.popleft()
        failed: Batch[T] | None = None
        if refusal is Refusal.OUT_OF_ORDER:
            batch.in_doubt = False
            if not self._is_draining and batch.identity == self.identity:
                self.identity = None  # the broker's memory is not ours: start anew
            self.returned.append(batch)
        elif refusal is Refusal.TOO_LARGE and len(batch.items) > 1 and not batch.in_doubt:
            self.returned.extend(_halves(batch))
        else:
            batch.tries += 1
            if refusal is Refusal.FOR_NOW and batch.tries < self._settings.tries:
                batch.not_before_s = now_s + self._settings.backoff_s(batch.tries)
                self.returned.append(batch)
            else:
                failed = batch
                self._give_up(batch)
        self._is_draining = True
        self._settle()
        return failed

    def lost(self) -> None:
        """The connection is gone. What was in flight may be stored."""
        for batch in self.in_flight:
            batch.in_doubt = True
        if self._is_draining:
            self.returned.extend(self.in_flight)
            self.in_flight.clear()
            self._settle()
        else:
            self.waiting.extendleft(reversed(self.in_flight))
            self.in_flight.clear()

    def _settle(self) -> None:
        """When a refusal has run its course, number what was not stored anew, in its order."""
        if not self._is_draining or self.in_flight:
            return
        self._is_draining = False
        self.waiting.extendleft(reversed(self.returned))
        self.returned.clear()
        self._next_sequence = self._stored_to
        for batch in self.waiting:
            if not batch.in_doubt:
                batch.first_sequence = -1
            elif batch.identity == self.identity:
                self._next_sequence = _later(self._next_sequence, batch.end_sequence)

    def _give_up(self, batch: Batch[T]) -> None:
        """A batch fails. Where it may be stored, its number must not be given to another."""
        if batch.in_doubt:
            self.identity = None

    def identify(self, identity: Identity) -> None:
        """Go on as this producer, which the broker has not heard of."""
        self.identity = identity
        self.was_identified = True
        self._next_sequence = self._stored_to = 0
        self._is_known = False

    # --- Time ------------------------------------------------------------------------------------

    def expired(self, before_s: float) -> list[Batch[T]]:
        """Take out the batches opened before a moment, but for those in flight."""
        batches: list[Batch[T]] = []
        while self.waiting and self.waiting[0].opened_s < before_s:
            batches.append(self.waiting.popleft())
            self._give_up(batches[-1])
        return batches

    def batches(self) -> Iterator[Batch[T]]:
        """All of them, the oldest first."""
        yield from self.in_flight if not self._is_draining else ()
        yield from self.returned
        yield from self.in_flight if self._is_draining else ()
        yield from self.waiting
        if self.open is not None:
            yield self.open


def _later(one: int, other: int) -> int:
    """The later of two sequence numbers that are not far apart, though they start over at 2^31."""
    return other if (other - one) % _SEQUENCES < _SEQUENCES // 2 else one


def _halves(batch: Batch[T]) -> Iterator[Batch[T]]:
    middle = len(batch.items) // 2
    for items in (batch.items[:middle], batch.items[middle:]):
        size_bytes = batch.size_bytes * len(items) // len(batch.items)
        yield Batch(batch.place, batch.opened_s, items, size_bytes, batch.tries)


class Accumulator(Generic[T]):
    """Every lane of a client."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self.lanes: dict[TopicPartition, Lane[T]] = {}

    def add(self, place: TopicPartition, item: T, size_bytes: int, now_s: float) -> bool:
        """Put a message in; says whether the sender has to look anew at what is due."""
        lane = self.lanes.get(place)
        if lane is None:
            lane = self.lanes[place] = Lane(place, self._settings)
        was_idle = lane.open is None
        return lane.add(item, size_bytes, now_s) or was_idle

    def items(self) -> Iterator[T]:
        """Every message that is not settled."""
        for lane in self.lanes.values():
            for batch in lane.batches():
                yield from batch.items

    def close_open(self) -> None:
        """Let everything be sent."""
        for lane in self.lanes.values():
            lane.close_open()

    def due_lane(self, now_s: float) -> Lane[T] | None:
        """A lane with something to send; the one that has waited longest for its turn."""
        for lane in self.lanes.values():
            due_s = lane.due_s()
            if due_s is not None and due_s <= now_s:
                self.lanes[lane.place] = self.lanes.pop(lane.place)
                return lane
        return None

    def due_s(self) -> float | None:
        """When there will be something to send."""
        return min(
            (due for lane in self.lanes.values() if (due := lane.due_s()) is not None), default=None
        )

    def oldest_in_flight_s(self) -> float | None:
        """When the oldest batch was opened that waits for its answer."""
        opened = (lane.in_flight[0].opened_s for lane in self.lanes.values() if lane.in_flight)
        return min(opened, default=None)

    def lost(self) -> None:
        """The connection is gone."""
        for lane in self.lanes.values():
            lane.lost()

    def expired(self, before_s: float) -> list[Batch[T]]:
        """Take out what has waited for too long."""
        return [batch for lane in self.lanes.values() for batch in lane.expired(before_s)]
