"""Messages on their way out, as plain state: batches, their order, their numbers, their tries.

A lane is one partition. Messages fill its open batch, closed batches wait in line, and a few are in
flight, answered in the order they were sent. What makes a retry safe is the numbering:

- A batch whose answer was lost is in doubt, and keeps its number until it is known what became of
  it. Only two answers tell: that it is stored, or that the broker misses a batch before it. Another
  refusal says nothing about the first time.
- A number is never used for another batch while one in doubt may have it: a lane that gives up such
  a batch goes on as another producer.

Nothing here waits, reads a clock or knows the network; the producer does.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.client.producing.deliveries import Fate
from goqueue.model.limits import MAX_BATCH_BYTES
from goqueue.records import DELIVERY, BatchBuilder, decode_rows, restamp
from goqueue.records.compression import Compression

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.client.settings import ClientSettings
    from goqueue.client.types import Content, Headers
    from goqueue.model.topic_partition import TopicPartition

_MAX_IN_FLIGHT: Final = 5
"""Batches of one partition; as many as a broker remembers, to recognise one that is sent again."""

_SEQUENCES: Final = 1 << 31
_MOST_COMPRESSED_BYTES: Final = MAX_BATCH_BYTES * 15 // 16
"""A larger batch is not compressed: what does not compress grows a little, and then too much."""


class Identity(NamedTuple):
    """A producer, as the broker knows it."""

    producer_id: int
    epoch: int


NO_IDENTITY: Final = Identity(-1, -1)
"""Of a producer that does not want to be recognised."""


class Refusal(Enum):
    """Why a batch was not stored."""

    FINAL = auto()
    """It never will be."""
    FOR_NOW = auto()
    """The same batch may be stored later."""
    ELSEWHERE = auto()
    """Another broker stores it."""
    OUT_OF_ORDER = auto()
    """The broker misses a batch before it."""
    TOO_LARGE = auto()
    """Half of it may fit."""


class Batch:
    """Messages for one partition that are stored together, or not at all."""

    __slots__ = (
        "attributes",
        "builder",
        "count",
        "data",
        "fate",
        "first_sequence",
        "identity",
        "in_doubt",
        "not_before_s",
        "opened_s",
        "place",
        "size_bytes",
        "tries",
    )

    def __init__(self, place: TopicPartition, opened_s: float, limit_bytes: int) -> None:
        self.place = place
        self.opened_s = opened_s
        self.builder: BatchBuilder | None = BatchBuilder(limit_bytes)
        """None once it is sealed."""
        self.fate = Fate(*place)
        self.data: bytearray = bytearray()
        """What goes to the broker, once it is sealed."""
        self.attributes = 0
        self.count = 0
        self.size_bytes = 0
        self.tries = 0
        self.not_before_s = 0.0
        self.identity: Identity | None = None
        self.first_sequence = -1
        """-1 until it is sent for the first time, and again once it is known not to be stored."""
        self.in_doubt = False
        """It was sent, and the connection was lost before the answer came."""

    @property
    def end_sequence(self) -> int:
        """The number of the first message behind it."""
        return (self.first_sequence + self.count) % _SEQUENCES

    def add(self, value: Content, key: Content, headers: Headers | None, timestamp_ms: int) -> int:
        """Put a message in; its place, or -1 when the batch is full."""
        assert self.builder is not None
        return self.builder.add(value, key, headers or (), timestamp_ms)

    def says_delivery(self) -> None:
        """A message in it says how it is to be delivered: the broker has to look."""
        self.attributes |= DELIVERY

    def close(self) -> None:
        """Nothing more goes into it."""
        if self.builder is not None:
            self.count, self.size_bytes = self.builder.count, self.builder.size_bytes

    def seal(self, compression: Compression, attributes: int) -> bytearray:
        """Its bytes, as they go to the broker, with its producer and its number."""
        identity = self.identity or NO_IDENTITY
        sequence = self.first_sequence if identity is not NO_IDENTITY else -1
        if self.builder is not None:
            if self.size_bytes > _MOST_COMPRESSED_BYTES:
                compression = Compression.NONE
            self.data = self.builder.finish(
                compression=compression,
                attributes=self.attributes | attributes,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
                base_sequence=sequence,
            )
            self.builder = None
        else:
            restamp(self.data, identity.producer_id, identity.epoch, sequence)
        return self.data


class Lane:
    """The batches of one partition, from the oldest in flight to the one that is being filled."""

    def __init__(self, place: TopicPartition, settings: ClientSettings) -> None:
        self.place = place
        self.identity: Identity | None = None
        self.was_identified = False
        """It had an identity before, which must not be used again."""
        self.open: Batch | None = None
        self.waiting: deque[Batch] = deque()
        self.in_flight: deque[Batch] = deque()
        self.returned: list[Batch] = []
        """Refused, and to be sent again when everything in flight is answered."""
        self._settings = settings
        self._linger_s = settings.linger_ms / 1000
        self._next_sequence = 0
        self._stored_to = 0
        """The sequence after the last batch that is known to be stored: what the broker expects
        once nothing is in flight."""
        self._is_known = False
        """A broker takes any first sequence from a producer that it has not heard of, so the first
        batch of an identity goes alone: behind it, none can be stored before it is."""
        self.flight = 0
        """Counts how often everything in flight was lost."""
        self._is_draining = False
        """A batch was refused: those in flight behind it will be, too; nothing more is sent."""

    # --- In --------------------------------------------------------------------------------------

    def begin(self, now_s: float) -> Batch:
        """Close the batch that is being filled, if there is one, and begin another."""
        self.close_open()
        self.open = batch = Batch(self.place, now_s, self._settings.batch_bytes)
        return batch

    def close_open(self) -> Batch | None:
        """Let the batch that is being filled be sent; the batch, if there was one.

        One that is empty, because its first message was refused, is dropped.
        """
        batch, self.open = self.open, None
        if batch is None:
            return None
        batch.close()
        if not batch.count:
            return None
        self.waiting.append(batch)
        return batch

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing in it."""
        return not (self.open or self.waiting or self.in_flight or self.returned)

    # --- Out -------------------------------------------------------------------------------------

    def due_s(self) -> float | None:
        """When there will be something to send, if nothing comes in: None when never."""
        if self._is_draining or len(self.in_flight) >= self._most_in_flight:
            return None
        if self.waiting:
            return self.waiting[0].not_before_s
        if self.open is not None:
            return self.open.opened_s + self._linger_s
        return None

    @property
    def _most_in_flight(self) -> int:
        return min(_MAX_IN_FLIGHT, self._settings.in_flight) if self._is_known else 1

    def take(self, now_s: float) -> Batch | None:
        """The next batch to send, numbered; None when none is due. Needs an identity."""
        due_s = self.due_s()
        if due_s is None or due_s > now_s:
            return None
        if not self.waiting and self.close_open() is None:
            return None
        batch = self.waiting.popleft()
        if batch.first_sequence < 0:
            batch.identity = self.identity
            batch.first_sequence = self._next_sequence
            self._next_sequence = (self._next_sequence + batch.count) % _SEQUENCES
        self.in_flight.append(batch)
        return batch

    # --- Answers, in the order of the batches ----------------------------------------------------

    def stored(self) -> Batch:
        """The oldest batch in flight is stored."""
        batch = self.in_flight.popleft()
        if batch.identity == self.identity:
            self._is_known = True
            self._stored_to = _later(self._stored_to, batch.end_sequence)
        self._settle()
        return batch

    def refused(self, refusal: Refusal, now_s: float) -> Batch | None:
        """The oldest batch in flight is not stored; it is returned when that is final."""
        batch = self.in_flight.popleft()
        failed: Batch | None = None
        if refusal is Refusal.OUT_OF_ORDER:
            batch.in_doubt = False
            if not self._is_draining and batch.identity == self.identity:
                self.identity = None  # the broker's memory is not ours: start anew
            self.returned.append(batch)
        elif refusal is Refusal.TOO_LARGE and batch.count > 1 and not batch.in_doubt:
            self.returned.extend(halves(batch, self._settings.batch_bytes))
        else:
            batch.tries += refusal is not Refusal.ELSEWHERE
            may_try = refusal in {Refusal.FOR_NOW, Refusal.ELSEWHERE}
            if may_try and batch.tries < self._settings.tries:
                batch.not_before_s = now_s + self._settings.backoff_s(max(batch.tries, 1))
                self.returned.append(batch)
            else:
                failed = batch
                self._give_up(batch)
        self._is_draining = True
        self._settle()
        return failed

    def lost(self) -> None:
        """The connection is gone. What was in flight may be stored."""
        self.flight += 1
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
        is_behind_missing = False
        for batch in self.waiting:
            # A broker stores the batches of a producer in order: behind one that is not, none is.
            is_behind_missing = is_behind_missing or not batch.in_doubt
            if is_behind_missing:
                batch.in_doubt, batch.first_sequence = False, -1
            elif batch.identity == self.identity:
                self._next_sequence = _later(self._next_sequence, batch.end_sequence)

    def _give_up(self, batch: Batch) -> None:
        """A batch fails. Where it may be stored, its number must not be given to another."""
        if batch.in_doubt:
            self.identity = None

    def identify(self, identity: Identity) -> None:
        """Go on as this producer, which the broker has not heard of."""
        self.identity = identity
        self.was_identified = True
        self._next_sequence = self._stored_to = 0
        self._is_known = identity is NO_IDENTITY

    # --- Time ------------------------------------------------------------------------------------

    def expired(self, before_s: float) -> list[Batch]:
        """Take out the batches opened before a moment, but for those in flight."""
        batches: list[Batch] = []
        while self.waiting and self.waiting[0].opened_s < before_s:
            batches.append(self.waiting.popleft())
            self._give_up(batches[-1])
        return batches

    def give_up(self) -> list[Batch]:
        """Take everything out: nothing of it will be sent any more."""
        self.close_open()
        batches = list(self.batches())
        for batch in self.in_flight:
            batch.in_doubt = True
        for batch in batches:
            self._give_up(batch)
        self.flight += 1
        self.in_flight.clear()
        self.returned.clear()
        self.waiting.clear()
        self._is_draining = False
        return batches

    def batches(self) -> Iterator[Batch]:
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


def halves(batch: Batch, limit_bytes: int) -> Iterator[Batch]:
    """The same messages as two batches."""
    records = decode_rows(batch.data)
    middle = len(records) // 2
    for part, fate in zip(
        (records[:middle], records[middle:]), batch.fate.split(middle), strict=True
    ):
        half = Batch(batch.place, batch.opened_s, limit_bytes)
        half.fate, half.tries, half.attributes = fate, batch.tries, batch.attributes
        for record in part:
            half.add(record.value, record.key, record.headers, record.timestamp_ms)
        half.close()
        yield half
