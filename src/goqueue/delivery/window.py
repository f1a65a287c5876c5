"""The state of each message of one partition for one group, from the lowest unsettled one on.

Pages of 256 offsets hold it in flat arrays: two bytes for each message that was ever touched, and
twelve more, the lease and the nonce of its receipt, while one of its page is in flight. A page that
was never touched is not there, and neither is one that is settled whole: so a million messages in
flight cost some fifteen bytes each, and one that nobody acknowledges does not make the millions
behind it expensive.
"""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from goqueue.delivery.pages import PAGE, SETTLED_BYTE, Flight, MessageState, Page
from goqueue.model.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Iterator

_ONE_MORE: Final = bytes(min(count + 1, 255) for count in range(256))
_ONE_LESS: Final = bytes(max(count - 1, 0) for count in range(256))


@dataclass(slots=True)
class Lease:
    """Messages that were handed to one member in one go, until one deadline."""

    member: str
    at_ms: int
    deadline_ms: int
    ranges: list[tuple[int, int]]
    """Which messages those were; some may have left since."""
    left: int = 0
    """How many are still there."""


class Window:
    """Every message of one partition, for one group."""

    def __init__(self, start: int, unacked: dict[str, int]) -> None:
        """Begin at `start`, and keep count in `unacked` of what each member of the group has."""
        self.start = start
        """The lowest offset that is not settled."""
        self.leases: dict[int, Lease] = {}
        self.totals = [0] * len(MessageState)
        """How many messages are in each state; those that were never touched are not counted."""
        self._pages: dict[int, Page | None] = {}
        """None is a page that is settled whole."""
        self._unacked = unacked

    # --- Looking ---------------------------------------------------------------------------------

    def state(self, offset: int) -> MessageState:
        """What the message is."""
        if offset < self.start:
            return MessageState.SETTLED
        number, at = divmod(offset, PAGE)
        page = self._pages.get(number, _UNTOUCHED)
        return MessageState.SETTLED if page is None else MessageState(page.states[at])

    def count(self, offset: int) -> int:
        """How often the message was delivered; 0 once it is settled."""
        page = self._pages.get(offset // PAGE)
        return page.counts[offset % PAGE] if page is not None and offset >= self.start else 0

    def nonce(self, offset: int) -> int:
        """The nonce of the delivery of a message in flight."""
        page = self._pages[offset // PAGE]
        assert page is not None
        assert page.flight is not None
        return page.flight.nonces[offset % PAGE]

    def lease_number(self, offset: int) -> int:
        """The lease of a message in flight."""
        page = self._pages[offset // PAGE]
        assert page is not None
        assert page.flight is not None
        return page.flight.leases[offset % PAGE]

    def first_delivery_ms(self, offset: int) -> int:
        """When a message was first delivered that has come back since; 0 for others."""
        page = self._pages.get(offset // PAGE)
        if page is None or page.firsts is None:
            return 0
        return page.firsts[offset % PAGE]

    def in_state(self, first: int, end: int, state: MessageState) -> Iterator[tuple[int, int]]:
        """The ranges of [first, end) that are in this state."""
        wanted = bytes((state,))
        first = max(first, self.start)
        run_first = run_end = first
        while first < end:
            number, at = divmod(first, PAGE)
            upto = min(PAGE, at + end - first)
            page = self._pages.get(number, _UNTOUCHED)
            states = _ALL_SETTLED[at:upto] if page is None else page.states[at:upto]
            here = 0
            while here < len(states):
                rest = states[here:]
                same = len(rest) - len(rest.lstrip(wanted))
                if same:
                    if run_end != first + here:
                        if run_end > run_first:
                            yield run_first, run_end
                        run_first = first + here
                    run_end = first + here + same
                    here += same
                    continue
                found = rest.find(wanted)
                here = len(states) if found < 0 else here + found
            first += len(states)
        if run_end > run_first:
            yield run_first, run_end

    # --- Changing --------------------------------------------------------------------------------

    def take(self, first: int, end: int, number: int, nonces: array[int]) -> None:
        """Hand [first, end) to the lease of that number, with one nonce for each."""
        lease = self.leases[number]
        lease.ranges.append((first, end))
        drawn = 0
        for page, at, upto in self._touch(first, end):
            size = upto - at
            self._leave(page, at, upto, MessageState.IN_FLIGHT)
            flight = page.flight
            if flight is None:
                flight = page.flight = Flight()
            flight.count += size
            flight.leases[at:upto] = array("I", (number,)) * size
            flight.nonces[at:upto] = nonces[drawn : drawn + size]
            page.counts[at:upto] = page.counts[at:upto].translate(_ONE_MORE)
            drawn += size
        lease.left += drawn
        self._unacked[lease.member] = self._unacked.get(lease.member, 0) + drawn

    def move(self, first: int, end: int, number: int) -> None:
        """Give what is in flight of [first, end) to another lease; receipts stay as they are."""
        lease = self.leases[number]
        lease.ranges.append((first, end))
        for page, at, upto in self._touch(first, end):
            flight = page.flight
            assert flight is not None
            for index in range(at, upto):
                self._left_lease(flight.leases[index], 1)
                flight.leases[index] = number
            lease.left += upto - at
            self._unacked[lease.member] = self._unacked.get(lease.member, 0) + upto - at

    def untake(self, first: int, end: int) -> None:
        """Make as if [first, end) had not been taken."""
        for page, at, upto in self._touch(first, end):
            self._leave(page, at, upto, MessageState.AVAILABLE)
            page.counts[at:upto] = page.counts[at:upto].translate(_ONE_LESS)

    def put(self, first: int, end: int, state: MessageState) -> None:
        """Let [first, end) be in this state, whatever it was; those that are settled stay so."""
        if state is MessageState.SETTLED:
            self._settle(first, end)
            return
        for from_, to in self._unsettled(first, end):
            for page, at, upto in self._touch(from_, to):
                self._leave(page, at, upto, state)

    def _unsettled(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """The parts of [first, end) that are not settled."""
        end_of_last = max(first, self.start)
        for from_, to in list(self.in_state(first, end, MessageState.SETTLED)):
            if from_ > end_of_last:
                yield end_of_last, from_
            end_of_last = to
        if end > end_of_last:
            yield end_of_last, end

    def _settle(self, first: int, end: int) -> None:
        """Be done with [first, end), and move the start over what is done with."""
        first = max(first, self.start)
        if first == self.start and end - first > PAGE:
            first = self._settle_pages(end)
        while first < end:
            number, at = divmod(first, PAGE)
            upto = min(PAGE, at + end - first)
            page = self._pages.get(number, _UNTOUCHED)
            if page is _UNTOUCHED and at == 0 and upto == PAGE:
                self._pages[number] = None
            elif page is not None:
                if page is _UNTOUCHED:
                    page = self._pages[number] = Page()
                if upto == at + 1:
                    self._settle_one(page, at)
                else:
                    page.settled += upto - at - page.states.count(SETTLED_BYTE, at, upto)
                    self._leave(page, at, upto, MessageState.SETTLED)
                if page.settled == PAGE:
                    self._pages[number] = None
                    self.totals[MessageState.SETTLED] -= PAGE
            first += upto - at
        self._advance()

    def _settle_pages(self, end: int) -> int:
        """Be done with whole pages up to `end`, at the cost of those that were ever touched."""
        for number in [each for each in self._pages if (each + 1) * PAGE <= end]:
            page = self._pages.pop(number)
            if page is not None:
                self._leave(page, 0, PAGE, MessageState.SETTLED)
                self.totals[MessageState.SETTLED] -= PAGE
        self.start = max(self.start, end // PAGE * PAGE)
        return self.start

    def _settle_one(self, page: Page, at: int) -> None:
        """What `_leave` does, for the acknowledgement of a single message."""
        was = page.states[at]
        if was == MessageState.SETTLED:
            return
        page.states[at] = MessageState.SETTLED
        page.settled += 1
        totals = self.totals
        totals[MessageState.SETTLED] += 1
        if was != MessageState.AVAILABLE:
            totals[was] -= 1
        if was == MessageState.IN_FLIGHT:
            flight = page.flight
            assert flight is not None
            self._left_lease(flight.leases[at], 1)
            flight.count -= 1
            if not flight.count:
                page.flight = None

    def _advance(self) -> None:
        while True:
            number, at = divmod(self.start, PAGE)
            if number not in self._pages:
                return
            page = self._pages[number]
            if page is None:
                self.start = (number + 1) * PAGE
            else:
                rest = page.states[at:]
                done = len(rest) - len(rest.lstrip(SETTLED_BYTE))
                self.start += done
                if at + done < PAGE:
                    return
                self.totals[MessageState.SETTLED] -= page.settled
            del self._pages[number]

    def _touch(self, first: int, end: int) -> Iterator[tuple[Page, int, int]]:
        """The pages of [first, end), made where they are missing, with the part that is meant."""
        while first < end:
            number, at = divmod(first, PAGE)
            upto = min(PAGE, at + end - first)
            page = self._pages.get(number, _UNTOUCHED)
            if page is None:
                raise InvariantError(f"offset {first} is settled, and was to be changed")
            if page is _UNTOUCHED:
                page = self._pages[number] = Page()
            yield page, at, upto
            first += upto - at

    def _leave(self, page: Page, at: int, upto: int, state: MessageState) -> None:
        """Change the state of a part of a page, and keep every count true."""
        states = page.states
        totals = self.totals
        flight = page.flight
        if flight is not None:
            self._end_flights(page, flight, at, upto, comes_back=state != MessageState.SETTLED)
        for other in (MessageState.WAITING, MessageState.DOOMED, MessageState.SETTLED):
            if totals[other]:
                totals[other] -= states.count(bytes((other,)), at, upto)
        size = upto - at
        states[at:upto] = bytes((state,)) * size
        if state != MessageState.AVAILABLE:
            totals[state] += size

    def _end_flights(
        self, page: Page, flight: Flight, at: int, upto: int, *, comes_back: bool
    ) -> None:
        """Take what is in flight of a part of a page out of its leases."""
        here = page.states.find(MessageState.IN_FLIGHT, at, upto)
        while here >= 0:
            number = flight.leases[here]
            then = here + 1
            while (
                then < upto
                and page.states[then] == MessageState.IN_FLIGHT
                and flight.leases[then] == number
            ):
                then += 1
            if comes_back:
                page.note_first(here, then, self.leases[number].at_ms)
            self._left_lease(number, then - here)
            flight.count -= then - here
            self.totals[MessageState.IN_FLIGHT] -= then - here
            here = page.states.find(MessageState.IN_FLIGHT, then, upto)
        if not flight.count:
            page.flight = None

    def _left_lease(self, number: int, count: int) -> None:
        lease = self.leases[number]
        lease.left -= count
        self._unacked[lease.member] -= count
        if lease.left == 0:
            del self.leases[number]
            if self._unacked[lease.member] == 0:
                del self._unacked[lease.member]

    # --- Keeping ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Everything, for a snapshot."""
        return {
            "start": self.start,
            "leases": [
                (number, lease.member, lease.at_ms, lease.deadline_ms, lease.ranges)
                for number, lease in self.leases.items()
            ],
            "pages": [
                (number, None if page is None else page.dump())
                for number, page in self._pages.items()
            ],
        }

    @classmethod
    def load(cls, dumped: dict[str, Any], unacked: dict[str, int]) -> Window:
        """What `dump` gave."""
        window = cls(dumped["start"], unacked)
        for number, member, at_ms, deadline_ms, ranges in dumped["leases"]:
            pairs = [(first, end) for first, end in ranges]
            window.leases[number] = Lease(member, at_ms, deadline_ms, pairs)
        for number, stored in dumped["pages"]:
            page = window._pages[number] = None if stored is None else Page.load(stored)
            if page is not None:
                window._count(page)
        return window

    def _count(self, page: Page) -> None:
        self.totals = [have + more for have, more in zip(self.totals, page.tally(), strict=True)]
        for number in page.lease_numbers():
            lease = self.leases[number]
            lease.left += 1
            self._unacked[lease.member] = self._unacked.get(lease.member, 0) + 1

    def check_invariants(self) -> None:
        """Raise `InvariantError` when counts, pages and leases contradict each other."""
        totals = [0] * len(MessageState)
        left: Counter[int] = Counter()
        for number, page in self._pages.items():
            if (number + 1) * PAGE <= self.start:
                raise InvariantError(f"page {number} lies before the start, {self.start}")
            if page is not None:
                page.check_invariants()
                totals = [have + more for have, more in zip(totals, page.tally(), strict=True)]
                left.update(page.lease_numbers())
        if totals != self.totals:
            raise InvariantError(f"counted {totals}, kept {self.totals}")
        if left != {number: lease.left for number, lease in self.leases.items()}:
            raise InvariantError("the leases do not hold what is in flight")
        if self.state(self.start) is MessageState.SETTLED:
            raise InvariantError(f"the start, {self.start}, is settled")


_UNTOUCHED: Final = Page()
"""Stands for every page that is not there; never changed."""
_ALL_SETTLED: Final = bytearray(SETTLED_BYTE * PAGE)
