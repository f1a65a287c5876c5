"""Where the state of each message is found: the pages of one partition, for one group."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.model.errors import InvariantError
from goqueue.queues.delivery.pages import PAGE, RUNS, SETTLED_BYTE, Flight, MessageState, Page

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from goqueue.model.ranges import Range

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

    def lease_number(self, offset: int) -> int:
        """The lease of a message in flight."""
        return self._flight(offset).leases[offset % PAGE]

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
