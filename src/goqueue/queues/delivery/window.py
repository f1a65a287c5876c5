"""The state of each message of one partition for one group, from the lowest unsettled one on.

Pages of 256 offsets hold it in flat arrays: two bytes for each message that was ever touched, and
twelve more, the lease and the nonce of its receipt, while one of its page is in flight. A page that
was never touched is not there, and neither is one that is settled whole: so a million messages in
flight, taken a hundred at a time, cost some twenty bytes each with their leases, and one that
nobody acknowledges does not make the millions behind it expensive.
"""

from __future__ import annotations

from array import array
from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import InvariantError
from goqueue.queues.delivery.leases import Lease, Leases
from goqueue.queues.delivery.operations import joined
from goqueue.queues.delivery.pages import (
    PAGE,
    SETTLED_BYTE,
    TAKEABLE,
    UNSETTLED,
    UNTOUCHED,
    Flight,
    MessageState,
    Page,
    PageTable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.model.ranges import Range

_ONE_MORE: Final = bytes(min(count + 1, 255) for count in range(256))
_ONE_LESS: Final = bytes(max(count - 1, 0) for count in range(256))
_AVAILABLE, _IN_FLIGHT, _WAITING, _DOOMED, _SETTLED = (int(state) for state in MessageState)
# Plain numbers, where it is about every message: members of enums are slow.
_PAGES_A_STEP: Final = 16
_LEASES_A_STEP: Final = 256
"""Of a window that is restored: about a millisecond each."""


class Window(PageTable):
    """Every message of one partition, for one group."""

    def __init__(self, start: int, unacked: dict[str, int]) -> None:
        """Begin at `start`, and keep count in `unacked` of what each member of the group has."""
        super().__init__(start)
        self._leases = Leases(unacked)
        self.leases = self._leases.by_number
        self.totals = [0] * len(MessageState)
        """How many messages are in each state; those that were never touched are not counted."""

    def is_held_by_others(self, member: str) -> bool:
        """Whether anything here is in flight to somebody else."""
        return self._leases.is_held_by_others(member)

    def held(self, number: int) -> list[Range]:
        """The messages that are still in flight under a lease, in order."""
        return joined(
            (first, end)
            for range_ in self.leases[number].ranges
            for first, end, lease in self.flights(*range_)
            if lease == number
        )

    def is_held(self, first: int, end: int, nonces: bytes, now_ms: int) -> bool:
        """Whether all of [first, end) are in the deliveries with these nonces, and none is late."""
        if first < self.start:
            return False
        drawn = 0
        while first < end:
            number, at = divmod(first, PAGE)
            upto = min(PAGE, at + end - first)
            size = upto - at
            page = self._pages.get(number)
            if page is None or page.flight is None:
                return False
            given = nonces[8 * drawn : 8 * (drawn + size)]
            if (
                page.states.count(_IN_FLIGHT, at, upto) != size
                or page.flight.nonces[at:upto].tobytes() != given
            ):
                return False
            for lease in set(page.flight.leases[at:upto]):
                if self.leases[lease].deadline_ms <= now_ms:
                    return False
            first += size
            drawn += size
        return True

    # --- Changing --------------------------------------------------------------------------------

    def add_lease(self, number: int, lease: Lease) -> None:
        """Make a lease, which must be given messages at once."""
        self._leases.add(number, lease)

    def forget_empty_lease(self, number: int) -> None:
        """Forget a lease, when it has nothing."""
        self._leases.forget_empty(number)

    def detach(self) -> None:
        """Nobody reads this any more: what members have of it does not count as theirs."""
        self._leases.detach()

    def unused_leases(self, first: int, count: int) -> list[int]:
        """Numbers that no lease has, from `first` on."""
        return self._leases.unused(first, count)

    def take(self, first: int, end: int, number: int, nonces: array[int]) -> None:
        """Hand [first, end) to the lease of that number, with one nonce for each.

        What is settled, dead or with somebody stays what it is: this may be told late.
        """
        lease = self.leases[number]
        if end == first + 1:
            self._take_one(first, number, lease, nonces[0])
            return
        for run in self._matching(first, end, TAKEABLE):
            lease.bounds.extend(run)
            self._leases.entered(lease, run[1] - run[0])
            for page, at, upto, offset in self._touch(*run):
                size = upto - at
                drawn = offset - first
                self._leave(page, at, upto, MessageState.IN_FLIGHT)
                flight = page.flight
                if flight is None:
                    flight = page.flight = Flight()
                flight.count += size
                flight.leases[at:upto] = array("I", (number,)) * size
                flight.nonces[at:upto] = nonces[drawn : drawn + size]
                page.counts[at:upto] = page.counts[at:upto].translate(_ONE_MORE)

    def _take_one(self, offset: int, number: int, lease: Lease, nonce: int) -> None:
        """What `take` does, for a single message: lanes that take turns have few neighbours."""
        was = self.state(offset)
        if was not in (_AVAILABLE, _WAITING):
            return
        page, at = self._page(offset // PAGE), offset % PAGE
        lease.bounds.extend((offset, offset + 1))
        self._leases.entered(lease, 1)
        if was == _WAITING:
            self.totals[_WAITING] -= 1
        self.totals[_IN_FLIGHT] += 1
        page.states[at] = _IN_FLIGHT
        flight = page.flight
        if flight is None:
            flight = page.flight = Flight()
        flight.count += 1
        flight.leases[at] = number
        flight.nonces[at] = nonce
        page.counts[at] = _ONE_MORE[page.counts[at]]

    def move(self, first: int, end: int, number: int) -> None:
        """Give what is in flight of [first, end) to another lease; receipts stay as they are."""
        lease = self.leases[number]
        for run in self.in_state(first, end, MessageState.IN_FLIGHT):
            lease.bounds.extend(run)
            self._leases.entered(lease, run[1] - run[0])
            for page, at, upto, offset in self._touch(*run):
                for from_, to, old in page.flights(at, upto):
                    self._leases.left(old, to - from_)
                self._flight(offset).leases[at:upto] = array("I", (number,)) * (upto - at)

    def untake(self, first: int, end: int) -> None:
        """Make as if what is in flight of [first, end) had not been taken."""
        for run in self.in_state(first, end, MessageState.IN_FLIGHT):
            for page, at, upto, _ in self._touch(*run):
                self._leave(page, at, upto, MessageState.AVAILABLE, counts=False)
                page.counts[at:upto] = page.counts[at:upto].translate(_ONE_LESS)

    def put(self, first: int, end: int, state: MessageState) -> None:
        """Let [first, end) be in this state, whatever it was; those that are settled stay so."""
        if state is MessageState.SETTLED:
            self.settle(first, end)
            return
        for run in self._matching(first, end, UNSETTLED):
            for page, at, upto, _ in self._touch(*run):
                self._leave(page, at, upto, state)

    def settle(self, first: int, end: int) -> None:
        """Be done with [first, end), and move the start over what is done with."""
        first = max(first, self.start)
        at_start = first == self.start
        if at_start and end - first > PAGE:
            first = self._settle_pages(end)
        while first < end:
            number, at = divmod(first, PAGE)
            upto = min(PAGE, at + end - first)
            page = self._pages.get(number, UNTOUCHED)
            if page is UNTOUCHED and at == 0 and upto == PAGE:
                self._pages[number] = None
            elif page is not None:
                if page is UNTOUCHED:
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
        if at_start:
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
        if was == _SETTLED:
            return
        page.states[at] = _SETTLED
        page.settled += 1
        totals = self.totals
        totals[_SETTLED] += 1
        if was != _AVAILABLE:
            totals[was] -= 1
        flight = page.flight
        if was == _IN_FLIGHT and flight is not None:
            self._leases.left(flight.leases[at], 1)
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

    def _leave(
        self, page: Page, at: int, upto: int, state: MessageState, *, counts: bool = True
    ) -> None:
        """Change the state of a part of a page, and keep every count true.

        A delivery that is over counts as the first one, when there was none before.
        """
        states = page.states
        totals = self.totals
        if page.flight is not None:
            comes_back = counts and state != MessageState.SETTLED
            self._end_flights(page, page.flight, at, upto, comes_back=comes_back)
        for other in (_WAITING, _DOOMED, _SETTLED):
            if totals[other]:
                totals[other] -= states.count(other, at, upto)
        size = upto - at
        states[at:upto] = bytes((state,)) * size
        if state != MessageState.AVAILABLE:
            totals[state] += size

    def _end_flights(
        self, page: Page, flight: Flight, at: int, upto: int, *, comes_back: bool
    ) -> None:
        """Take what is in flight of a part of a page out of its leases."""
        for from_, to, number in page.flights(at, upto):
            if comes_back:
                page.note_first(from_, to, self.leases[number].at_ms)
            self._leases.left(number, to - from_)
            flight.count -= to - from_
            self.totals[MessageState.IN_FLIGHT] -= to - from_
        if not flight.count:
            page.flight = None

    # --- Keeping ---------------------------------------------------------------------------------

    def dump(self, leases: Iterable[int] | None = None) -> dict[str, Any]:
        """Everything, for a snapshot; of the leases only some, if they are named."""
        return {
            "start": self.start,
            "leases": self.dump_leases(self.leases if leases is None else leases),
            "pages": [
                (number, None if page is None else page.dump())
                for number, page in self._pages.items()
            ],
        }

    def dump_leases(self, numbers: Iterable[int]) -> list[tuple[Any, ...]]:
        """Those that are still there. A lease never changes, except that messages leave it."""
        return [
            (number, lease.member, lease.at_ms, lease.deadline_ms, list(lease.ranges))
            for number in numbers
            if (lease := self.leases.get(number)) is not None
        ]

    def restore(self, dumped: dict[str, Any]) -> Iterator[None]:
        """Take in what `dump` gave, a little at each step; empty leases are forgotten."""
        self.start = dumped["start"]
        for at, (number, member, at_ms, deadline_ms, ranges) in enumerate(dumped["leases"]):
            bounds = array("q", chain.from_iterable(ranges))
            self.add_lease(number, Lease(member, at_ms, deadline_ms, bounds))
            if at % _LEASES_A_STEP == 0:
                yield
        for at, (number, stored) in enumerate(dumped["pages"]):
            page = self._pages[number] = None if stored is None else Page.load(stored)
            if page is not None:
                self._count(page)
            if at % _PAGES_A_STEP == 0:
                yield
        for number in [number for number, lease in self.leases.items() if not lease.left]:
            self.forget_empty_lease(number)

    def _count(self, page: Page) -> None:
        self.totals = [have + more for have, more in zip(self.totals, page.tally(), strict=True)]
        for number, count in Counter(page.lease_numbers()).items():
            self._leases.entered(self.leases[number], count)

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
        self._leases.check_invariants(left)
        if self.state(self.start) is MessageState.SETTLED:
            raise InvariantError(f"the start, {self.start}, is settled")
