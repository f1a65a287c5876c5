"""What a group knows of each message of a partition: pages of 256 offsets, in flat arrays."""

from __future__ import annotations

import re
from array import array
from enum import IntEnum
from itertools import compress, takewhile
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.model.errors import InvariantError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.model.ranges import Range

PAGE: Final = 256

DumpedPage: TypeAlias = "tuple[bytes, bytes, bytes | None, bytes | None, bytes | None]"


class MessageState(IntEnum):
    """What a message is for the group."""

    AVAILABLE = 0
    IN_FLIGHT = 1
    WAITING = 2
    """For the time of its next delivery."""
    DOOMED = 3
    """Dead, and not yet in the dead-letter topic."""
    SETTLED = 4


SETTLED_BYTE: Final = bytes((MessageState.SETTLED,))
RUNS: Final = tuple(re.compile(re.escape(bytes((state,))) + b"+") for state in MessageState)
"""What finds the runs of each state among others."""
UNSETTLED: Final = re.compile(b"[^" + SETTLED_BYTE + b"]+")
TAKEABLE: Final = re.compile(b"[\0\2]+")
"""Available, or waiting: who replays what happened does not see that a message waited enough."""
_ONLY_FLYING: Final = bytes(state == MessageState.IN_FLIGHT for state in range(256))
"""Turns states into whether each is that of a message in flight."""


class Flight:
    """What is kept of a page only while messages of it are in flight."""

    __slots__ = ("count", "leases", "nonces")

    def __init__(self) -> None:
        self.count = 0
        self.leases = array("I", bytes(4 * PAGE))
        self.nonces = array("Q", bytes(8 * PAGE))


class Page:
    """The state of 256 messages."""

    __slots__ = ("counts", "firsts", "flight", "settled", "states")

    def __init__(self) -> None:
        self.states = bytearray(PAGE)
        self.counts = bytearray(PAGE)
        """How often each was delivered, as far as a byte goes."""
        self.flight: Flight | None = None
        self.firsts: array[int] | None = None
        """When messages that are tried again were first delivered; 0 for all others."""
        self.settled = 0

    def note_first(self, at: int, upto: int, at_ms: int) -> None:
        """Remember when messages were delivered that come back for the first time."""
        firsts = self.firsts
        if firsts is None:
            firsts = self.firsts = array("q", bytes(8 * PAGE))
        known = firsts[at:upto]
        if not any(known):
            firsts[at:upto] = array("q", (at_ms,)) * (upto - at)
            return
        firsts[at:upto] = array("q", (each or at_ms for each in known))

    def tally(self) -> list[int]:
        """How many messages are in each state; those that are available are not counted."""
        return [0, *(self.states.count(state) for state in tuple(MessageState)[1:])]

    def flights(self, at: int, upto: int) -> Iterator[tuple[int, int, int]]:
        """What is in flight between two indices: from, to, and the number of the lease."""
        flight = self.flight
        if flight is None:
            return
        found = RUNS[MessageState.IN_FLIGHT].finditer(self.states, at, upto)
        for start, end in [run.span() for run in found]:
            first = start
            while first < end:
                numbers = flight.leases[first:end]
                number = numbers[0]
                size = numbers.count(number)
                if numbers[:size].count(number) != size:  # some of them lie behind others
                    size = sum(1 for _ in takewhile(number.__eq__, numbers))
                yield first, first + size, number
                first += size

    def lease_numbers(self) -> Iterable[int]:
        """The lease of each message in flight."""
        if self.flight is None:
            return ()
        return compress(self.flight.leases, self.states.translate(_ONLY_FLYING))

    def dump(self) -> DumpedPage:
        """Everything, for a snapshot."""
        flight, firsts = self.flight, self.firsts
        return (
            bytes(self.states),
            bytes(self.counts),
            None if flight is None else flight.leases.tobytes(),
            None if flight is None else flight.nonces.tobytes(),
            None if firsts is None else firsts.tobytes(),
        )

    @classmethod
    def load(cls, dumped: DumpedPage) -> Page:
        """What `dump` gave."""
        states, counts, leases, nonces, firsts = dumped
        page = cls()
        page.states[:] = states
        page.counts[:] = counts
        page.settled = states.count(SETTLED_BYTE)
        if leases is not None and nonces is not None:
            page.flight = Flight()
            page.flight.leases = array("I", leases)
            page.flight.nonces = array("Q", nonces)
            page.flight.count = states.count(MessageState.IN_FLIGHT)
        if firsts is not None:
            page.firsts = array("q", firsts)
        return page

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the counts are not those of the states."""
        tally = self.tally()
        flying = 0 if self.flight is None else self.flight.count
        if flying != tally[MessageState.IN_FLIGHT]:
            raise InvariantError(f"{flying} messages are said to be in flight: {tally}")
        if self.settled != tally[MessageState.SETTLED] or self.settled == PAGE:
            raise InvariantError(f"{self.settled} messages are said to be settled: {tally}")


_STATES: Final = tuple(MessageState)
_IN_FLIGHT: Final = int(MessageState.IN_FLIGHT)  # a plain number: members of enums are slow


class Delivery(NamedTuple):
    """The delivery in which a message is now."""

    number: int
    """How many it is of this message."""
    nonce: int
    lease: int


class PageTable:
    """Pages by their numbers. One that was never touched, or is settled whole, is not kept."""

    def __init__(self, start: int) -> None:
        self.start = start
        """The lowest offset that is not settled."""
        self._pages: dict[int, Page | None] = {}
        """None is a page that is settled whole."""

    def state(self, offset: int) -> MessageState:
        """What the message is."""
        if offset < self.start:
            return MessageState.SETTLED
        page = self._pages.get(offset // PAGE, UNTOUCHED)
        return MessageState.SETTLED if page is None else _STATES[page.states[offset % PAGE]]

    def count(self, offset: int) -> int:
        """How often the message was delivered; means nothing once it is settled."""
        page = self._pages.get(offset // PAGE)
        return page.counts[offset % PAGE] if page is not None and offset >= self.start else 0

    def counts(self, first: int, end: int) -> bytes:
        """How often each of [first, end) was delivered."""
        found = bytearray()
        while first < end:
            number, at = divmod(first, PAGE)
            upto = min(PAGE, at + end - first)
            found += (self._pages.get(number) or UNTOUCHED).counts[at:upto]
            first += upto - at
        return bytes(found)

    def delivery(self, offset: int) -> Delivery | None:
        """The delivery in which a message is now; None when it is not in flight."""
        page = self._pages.get(offset // PAGE)
        at = offset % PAGE
        if page is None or page.flight is None or page.states[at] != _IN_FLIGHT:
            return None
        return Delivery(page.counts[at], page.flight.nonces[at], page.flight.leases[at])

    def nonces(self, first: int, end: int) -> array[int]:
        """The nonces of the deliveries of [first, end), all in flight."""
        found: array[int] = array("Q")
        while first < end:
            at = first % PAGE
            upto = min(PAGE, at + end - first)
            found += self._flight(first).nonces[at:upto]
            first += upto - at
        return found

    def nonce(self, offset: int) -> int:
        """The nonce of the delivery of a message in flight."""
        return self._flight(offset).nonces[offset % PAGE]

    def _flight(self, offset: int) -> Flight:
        page = self._pages.get(offset // PAGE)
        if page is None or page.flight is None:
            raise InvariantError(f"offset {offset} is said to be in flight")
        return page.flight

    def first_delivery_ms(self, offset: int) -> int:
        """When a message was first delivered that has come back since; 0 for others."""
        page = self._pages.get(offset // PAGE)
        if page is None or page.firsts is None:
            return 0
        return page.firsts[offset % PAGE]

    def in_state(self, first: int, end: int, state: MessageState) -> Iterator[Range]:
        """The ranges of [first, end) that are in this state now."""
        return iter(self._matching(first, end, RUNS[state]))

    def flights(self, first: int, end: int) -> Iterator[tuple[int, int, int]]:
        """What is in flight of [first, end), in order: first, end, and the number of the lease."""
        for run in self.in_state(first, end, MessageState.IN_FLIGHT):
            for page, at, upto, offset in self._touch(*run):
                for from_, to, number in page.flights(at, upto):
                    yield offset - at + from_, offset - at + to, number

    def _matching(self, first: int, end: int, runs: re.Pattern[bytes]) -> list[Range]:
        """The ranges of [first, end) whose states match."""
        found: list[Range] = []
        first = max(first, self.start)
        run_end = -1
        while first < end:
            number, at = divmod(first, PAGE)
            upto = min(PAGE, at + end - first)
            page = self._pages.get(number, UNTOUCHED)
            base = first - at
            states = _ALL_SETTLED if page is None else page.states
            for run in runs.finditer(states, at, upto):
                from_, to = run.span()
                if base + from_ == run_end:
                    found[-1] = (found[-1][0], base + to)
                else:
                    found.append((base + from_, base + to))
                run_end = base + to
            first = base + upto
        return found

    def _touch(self, first: int, end: int) -> Iterator[tuple[Page, int, int, int]]:
        """The pages of [first, end), made where they are missing.

        Each comes with the part of it that is meant, and the offset at which that part begins.
        """
        while first < end:
            number, at = divmod(first, PAGE)
            upto = min(PAGE, at + end - first)
            yield self._page(number), at, upto, first
            first += upto - at

    def _page(self, number: int) -> Page:
        """A page to be changed, made when it is missing."""
        page = self._pages.get(number, UNTOUCHED)
        if page is None:
            raise InvariantError(f"page {number} is settled, and was to be changed")
        if page is UNTOUCHED:
            page = self._pages[number] = Page()
        return page


UNTOUCHED: Final = Page()
"""Stands for every page that is not there; never changed."""
_ALL_SETTLED: Final = bytearray(SETTLED_BYTE * PAGE)
