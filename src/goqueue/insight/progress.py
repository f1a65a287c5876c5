"""How a group gets on with a topic: whether what is left becomes less, and when nothing is."""

from __future__ import annotations

import math
from collections import deque
from typing import Final, NamedTuple

WINDOW_S: Final = 60.0
"""How far back rates are measured."""
SPACING_S: Final = 1.0
"""Marks that are closer than this become one, which bounds how many there are."""

KEEPS_UP_S: Final = 10.0
"""A group whose backlog is no more than it does in this time keeps up: there is always something
under way while messages come in, and that it does not become less means nothing."""


class _Mark(NamedTuple):
    at_s: float
    committed: int
    log_end: int


class Progress:
    """Where a group and the ends of its partitions were lately, all partitions added up."""

    def __init__(self) -> None:
        self._marks: deque[_Mark] = deque()
        self._partitions = 0

    def note(self, at_s: float, committed: int, log_end: int, partitions: int) -> None:
        """What is so now. When a group was set back or has other partitions, it begins anew."""
        if partitions != self._partitions or (
            self._marks and committed < self._marks[-1].committed
        ):
            self._marks.clear()
        self._partitions = partitions
        if len(self._marks) > 1 and at_s - self._marks[-2].at_s < SPACING_S:
            self._marks.pop()
        self._marks.append(_Mark(at_s, committed, log_end))
        while len(self._marks) > 2 and at_s - self._marks[1].at_s >= WINDOW_S:
            self._marks.popleft()

    @property
    def lag(self) -> int:
        """Messages that are left."""
        return max(self._marks[-1].log_end - self._marks[-1].committed, 0) if self._marks else 0

    @property
    def commits_per_s(self) -> float:
        """Messages a second that the group is done with."""
        return self._rate(1)

    @property
    def appends_per_s(self) -> float:
        """Messages a second that come in."""
        return self._rate(2)

    @property
    def drain_s(self) -> float | None:
        """Seconds until nothing is left, if all goes on like this.

        Infinite when it does not become less, None as long as nobody can tell.
        """
        if self._marks and not self.lag:
            return 0.0
        if self._span_s <= 0:
            return None
        done_per_s = self.commits_per_s
        if self.lag <= done_per_s * KEEPS_UP_S:
            return self.lag / done_per_s
        gained = done_per_s - self.appends_per_s
        return self.lag / gained if gained > 0 else math.inf

    @property
    def _span_s(self) -> float:
        return self._marks[-1].at_s - self._marks[0].at_s if self._marks else 0.0

    def _rate(self, field: int) -> float:
        span_s = self._span_s
        return (self._marks[-1][field] - self._marks[0][field]) / span_s if span_s > 0 else 0.0
