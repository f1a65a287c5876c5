"""One partition as a queue of one group: every message in it, and what happens to it.

Nothing here knows a clock or a disk. What happens is an operation (`operations`): somebody decides
on it (`decisions`), `apply` makes it true, now and again at every replay.
"""

from __future__ import annotations

import heapq
from array import array
from hashlib import shake_128
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.delivery import operations as ops
from goqueue.delivery.line import LANES, Line
from goqueue.delivery.pages import MessageState
from goqueue.delivery.leases import Lease
from goqueue.delivery.window import Window
from goqueue.model.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from goqueue.delivery.lane_index import LaneIndex
    from goqueue.delivery.operations import Operation, Range


class Doom(NamedTuple):
    """Why and how a message died, for those who look into the dead-letter topic."""

    reason: str
    error: str
    at_ms: int
    deliveries: int
    first_delivery_ms: int
    last_delivery_ms: int
    member: str


class PartitionQueue:
    """The messages of one partition, for one group."""

    def __init__(self, start: int, lanes: LaneIndex, unacked: dict[str, int]) -> None:
        """Begin at `start`; `unacked` counts what each member of the group has."""
        self.window = Window(start, unacked)
        self.line = Line(start, lanes)
        self.dooms: dict[int, Doom] = {}
        """Messages that are dead and not yet put away."""
        self.moving: list[ops.Moving] = []
        """Dead messages of which it must be found out, after a crash, whether they were moved."""
        self.next_lease = 1
        self._lanes = lanes
        self._due: dict[int, int] = {}
        self._waiting: list[tuple[int, int]] = []
        """A heap of due times and offsets; only those that `_due` confirms count."""
        self._waiting_lanes = [0] * LANES
        self._deadlines: list[tuple[int, int]] = []
        """A heap of deadlines and leases; only those that the lease confirms count."""
        self._errors: dict[int, str] = {}
        """What was last said of messages that were handed back."""
        self._appliers: dict[type[Operation], Callable[[Any], None]] = {
            ops.Taken: self._take,
            ops.Untaken: self._untake,
            ops.Settled: self._settle,
            ops.Released: self._release,
            ops.Postponed: self._postpone,
            ops.Extended: self._extend,
            ops.Doomed: self._doom,
            ops.Moving: self.moving.append,
        }

    def follow(self, lanes: LaneIndex) -> None:
        """The partition keeps its lanes elsewhere since it has recovered."""
        if lanes is not self._lanes:
            self._lanes = lanes
            self.line.follow(lanes)

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
        if self._waiting_lanes[lane]:
            return True
        return any(lease.member != member for lease in self.window.leases.values())

    def taken(
        self,
        chosen: Iterable[tuple[int, int, int]],
        member: str,
        now_ms: int,
        visibility_ms: int,
        seed: bytes,
    ) -> ops.Taken:
        """What was chosen (lane, first, end) is handed to a member."""
        deadline_ms = now_ms + visibility_ms
        return ops.Taken(self.next_lease, member, now_ms, deadline_ms, seed, list(chosen))

    def held_by(self, member: str) -> list[Range]:
        """Everything that a member has."""
        return [
            part
            for number, lease in self.window.leases.items()
            if lease.member == member
            for part in self._of_lease(number, lease)
        ]

    def _of_lease(self, number: int, lease: Lease) -> list[Range]:
        """The messages that are still in flight under a lease."""
        window = self.window
        mine = [
            offset
            for first, end in lease.ranges
            for from_, to in window.in_state(first, end, MessageState.IN_FLIGHT)
            for offset in range(from_, to)
            if window.lease_number(offset) == number
        ]
        return ops.ranges_of(mine)

    # --- Time ------------------------------------------------------------------------------------

    def overdue(self, now_ms: int) -> Iterator[list[Range]]:
        """What members have had for too long, lease by lease; each must leave its lease at once."""
        while (lease := self._first_lease()) is not None and lease[1].deadline_ms <= now_ms:
            heapq.heappop(self._deadlines)
            yield self._of_lease(*lease)

    def wake(self, now_ms: int) -> bool:
        """Let messages be handed out whose waiting is over; says whether there were any."""
        woken = False
        while self._waiting and self._waiting[0][0] <= now_ms:
            due_ms, offset = heapq.heappop(self._waiting)
            if self._due.get(offset) == due_ms:
                self._end_waiting(offset)
                self.window.put(offset, offset + 1, MessageState.AVAILABLE)
                self.line.put_back(offset, offset + 1)
                woken = True
        return woken

    def next_deadline_ms(self) -> int | None:
        """When something is next to be done: a lease ends, or a message has waited enough."""
        lease = self._first_lease()
        while self._waiting and self._due.get(self._waiting[0][1]) != self._waiting[0][0]:
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

    # --- What happens ----------------------------------------------------------------------------

    def apply(self, operation: Operation) -> None:
        """Make an operation true. `Opened` makes a queue, and is not for one that is there."""
        self._appliers[type(operation)](operation)

    def _take(self, taken: ops.Taken) -> None:
        self._add_lease(taken.lease, Lease(taken.member, taken.at_ms, taken.deadline_ms, []))
        total = sum(end - first for _, first, end in taken.ranges)
        nonces = array("Q", shake_128(taken.seed).digest(8 * total))
        drawn = 0
        for lane, first, end in taken.ranges:
            self._forget_waits(first, end)
            self.window.take(first, end, taken.lease, nonces[drawn : drawn + end - first])
            self.line.passed(lane, end)
            drawn += end - first

    def _add_lease(self, number: int, lease: Lease) -> None:
        self.window.add_lease(number, lease)
        self.next_lease = max(self.next_lease, number + 1)
        heapq.heappush(self._deadlines, (lease.deadline_ms, number))

    def _untake(self, untaken: ops.Untaken) -> None:
        for first, end in untaken.ranges:
            self.window.untake(first, end)
            self.line.put_back(first, end)

    def _release(self, released: ops.Released) -> None:
        for first, end in released.ranges:
            self._forget_waits(first, end)
            self.window.put(first, end, MessageState.AVAILABLE)
            self.line.put_back(first, end)

    def _extend(self, extended: ops.Extended) -> None:
        window = self.window
        old = window.leases[window.lease_number(extended.ranges[0][0])]
        new = Lease(old.member, old.at_ms, extended.deadline_ms, [])
        self._add_lease(extended.lease, new)
        for first, end in extended.ranges:
            window.move(first, end, extended.lease)

    def _postpone(self, postponed: ops.Postponed) -> None:
        for offset, due_ms in postponed.due:
            self._forget_waits(offset, offset + 1)
            self.window.put(offset, offset + 1, MessageState.WAITING)
            self._wait(offset, due_ms)
            if postponed.error:
                self._errors[offset] = postponed.error

    def _wait(self, offset: int, due_ms: int) -> None:
        self._due[offset] = due_ms
        self._waiting_lanes[self._lanes.lane_of(offset)] += 1
        heapq.heappush(self._waiting, (due_ms, offset))

    def _doom(self, doomed: ops.Doomed) -> None:
        window = self.window
        for first, end in doomed.ranges:
            self._forget_waits(first, end)
            for offset in range(first, end):
                in_flight = window.state(offset) is MessageState.IN_FLIGHT
                lease = window.leases[window.lease_number(offset)] if in_flight else None
                last_ms = lease.at_ms if lease is not None else 0
                self.dooms[offset] = Doom(
                    doomed.reason,
                    doomed.error or self._errors.get(offset, ""),
                    doomed.at_ms,
                    window.count(offset),
                    window.first_delivery_ms(offset) or last_ms,
                    last_ms,
                    lease.member if lease is not None else "",
                )
                window.put(offset, offset + 1, MessageState.DOOMED)

    def _settle(self, settled: ops.Settled) -> None:
        for first, end in settled.ranges:
            self._forget_waits(first, end)
            self.window.put(first, end, MessageState.SETTLED)
            if self._errors:
                _drop(self._errors, first, end)
            if self.dooms:
                _drop(self.dooms, first, end)
        if self.moving:
            self.moving[:] = [
                each for each in self.moving if any(at in self.dooms for at in each.offsets)
            ]

    def _forget_waits(self, first: int, end: int) -> None:
        if self._due:
            for offset in _within(self._due, first, end):
                self._end_waiting(offset)

    def _end_waiting(self, offset: int) -> None:
        del self._due[offset]
        self._waiting_lanes[self._lanes.lane_of(offset)] -= 1

    # --- Keeping ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Everything, for a snapshot."""
        return {
            "window": self.window.dump(),
            "line": self.line.dump(),
            "due": list(self._due.items()),
            "errors": list(self._errors.items()),
            "dooms": list(self.dooms.items()),
            "moving": list(self.moving),
            "next_lease": self.next_lease,
        }

    @classmethod
    def load(
        cls, dumped: dict[str, Any], lanes: LaneIndex, unacked: dict[str, int]
    ) -> PartitionQueue:
        """What `dump` gave."""
        queue = cls(0, lanes, unacked)
        queue.window = Window.load(dumped["window"], unacked)
        queue.line.load(*dumped["line"])
        for offset, due_ms in dumped["due"]:
            queue._wait(offset, due_ms)
        queue._errors.update(dumped["errors"])
        queue.dooms.update((offset, Doom(*doom)) for offset, doom in dumped["dooms"])
        queue.moving += (ops.Moving(*fields) for _, *fields in dumped["moving"])
        for number, lease in queue.window.leases.items():
            heapq.heappush(queue._deadlines, (lease.deadline_ms, number))
        queue.next_lease = dumped["next_lease"]
        return queue

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


def _within(offsets: dict[int, Any], first: int, end: int) -> Sequence[int]:
    """Those of the keys that lie in [first, end), at the cost of the smaller of the two."""
    if end - first < len(offsets):
        return [offset for offset in range(first, end) if offset in offsets]
    return [offset for offset in offsets if first <= offset < end]


def _drop(offsets: dict[int, Any], first: int, end: int) -> None:
    for offset in _within(offsets, first, end):
        del offsets[offset]
