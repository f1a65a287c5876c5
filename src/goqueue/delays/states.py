"""The state of every delayed message of one class, a byte each, in pages.

A page knows how many of its messages are pending, and of which topics. So a million messages that
wait cost a few pages that are all the same and therefore shared; finding the oldest that waits, or
those of one topic, looks at pages, not at messages.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.delays.entries import DelayedState
from goqueue.model.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE: Final = 4096
_ALIKE: Final = {state: bytes([state]) * PAGE for state in DelayedState}
"""Pages of which every message is in the same state; shared, and copied when one changes."""
_ABSENT: Final = 0xFF
"""Of offsets that hold no message: not yet, or because the log has lost them."""
_EMPTY: Final = bytes([_ABSENT]) * PAGE
_HEAD: Final = struct.Struct(">bI")
_COUNT: Final = struct.Struct(">II")
_MIXED: Final = -1


class Page(msgspec.Struct):
    """The messages of 4096 offsets."""

    states: bytes | bytearray = _EMPTY
    pending: int = 0
    topics: dict[int, int] = msgspec.field(default_factory=dict)
    """How many of those pending belong to which topic."""

    def add(self, first: int, count: int, topic: int) -> None:
        """Messages of a topic have come, in one run."""
        if isinstance(self.states, bytes):
            self.states = bytearray(self.states)
        self.states[first : first + count] = bytes(count)
        self.count(topic, count)
        if self.pending == PAGE:
            self.states = _ALIKE[DelayedState.PENDING]

    def count(self, topic: int, change: int) -> None:
        """More or fewer messages of a topic are pending."""
        self.pending += change
        left = self.topics.get(topic, 0) + change
        if left:
            self.topics[topic] = left
        else:
            self.topics.pop(topic, None)

    def put(self, at: int, state: DelayedState) -> None:
        """Give one message a state."""
        if isinstance(self.states, bytes):
            self.states = bytearray(self.states)
        self.states[at] = state
        if not self.pending and (alike := _ALIKE[state]) == self.states:
            self.states = alike

    def copy(self) -> Page:
        """The page as it is now."""
        return Page(self.states[:], self.pending, dict(self.topics))

    def encode(self) -> bytes:
        """The page for a snapshot."""
        alike = isinstance(self.states, bytes)
        parts = [_HEAD.pack(self.states[0] if alike else _MIXED, len(self.topics))]
        parts += [_COUNT.pack(topic, count) for topic, count in self.topics.items()]
        return b"".join(parts) + (b"" if alike else bytes(self.states))

    @classmethod
    def decode(cls, data: bytes) -> Page:
        """The page that `encode` gave."""
        state, count = _HEAD.unpack_from(data)
        end = _HEAD.size + count * _COUNT.size
        topics = dict(_COUNT.iter_unpack(data[_HEAD.size : end]))
        states = bytearray(data[end:]) if state == _MIXED else _ALIKE[DelayedState(state)]
        return cls(states, sum(topics.values()), topics)


class ClassStates:
    """The states of one class: pages from the one that holds the start of its log on."""

    def __init__(self) -> None:
        self.start = 0
        """Messages below are forgotten; moves when the log is trimmed."""
        self.end = 0
        """The next offset to be given; moves when a message comes."""
        self.pages: dict[int, Page] = {}
        """By number, rising; those below the start are dropped."""

    def add(self, first_offset: int, count: int, topic: int) -> None:
        """Messages of one topic have come, in one run at the end of the log."""
        at, end = first_offset, first_offset + count
        while at < end:
            number = at // PAGE
            page = self.pages.get(number)
            if page is None:
                page = self.pages[number] = Page()
            here = min(end, (number + 1) * PAGE) - at
            page.add(at % PAGE, here, topic)
            at += here
        self.end = max(self.end, end)

    def get(self, offset: int) -> DelayedState | None:
        """The state of a message; None when there is none, or no longer."""
        page = self.pages.get(offset // PAGE)
        if page is None or offset < self.start:
            return None
        state = page.states[offset % PAGE]
        return None if state == _ABSENT else DelayedState(state)

    def is_pending(self, offset: int) -> bool:
        """Whether a message waits. From any thread: what it says may be a moment old."""
        page = self.pages.get(offset // PAGE)
        return (
            page is not None
            and offset >= self.start
            and page.states[offset % PAGE] == DelayedState.PENDING
        )

    def change(self, offset: int, topic: int, state: DelayedState) -> bool:
        """Let a message leave the pending ones, or come back to them; whether it did."""
        known = self.get(offset)
        if known is None or (known is DelayedState.PENDING) == (state is DelayedState.PENDING):
            return False
        page = self.pages[offset // PAGE]
        page.count(topic, 1 if state is DelayedState.PENDING else -1)
        page.put(offset % PAGE, state)
        return True

    def lowest_pending(self) -> int:
        """No message below waits; the end of the log when none does."""
        for number, page in self.pages.items():
            if page.pending:
                return number * PAGE + page.states.find(DelayedState.PENDING)
        return self.end

    def forget_before(self, offset: int) -> None:
        """The log starts later now."""
        self.start = max(self.start, offset)
        for number in [number for number in self.pages if (number + 1) * PAGE <= self.start]:
            del self.pages[number]

    def ranges_of(self, topic: int) -> Iterator[tuple[int, int, int]]:
        """Where messages of a topic wait: from which offset up to which, and how many."""
        for number, page in self.pages.items():
            if topic in page.topics:
                first = number * PAGE
                yield max(first, self.start), min(first + PAGE, self.end), page.topics[topic]

    def check_invariants(self) -> None:
        """Raise `InvariantError` when a page does not count right."""
        for number, page in self.pages.items():
            waiting = page.states.count(DelayedState.PENDING)
            if page.pending != sum(page.topics.values()) or page.pending != waiting:
                raise InvariantError(f"page {number}: {page.pending} counted, {waiting} waiting")
