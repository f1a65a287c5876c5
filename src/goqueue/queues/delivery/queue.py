"""One partition as a queue of one group: every message in it, and what happens to it.

Nothing here knows a clock or a disk. What happens is an operation (`operations`): somebody decides
on it (`decisions`), `apply` makes it true, now and again at every replay.
"""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from hashlib import shake_128
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import InvariantError
from goqueue.model.ranges import Range, around
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.leases import NUMBERS, ExpiredReceipts, Lease
from goqueue.queues.delivery.line import LANES, UNKNOWN_LANES, Line, Reservation
from goqueue.queues.delivery.operations import Doom, LaneRange, Operation, drop, within
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.delivery.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from goqueue.partitions.lane_index import LaneIndex


_MANY: Final = 64
"""Heaps are cleared of what counts no more when that is most of them, and so many more."""


class PartitionQueue:
    """The messages of one partition, for one group."""

    def __init__(self, start: int, unacked: dict[str, int]) -> None:
        """Begin at `start`; `unacked` counts what each member has."""
        self.window = Window(start, unacked)
        self.line = Line(start, UNKNOWN_LANES)
        self.is_read = False
        """Something became of a message, or somebody has chosen the offset: until then Kafka's
        tools are shown no start offset."""
        self.dooms: dict[int, Doom] = {}
        """Messages that are dead and not yet moved to the dead-letter queue."""
        self.moving: list[ops.Moving] = []
        """Dead messages of which it must be found out, after a crash, whether they were moved."""
        self.expired = ExpiredReceipts()
        self.next_lease = 1
        """A number that no lease has had for long; `lease_numbers` says which are free."""
        self.reserved: dict[int, Reservation] = {}
        """By the numbers of their leases; one for each poll that is under way."""
        self._lanes = UNKNOWN_LANES
        self._due: dict[int, tuple[int, int]] = {}
        """Of messages that wait: when they are due, and their lanes."""
        self._waiting: list[tuple[int, int]] = []
        """A heap of due times and offsets; only those that `_due` confirms count."""
        self._waiting_lanes = [0] * LANES
        self._deadlines: list[tuple[int, int]] = []
        """A heap of deadlines and leases; only those that the lease confirms count."""
        self._errors: dict[int, str] = {}
        """The last reasons of messages that were returned."""

    def follow(self, lanes: LaneIndex) -> bool:
        """Offer messages in these lanes; says whether they are others, as of another replica."""
        if lanes is self._lanes:
            return False
        reserved = [part for each in self.reserved.values() for part in each.offsets]
        self.line.follow(lanes, self.window, reserved)
        self._due = {at: (due_ms, lanes.lane_of(at)) for at, (due_ms, _) in self._due.items()}
        waiting = Counter(lane for _, lane in self._due.values())
        self._lanes, self._waiting_lanes = lanes, [waiting[lane] for lane in range(LANES)]
        return True

    @property
    def start(self) -> int:
        """The lowest offset that the group is not done with: its committed offset."""
        return self.window.start

    @property
    def waiting(self) -> int:
        """How many messages wait for their next delivery."""
        return len(self._due)

    def total(self, state: MessageState) -> int:
        """How many messages are in a state."""
        return self.window.totals[state]

    def is_blocked(self, lane: int, member: str) -> bool:
        """Whether order forbids to hand out more of a lane: an earlier message is not through."""
        if self._waiting_lanes[lane] > 0 or self.window.is_held_by_others(member):
            return True
        return any(each.member != member for each in self.reserved.values())

    def lease_numbers(self, count: int) -> list[int]:
        """Numbers for new leases."""
        found = self.window.unused_leases(self.next_lease, count)
        while not self.reserved.keys().isdisjoint(found):
            found = self.window.unused_leases(found[-1] % (NUMBERS - 1) + 1, count)
        return found

    def reserve(self, chosen: list[LaneRange], member: str) -> Reservation:
        """Offer what was chosen to nobody else, until `end_reservation`."""
        number = self.lease_numbers(1)[0]
        self.next_lease = number % (NUMBERS - 1) + 1
        reservation = self.reserved[number] = Reservation(member, number, chosen)
        return reservation

    def end_reservation(self, reservation: Reservation, back: Iterable[Range]) -> None:
        """What was reserved is taken, except for what is offered again."""
        del self.reserved[reservation.lease]
        for first, end in back:
            self.line.put_back(first, end)

    def _touch(self, ranges: Sequence[Range]) -> None:
        for reservation in self.reserved.values():
            reservation.touch(ranges)

    def taken(
        self,
        chosen: Iterable[LaneRange],
        member: str,
        now_ms: int,
        visibility_ms: int,
        seed: bytes,
        *,
        lease: int | None = None,
    ) -> ops.Taken:
        """What was chosen (lane, first, end) is handed to a member."""
        deadline_ms = now_ms + visibility_ms
        number = self.lease_numbers(1)[0] if lease is None else lease
        return ops.Taken(number, member, now_ms, deadline_ms, seed, list(chosen))

    def available(self, lane: int, first: int, end: int) -> Iterator[Range]:
        """The messages of a lane in [first, end) that may be handed out."""
        taken = [part for each in self.reserved.values() for part in each.offsets]
        for run in self._lanes.runs(lane, max(first, self.start), end):
            for part in self.window.in_state(*run, MessageState.AVAILABLE):
                yield from around(*part, taken)

    def held_by(self, member: str, most_leases: int | None = None) -> list[Range]:
        """What a member has, in order; of so many of its leases."""
        numbers = (key for key, lease in self.window.leases.items() if lease.member == member)
        return ops.joined(
            part for number in islice(numbers, most_leases) for part in self.window.held(number)
        )

    # --- Time ------------------------------------------------------------------------------------

    def overdue(self, now_ms: int) -> Iterator[list[Range]]:
        """What members have had for too long, lease by lease; each must leave its lease at once."""
        while (lease := self._first_lease()) is not None and lease[1].deadline_ms <= now_ms:
            heapq.heappop(self._deadlines)
            held = self.window.held(lease[0])
            self.expire(held)
            yield held

    def expire(self, ranges: Iterable[Range]) -> None:
        """Remember that the receipts of what is in flight of these have expired."""
        for first, end in ranges:
            self.expired.add(self.window.nonces(first, end))

    def wake(self, now_ms: int, at_most: int) -> bool:
        """Let messages be handed out whose waiting is over; says whether there were any."""
        woken: list[int] = []
        while self._waiting and self._waiting[0][0] <= now_ms and len(woken) < at_most:
            due_ms, offset = heapq.heappop(self._waiting)
            if self._is_due(offset, due_ms):
                self._end_waiting(offset)
                woken.append(offset)
        for first, end in ops.ranges_of(woken):
            self.window.put(first, end, MessageState.AVAILABLE)
            self.line.put_back(first, end)
        return bool(woken)

    def next_deadline_ms(self) -> int | None:
        """When something is next to be done: a lease ends, or a message has waited enough."""
        lease = self._first_lease()
        while self._waiting and not self._is_due(self._waiting[0][1], self._waiting[0][0]):
            heapq.heappop(self._waiting)
        found = [lease[1].deadline_ms] if lease is not None else []
        if self._waiting:
            found.append(self._waiting[0][0])
        return min(found, default=None)

    def _first_lease(self) -> tuple[int, Lease] | None:
        while self._deadlines:
            deadline_ms, number = self._deadlines[0]
            lease = self.window.leases.get(number)
            if lease is not None and lease.deadline_ms == deadline_ms:
                return number, lease
            heapq.heappop(self._deadlines)
        return None

    def _is_due(self, offset: int, due_ms: int) -> bool:
        known = self._due.get(offset)
        return known is not None and known[0] == due_ms

    # --- What happens ----------------------------------------------------------------------------

    def apply(self, operation: Operation) -> None:
        """Make an operation true. `Opened` makes a queue, and is not for one that is there."""
        match operation:
            case ops.Taken():
                self._take(operation)
            case ops.Untaken():
                self._untake(operation)
            case ops.Settled():
                self._settle(operation)
            case ops.Released():
                self._release(operation)
            case ops.Postponed():
                self._postpone(operation)
            case ops.Extended():
                self._extend(operation)
            case ops.Doomed():
                self._doom(operation)
            case ops.Moving():
                self.moving.append(operation)
        self.is_read = self.is_read or not isinstance(operation, ops.Taken | ops.Untaken)

    def _take(self, taken: ops.Taken) -> None:
        self._add_lease(taken.lease, Lease(taken.member, taken.at_ms, taken.deadline_ms))
        total = sum(end - first for _, first, end in taken.ranges)
        nonces = array("Q", shake_128(taken.seed).digest(8 * total))
        drawn = 0
        for lane, first, end in taken.ranges:
            self._forget_waits(first, end)
            self.window.take(first, end, taken.lease, nonces[drawn : drawn + end - first])
            self.line.taken(self.window, lane, first, end)
            drawn += end - first
        self.window.forget_empty_lease(taken.lease)

    def _add_lease(self, number: int, lease: Lease) -> None:
        leases = self.window.leases
        self.window.add_lease(number, lease)
        self.next_lease = number % (NUMBERS - 1) + 1
        if len(self._deadlines) > _MANY + 2 * len(leases):
            self._deadlines = [(each.deadline_ms, key) for key, each in leases.items()]
            heapq.heapify(self._deadlines)
        else:
            heapq.heappush(self._deadlines, (lease.deadline_ms, number))

    def _untake(self, untaken: ops.Untaken) -> None:
        for first, end in untaken.ranges:
            for from_, to, number in list(self.window.flights(first, end)):
                if untaken.lease in (0, number):
                    self.window.untake(from_, to)
                    self.line.put_back(from_, to)

    def _release(self, released: ops.Released) -> None:
        for first, end in released.ranges:
            for part in self.window.in_state(first, end, MessageState.IN_FLIGHT):
                self.window.put(*part, MessageState.AVAILABLE)
                self.line.put_back(*part)

    def _extend(self, extended: ops.Extended) -> None:
        window = self.window
        flights = [each for part in extended.ranges for each in window.flights(*part)]
        if not flights:
            return
        old = window.leases[flights[0][2]]
        new = Lease(old.member, old.at_ms, extended.deadline_ms)
        self._add_lease(extended.lease, new)
        for first, end, _ in flights:
            window.move(first, end, extended.lease)

    def _postpone(self, postponed: ops.Postponed) -> None:
        for offset, due_ms in postponed.due:
            if self.window.state(offset) is MessageState.IN_FLIGHT:
                self.window.put(offset, offset + 1, MessageState.WAITING)
                self._wait(offset, due_ms)
                if postponed.error:
                    self._errors[offset] = postponed.error

    def _wait(self, offset: int, due_ms: int) -> None:
        lane = self._lanes.lane_of(offset)
        self._due[offset] = due_ms, lane
        self._waiting_lanes[lane] += 1
        if len(self._waiting) > _MANY + 2 * len(self._due):
            self._waiting = [(due, key) for key, (due, _) in self._due.items()]
            heapq.heapify(self._waiting)
        else:
            heapq.heappush(self._waiting, (due_ms, offset))

    def _doom(self, doomed: ops.Doomed) -> None:
        window = self.window
        if self.reserved:
            self._touch(doomed.ranges)
        for first, end in doomed.ranges:
            self._forget_waits(first, end)
            for state in (MessageState.AVAILABLE, MessageState.WAITING):
                for part in window.in_state(first, end, state):
                    self._record_cause(*part, doomed, None)
            for from_, to, number in window.flights(first, end):
                self._record_cause(from_, to, doomed, window.leases[number])
            window.put(first, end, MessageState.DOOMED)

    def _record_cause(self, first: int, end: int, doomed: ops.Doomed, lease: Lease | None) -> None:
        """Note why and how messages die, while it is known who had them."""
        last_ms = lease.at_ms if lease is not None else 0
        member = lease.member if lease is not None else ""
        counts = self.window.counts(first, end)
        for offset, count in enumerate(counts, first):
            self.dooms[offset] = Doom(
                doomed.reason,
                doomed.error or self._errors.get(offset, ""),
                doomed.at_ms,
                count,
                self.window.first_delivery_ms(offset) or last_ms,
                last_ms,
                member,
            )

    def _settle(self, settled: ops.Settled) -> None:
        if self.reserved:
            self._touch(settled.ranges)
        for first, end in settled.ranges:
            self._forget_waits(first, end)
            self.window.settle(first, end)
            if self._errors:
                drop(self._errors, first, end)
            if self.dooms:
                drop(self.dooms, first, end)
        if self.moving:
            self.moving[:] = [
                each for each in self.moving if any(at in self.dooms for at in each.offsets)
            ]

    def _forget_waits(self, first: int, end: int) -> None:
        if self._due:
            for offset in within(self._due, first, end):
                self._end_waiting(offset)

    def _end_waiting(self, offset: int) -> None:
        _, lane = self._due.pop(offset)
        self._waiting_lanes[lane] -= 1

    # --- Keeping ---------------------------------------------------------------------------------

    def dump(
        self, dead: Iterable[int] | None = None, leases: Iterable[int] | None = None
    ) -> dict[str, Any]:
        """Everything, for a snapshot; what is reserved may be handed out.

        Of dead messages and leases only some, if they are named; the others are loaded apart.
        """
        named = self.dooms if dead is None else dead
        cursors, back = self.line.dump(self.window)
        for reservation in self.reserved.values():
            for lane, first, end in reservation.ranges:
                back[lane].append((first, end))
        return {
            "window": self.window.dump(leases),
            "line": (cursors, back),
            "due": [(offset, due_ms) for offset, (due_ms, _) in self._due.items()],
            "errors": list(self._errors.items()),
            "dooms": [(each, self.dooms[each]) for each in named if each in self.dooms],
            "moving": list(self.moving),
            "next_lease": self.next_lease,
            "is_read": self.is_read,
        }

    def restore(self, dumped: dict[str, Any]) -> Iterator[None]:
        """Become what `dump` gave, a little at each step: a million messages may be in flight."""
        yield from self.window.restore(dumped["window"])
        self.line.load(dumped["line"][0])
        for offset, due_ms in dumped["due"]:
            self._wait(offset, due_ms)
        self._errors.update(dumped["errors"])
        self.dooms.update((offset, Doom(*doom)) for offset, doom in dumped["dooms"])
        self.moving += (ops.Moving(*fields) for _, *fields in dumped["moving"])
        self._deadlines = [(each.deadline_ms, key) for key, each in self.window.leases.items()]
        heapq.heapify(self._deadlines)
        self.next_lease = dumped["next_lease"]
        self.is_read = dumped.get("is_read", True)

    def add_dead(self, dooms: Iterable[tuple[int, Sequence[Any]]]) -> None:
        """Why messages died; of those that are dead no more nothing is kept."""
        for offset, doom in dooms:
            if self.window.state(offset) is MessageState.DOOMED:
                self.dooms.setdefault(offset, Doom(*doom))

    def check_invariants(self) -> None:
        """Raise `InvariantError` when what is kept beside the window contradicts it."""
        window = self.window
        window.check_invariants()
        self.line.check_invariants()
        for offset in self._due:
            if window.state(offset) is not MessageState.WAITING:
                raise InvariantError(f"offset {offset} waits and is {window.state(offset).name}")
        for offset in self.dooms:
            if window.state(offset) is not MessageState.DOOMED:
                raise InvariantError(f"offset {offset} is dead and {window.state(offset).name}")
        expected = (self.total(MessageState.WAITING), self.total(MessageState.DOOMED))
        if (len(self._due), len(self.dooms)) != expected:
            raise InvariantError(f"{len(self._due)} wait and {len(self.dooms)} are dead")
