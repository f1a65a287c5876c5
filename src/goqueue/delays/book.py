"""Everything that is known of delayed messages beside when they are due: a plain state machine.

It is changed by messages that come (`add`) and by stored changes (`apply`), and by nothing else, so
that a replay of the same logs arrives at the same state. `dump` and `load` spare it most of the
reading.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, Final

from goqueue.delays.deltas import (
    Confirmed,
    Delta,
    Ended,
    Intent,
    ProducerGiven,
    Released,
    Settled,
    decode_delta,
    encode_delta,
)
from goqueue.delays.entries import CLASSES, DelayedState, split_id
from goqueue.delays.states import ClassStates, Page
from goqueue.model.errors import CorruptDelayStateError, InvariantError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


SNAPSHOT: Final = b"s"
"""What the keys of a snapshot begin with; no change has such a key."""
_HEAD: Final = SNAPSHOT + b"h"
_TOPIC: Final = SNAPSHOT + b"t"
_PAGE: Final = SNAPSHOT + b"p"
_INTENT: Final = SNAPSHOT + b"i"
_SLOT: Final = SNAPSHOT + b"l"
_SAVED: Final = SNAPSHOT + b"e"
_EPOCH: Final = SNAPSHOT + b"g"
_CONFIRMED: Final = SNAPSHOT + b"c"
_HEAD_VALUE: Final = struct.Struct(f">qq{CLASSES * 2}q4q")
_PAGE_KEY: Final = struct.Struct(">Bq")
_NUMBER: Final = struct.Struct(">q")
_ENDS: Final = struct.Struct(f">{CLASSES}q")


def without_slot_files(key: bytes, value: bytes | None) -> tuple[bytes, bytes | None] | None:
    """A stored entry as it is on a disk that has no slot files; None when it speaks of them alone.

    Whoever replays reads from the logs when messages are due.
    """
    if key == _SAVED:
        return key, _ENDS.pack(*(0,) * CLASSES)
    return None if key.startswith(_SLOT) else (key, value)


class Range(NamedTuple):
    """A stretch of the log of a class in which messages of a topic wait."""

    class_number: int
    first: int
    end: int
    waiting: int
    """How many of them."""


class DelayBook:
    """Which messages wait, how many of each topic, and which are on their way."""

    def __init__(self) -> None:
        self.producer_id: int | None = None
        self.producer_epoch = 0
        self.classes = tuple(ClassStates() for _ in range(CLASSES))
        self.intents: dict[int, Intent] = {}
        """By number, rising: what may or may not be in its partition after a power cut. As many as
        are handed over between two flushes of a partition."""
        self._intent_firsts: dict[int, dict[int, int]] = {}
        """The lowest offset of each of them in each class."""
        self.next_intent = 0
        self.saved_ends: tuple[int, ...] = (0,) * CLASSES
        """When messages before these offsets are due is said by slot files."""
        self.confirmed: tuple[int, ...] = (0,) * CLASSES
        """Of messages before these offsets it is known whether their batches were stored whole."""
        self.slot_sizes: dict[int, int] = {}
        """How many bytes each slot file had then; replaced as a whole."""
        self.totals: Counter[DelayedState] = Counter()
        """How many messages have been in each state since the beginning; pending is all of them."""
        self._topics: dict[bytes, int] = {}
        """A number for each topic that has had a delayed message since the start."""
        self._next_topic = 0
        self._pending: Counter[int] = Counter()

    # --- Asking ----------------------------------------------------------------------------------

    def state(self, delayed_id: int) -> DelayedState | None:
        """The state of a message; None when there is no such message, or no longer."""
        class_number, offset = split_id(delayed_id)
        return self.classes[class_number].get(offset) if class_number < CLASSES else None

    def is_pending(self, delayed_id: int) -> bool:
        """Whether a message waits. From any thread: what it says may be a moment old."""
        class_number, offset = split_id(delayed_id)
        return class_number < CLASSES and self.classes[class_number].is_pending(offset)

    def pending(self, topic_id: bytes) -> int:
        """How many messages of a topic wait."""
        return self._pending[self._topics.get(topic_id, -1)]

    @property
    def pending_count(self) -> int:
        """How many messages wait."""
        return self._pending.total()

    def topics(self) -> dict[bytes, int]:
        """How many messages wait, for each topic of which some do."""
        return {key: count for key, at in self._topics.items() if (count := self._pending[at])}

    def ranges_of(self, topic_id: bytes) -> list[Range]:
        """Where messages of a topic wait."""
        number = self._topics.get(topic_id)
        if number is None:
            return []
        return [
            Range(class_number, *found)
            for class_number, states in enumerate(self.classes)
            for found in states.ranges_of(number)
        ]

    def lowest_needed(self) -> tuple[int, ...]:
        """For each class, the offset below which no message waits or may have to wait again."""
        lowest = [states.lowest_pending() for states in self.classes]
        for firsts in self._intent_firsts.values():
            for class_number, offset in firsts.items():
                lowest[class_number] = min(lowest[class_number], offset)
        return tuple(lowest)

    # --- Changing --------------------------------------------------------------------------------

    def add(self, class_number: int, first_offset: int, count: int, topic_id: bytes) -> None:
        """Messages of one topic are in the log of their class."""
        topic = self._topic(topic_id)
        self.classes[class_number].add(first_offset, count, topic)
        self._pending[topic] += count
        self.totals[DelayedState.PENDING] += count

    def apply(self, delta: Delta) -> None:
        """Follow a change that is stored."""
        if isinstance(delta, Intent):
            self._intend(delta)
            self.next_intent = max(self.next_intent, delta.number + 1)
            self._change(delta.topic_id, delta.ids, DelayedState.DELIVERED)
        elif isinstance(delta, Settled):
            for number in delta.numbers:
                self._end_intent(number)
        elif isinstance(delta, Released):
            for number in delta.numbers:
                intent = self._end_intent(number)
                if intent is not None:
                    self._change(intent.topic_id, intent.ids, DelayedState.PENDING)
        elif isinstance(delta, Ended):
            self._change(delta.topic_id, delta.ids, delta.state)
        elif isinstance(delta, ProducerGiven):
            self.producer_id, self.producer_epoch = delta
        elif isinstance(delta, Confirmed):
            self.confirmed = delta.ends

    def _intend(self, intent: Intent) -> None:
        self.intents[intent.number] = intent
        # In falling order: of each class the lowest comes last.
        ids = sorted(intent.ids, reverse=True)
        self._intent_firsts[intent.number] = {each & 3: each >> 2 for each in ids}

    def _end_intent(self, number: int) -> Intent | None:
        self._intent_firsts.pop(number, None)
        return self.intents.pop(number, None)

    def _change(self, topic_id: bytes, ids: Sequence[int], state: DelayedState) -> None:
        topic = self._topic(topic_id)
        changed = 0
        for delayed_id in ids:
            class_number, offset = split_id(delayed_id)
            changed += self.classes[class_number].change(offset, topic, state)
        if state is DelayedState.PENDING:
            self._pending[topic] += changed
            self.totals[DelayedState.DELIVERED] -= changed
        else:
            self._pending[topic] -= changed
            self.totals[state] += changed

    def _topic(self, topic_id: bytes) -> int:
        number = self._topics.get(topic_id)
        if number is None:
            number = self._topics[topic_id] = self._next_topic
            self._next_topic += 1
        return number

    def forget_before(self, class_number: int, offset: int) -> None:
        """The log of a class starts later now."""
        self.classes[class_number].forget_before(offset)

    # --- Snapshots -------------------------------------------------------------------------------

    def dump(self) -> Iterator[tuple[bytes, bytes]]:
        """Everything as it is when the first entry is drawn, as keys and values."""
        places = [place for states in self.classes for place in (states.start, states.end)]
        producer_id = -1 if self.producer_id is None else self.producer_id
        producer_epoch, confirmed = self.producer_epoch, self.confirmed
        totals = [self.totals[state] for state in DelayedState]
        head = _HEAD_VALUE.pack(producer_id, self.next_intent, *places, *totals)
        saved, sizes = _ENDS.pack(*self.saved_ends), self.slot_sizes
        topics = [(key, number) for key, number in self._topics.items() if self._pending[number]]
        pages = [
            (_PAGE_KEY.pack(class_number, number), page.copy())
            for class_number, states in enumerate(self.classes)
            for number, page in states.pages.items()
        ]
        intents = [*self.intents.values()]
        yield _HEAD, head
        yield _SAVED, saved
        if producer_epoch:
            yield _EPOCH, _NUMBER.pack(producer_epoch)
        if any(confirmed):
            yield _CONFIRMED, _ENDS.pack(*confirmed)
        for slot, size in sizes.items():
            yield _SLOT + _NUMBER.pack(slot), _NUMBER.pack(size)
        for topic_id, number in topics:
            yield _TOPIC + topic_id, number.to_bytes(4, "big")
        for key, page in pages:
            yield _PAGE + key, page.encode()
        for intent in intents:
            key, value = encode_delta(intent)
            yield _INTENT + key, value

    def load(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Take over what `dump` gave.

        Raises:
            CorruptDelayStateError: somebody else gave it.
        """
        try:
            for key, value in entries:
                self._load(key[:2], key[2:], value)
        except (struct.error, ValueError, IndexError, KeyError) as error:
            raise CorruptDelayStateError(f"a snapshot entry does not decode: {error!r}") from None

    def _load(self, kind: bytes, key: bytes, value: bytes) -> None:
        if kind == _HEAD:
            producer_id, self.next_intent, *numbers = _HEAD_VALUE.unpack(value)
            self.producer_id = None if producer_id < 0 else producer_id
            for number, states in enumerate(self.classes):
                states.start, states.end = numbers[2 * number : 2 * number + 2]
            # As earlier versions had it, whose snapshots do not say it.
            self.saved_ends = tuple(states.end for states in self.classes)
            totals = numbers[2 * CLASSES :]
            self.totals = Counter(dict(zip(DelayedState, totals, strict=True)))
        elif kind == _TOPIC:
            self._topics[key] = number = int.from_bytes(value, "big")
            self._next_topic = max(self._next_topic, number + 1)
        elif kind == _PAGE:
            class_number, number = _PAGE_KEY.unpack(key)
            page = self.classes[class_number].pages[number] = Page.decode(value)
            self._pending.update(page.topics)
        elif kind in {_CONFIRMED, _EPOCH, _SAVED}:
            self._load_number(kind, value)
        elif kind == _SLOT:
            self.slot_sizes[_NUMBER.unpack(key)[0]] = _NUMBER.unpack(value)[0]
        elif kind == _INTENT:
            intent = decode_delta(key, value)
            if isinstance(intent, Intent):
                self._intend(intent)

    def _load_number(self, kind: bytes, value: bytes) -> None:
        if kind == _CONFIRMED:
            self.confirmed = _ENDS.unpack(value)
        elif kind == _EPOCH:
            (self.producer_epoch,) = _NUMBER.unpack(value)
        else:
            self.saved_ends = _ENDS.unpack(value)

    def check_invariants(self) -> None:
        """Raise `InvariantError` when pages, counts and intents contradict each other."""
        found: Counter[int] = Counter()
        for states in self.classes:
            states.check_invariants()
            for page in states.pages.values():
                found.update(page.topics)
        if +found != +self._pending:
            raise InvariantError(f"{self._pending} counted, {found} in the pages")
        for intent in self.intents.values():
            if any(self.is_pending(delayed_id) for delayed_id in intent.ids):
                raise InvariantError(f"a message of {intent} waits")
