"""What a partition has for a group next: what was never handed out, and what came back."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from goqueue.delivery.pages import MessageState
from goqueue.model.delivery import Priority
from goqueue.model.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.delivery.lane_index import LaneIndex
    from goqueue.delivery.operations import Range
    from goqueue.delivery.window import Window

LANES: Final = len(Priority)


class Line:
    """The messages that may be handed out, lane by lane, the oldest of each first."""

    def __init__(self, start: int, lanes: LaneIndex) -> None:
        self._lanes = lanes
        self._cursors = [start] * LANES
        """Up to where each lane was handed out at least once."""
        self._back: list[list[Range]] = [[] for _ in range(LANES)]
        """Heaps of what came back; some of it may have been settled since."""
        self._back_count = [0] * LANES

    def follow(self, lanes: LaneIndex) -> None:
        """Tell lanes apart by another index of the same partition from now on."""
        self._lanes = lanes

    def ready(self, until: int, at_most: int) -> list[int]:
        """How many messages before `until` each lane has, as far as `at_most`."""
        return [self._ready(lane, until, at_most) for lane in range(LANES)]

    def _ready(self, lane: int, until: int, at_most: int) -> int:
        found = self._back_count[lane]
        cursor = self._cursors[lane]
        while found < at_most and cursor < until:
            run = self._lanes.next_run(lane, cursor, until)
            if run is None:
                if cursor == self._cursors[lane]:
                    self._cursors[lane] = until
                break
            found += run[1] - run[0]
            cursor = run[1]
        return min(found, at_most)

    def choose(self, window: Window, lane: int, count: int, until: int) -> list[Range]:
        """Up to `count` messages of a lane, which must be taken at once."""
        chosen: list[Range] = []
        back = self._back[lane]
        while count and back:
            first, end = heapq.heappop(back)
            self._back_count[lane] -= end - first
            for part in list(window.in_state(first, end, MessageState.AVAILABLE)):
                count -= self._choose(lane, part, count, chosen)
        cursor = self._cursors[lane]
        while count:
            run = self._lanes.next_run(lane, cursor, until)
            if run is None:
                cursor = max(cursor, until)
                break
            cursor = min(run[1], run[0] + count)
            for part in list(window.in_state(run[0], cursor, MessageState.AVAILABLE)):
                count -= self._choose(lane, part, count, chosen)
        self._cursors[lane] = cursor
        return chosen

    def _choose(self, lane: int, part: Range, count: int, chosen: list[Range]) -> int:
        """Choose what there is room for of a part, and keep the rest; says how many those are."""
        first, end = part
        cut = min(end, first + count)
        if cut > first:
            chosen.append((first, cut))
        if end > cut:
            self._push(lane, cut, end)
        return cut - first

    def passed(self, lane: int, end: int) -> None:
        """Everything of a lane before `end` was handed out at least once."""
        self._cursors[lane] = max(self._cursors[lane], end)

    def put_back(self, first: int, end: int) -> None:
        """Let messages be chosen once more, each in its lane."""
        if not len(self._lanes):
            self._push(Priority.NORMAL, first, end)
            return
        for lane in range(LANES):
            for from_, to in self._lanes.runs(lane, first, end):
                self._push(lane, from_, to)

    def _push(self, lane: int, first: int, end: int) -> None:
        heapq.heappush(self._back[lane], (first, end))
        self._back_count[lane] += end - first

    def dump(self) -> tuple[list[int], list[list[Range]]]:
        """Everything, for a snapshot."""
        return list(self._cursors), [list(ranges) for ranges in self._back]

    def load(self, cursors: Sequence[int], back: Sequence[Sequence[Range]]) -> None:
        """What `dump` gave."""
        self._cursors = list(cursors)
        for lane, ranges in enumerate(back):
            for first, end in ranges:
                self._push(lane, first, end)

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the counts are not those of the ranges."""
        counts = [sum(end - first for first, end in ranges) for ranges in self._back]
        if counts != self._back_count:
            raise InvariantError(f"{self._back_count} messages came back: {self._back}")
