"""What a partition has for a group next: what was never handed out, and what came back."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.delivery import Priority
from goqueue.model.errors import InvariantError
from goqueue.model.ranges import around
from goqueue.partitions.lane_index import LaneIndex
from goqueue.queues.delivery.operations import LaneRange
from goqueue.queues.delivery.pages import MessageState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.model.ranges import Range
    from goqueue.queues.delivery.window import Window

LANES: Final = len(Priority)
UNKNOWN_LANES: Final = LaneIndex()
"""Of a queue that was replayed, until it follows its partition: nothing of it is offered."""
_LONGEST_STEP: Final = 65_536
"""How many messages are looked at together when none of those before was there to be handed out."""


class Reservation(msgspec.Struct, eq=False):
    """Messages of one queue that were chosen for a member: its own once that is stored.

    Until it ends, the messages are as available as before, and nobody else is offered them.
    """

    member: str
    lease: int
    """The number that their lease will have."""
    ranges: list[LaneRange]
    """In the order in which they were chosen."""
    is_touched: bool = False
    """Something became of some of them meanwhile: not all may be available any more."""
    is_void: bool = False
    """Their member has left: nothing of it may be handed out."""

    @property
    def offsets(self) -> list[Range]:
        """Which messages these are."""
        return [(first, end) for _, first, end in self.ranges]

    @property
    def count(self) -> int:
        """How many messages these are."""
        return sum(end - first for _, first, end in self.ranges)

    def touch(self, ranges: Sequence[Range]) -> None:
        """Messages are done with or dead; some of them may be these."""
        self.is_touched = self.is_touched or any(
            first < to and end > from_ for first, end in ranges for _, from_, to in self.ranges
        )


class Line:
    """The messages that may be handed out, lane by lane, the oldest of each first."""

    def __init__(self, start: int, lanes: LaneIndex) -> None:
        self._lanes = lanes
        self._cursors = [start] * LANES
        """Up to where each lane was handed out at least once."""
        self._counted_to = [start] * LANES
        self._ahead = [0] * LANES
        """How many messages each lane has between its cursor and where they were counted to."""
        self._back: list[list[Range]] = [[] for _ in range(LANES)]
        """Heaps of what came back; some of it may have been settled since."""
        self._back_count = [0] * LANES

    def follow(self, lanes: LaneIndex, window: Window, reserved: Sequence[Range]) -> None:
        """Tell lanes apart by another index of the same partition from now on.

        Whatever is available before the cursors came back, in whichever lane it is now: that needs
        no memory of what was told before, and misses nothing that the two indexes do not agree on.
        """
        self._lanes = lanes
        self._count_anew(range(LANES))
        self._back = [[] for _ in range(LANES)]
        self._back_count = [0] * LANES
        for lane, cursor in enumerate(self._cursors):
            for run in lanes.runs(lane, window.start, cursor):
                for part in window.in_state(*run, MessageState.AVAILABLE):
                    for first, end in around(*part, reserved):
                        self._push(lane, first, end)

    def ready(self, until: int, at_most: int) -> list[int]:
        """How many messages before `until` each lane has, as far as `at_most`."""
        if self._lanes.is_flat and not any(self._back_count):
            found = [0] * LANES
            if self._lanes is UNKNOWN_LANES:
                return found
            found[Priority.NORMAL] = self._ready(Priority.NORMAL, until, at_most)
            return found
        return [self._ready(lane, until, at_most) for lane in range(LANES)]

    def _ready(self, lane: int, until: int, at_most: int) -> int:
        if until < self._counted_to[lane]:
            self._count_anew((lane,))
        found = self._ahead[lane]
        back = self._back[lane]
        if back and back[0][0] < until:
            found += self._back_count[lane]
        counted_to = self._counted_to[lane]
        while found < at_most and counted_to < until:
            run = self._lanes.next_run(lane, counted_to, until)
            if run is None:
                counted_to = until
                if not self._ahead[lane]:
                    self._cursors[lane] = until
                break
            found += run[1] - run[0]
            self._ahead[lane] += run[1] - run[0]
            counted_to = run[1]
        self._counted_to[lane] = counted_to
        return min(found, at_most)

    def choose(self, window: Window, lane: int, count: int, until: int) -> list[Range]:
        """Up to `count` messages of a lane, which must be taken at once.

        The lanes must be known.
        """
        chosen: list[Range] = []
        back = self._back[lane]
        while count and back and back[0][0] < until:  # a replica that is read may have less
            for first, end in window.in_state(*self._pop(lane), MessageState.AVAILABLE):
                cut = max(min(end, first + count, until), first)
                count -= _add(chosen, first, cut)
                self._push(lane, cut, end)
        if count:
            self._choose_new(window, lane, count, until, chosen)
        return chosen

    def _choose_new(
        self, window: Window, lane: int, count: int, until: int, chosen: list[Range]
    ) -> None:
        """Choose messages that were never handed out."""
        if self._cursors[lane] < window.start:
            self._cursors[lane] = window.start
            self._count_anew((lane,))
        cursor = self._cursors[lane]
        passed = 0
        step = count
        while count and (run := self._lanes.next_run(lane, cursor, until)) is not None:
            cursor = min(run[1], run[0] + step)
            for first, end in window.in_state(run[0], cursor, MessageState.AVAILABLE):
                count -= _add(chosen, first, min(end, first + count))
                if not count:
                    cursor = chosen[-1][1]
                    break
            passed += cursor - run[0]
            step = min(2 * step, _LONGEST_STEP)
        self._cursors[lane] = max(cursor, until) if count else cursor
        self._ahead[lane] -= passed
        if self._cursors[lane] >= self._counted_to[lane]:
            self._count_anew((lane,))

    def _count_anew(self, lanes: Iterable[int]) -> None:
        """Forget what is known of the messages that come behind the cursors."""
        for lane in lanes:
            self._counted_to[lane] = self._cursors[lane]
            self._ahead[lane] = 0

    def taken(self, window: Window, lane: int, first: int, end: int) -> None:
        """Messages of a lane were handed out. For whoever chose them, this is nothing new.

        For a replay it may be: what lies before them was reserved by somebody who got nothing.
        """
        cursor = self._cursors[lane]
        if self._lanes is UNKNOWN_LANES:
            self._cursors[lane] = self._counted_to[lane] = max(cursor, end)
            return
        if cursor < end:
            for run in self._lanes.runs(lane, max(cursor, window.start), first):
                for part in window.in_state(*run, MessageState.AVAILABLE):
                    self._push(lane, *part)
            self._cursors[lane] = end
            self._count_anew((lane,))
        back = self._back[lane]
        kept: list[Range] = []
        while back and back[0][0] < end:
            from_, to = self._pop(lane)
            kept += window.in_state(from_, min(to, first), MessageState.AVAILABLE)
            kept.append((max(from_, end), to))
        for part in kept:
            self._push(lane, *part)

    def put_back(self, first: int, end: int) -> None:
        """Let messages be chosen once more, each in its lane."""
        if self._lanes.is_flat:
            if self._lanes is not UNKNOWN_LANES:
                self._push(Priority.NORMAL, first, end)
            return
        for lane in range(LANES):
            for from_, to in self._lanes.runs(lane, first, end):
                self._push(lane, from_, to)

    def _push(self, lane: int, first: int, end: int) -> None:
        if first < end:
            heapq.heappush(self._back[lane], (first, end))
            self._back_count[lane] += end - first

    def _pop(self, lane: int) -> Range:
        first, end = heapq.heappop(self._back[lane])
        self._back_count[lane] -= end - first
        return first, end

    def dump(self, window: Window) -> tuple[list[int], list[list[Range]]]:
        """Everything, for a snapshot. What came back is for versions that cannot work it out."""
        back = [list(ranges) for ranges in self._back]
        if self._lanes is UNKNOWN_LANES:
            upto = max(self._cursors)
            back[Priority.NORMAL] = list(
                window.in_state(window.start, upto, MessageState.AVAILABLE)
            )
        return list(self._cursors), back

    def load(self, cursors: Sequence[int]) -> None:
        """What `dump` gave; nothing is offered before `follow`."""
        self._cursors = list(cursors)
        self._count_anew(range(LANES))

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the counts are not those of the ranges."""
        counts = [sum(end - first for first, end in ranges) for ranges in self._back]
        if counts != self._back_count:
            raise InvariantError(f"{self._back_count} messages came back: {self._back}")


def _add(chosen: list[Range], first: int, end: int) -> int:
    """Choose one range more, joined with the last where they meet; says how many those are."""
    if first >= end:
        return 0
    if chosen and chosen[-1][1] == first:
        chosen[-1] = (chosen[-1][0], end)
    else:
        chosen.append((first, end))
    return end - first
