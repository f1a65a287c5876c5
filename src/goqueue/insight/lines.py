"""Values over time at several resolutions: fine for half an hour, coarser for a day."""

from __future__ import annotations

from array import array
from math import isnan, nan
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

STEP_S: Final = 5.0
POINTS: Final = 360
"""Of the finest resolution: half an hour. Older ones are in the coarser ones only."""


class Resolution(NamedTuple):
    """How far apart points are, and how many are kept."""

    steps: int
    """Points of the finest resolution that make one."""
    points: int

    @property
    def step_ms(self) -> int:
        """The time between two points."""
        return round(self.steps * STEP_S * 1000)


RESOLUTIONS: Final = (Resolution(1, POINTS), Resolution(6, 720), Resolution(24, 720))
"""5 s for half an hour, 30 s for 6 hours, 2 minutes for a day. A line takes 9 KB."""


class Range(NamedTuple):
    """A stretch of time that ends now: which resolution shows it, and how many points."""

    resolution: int
    points: int


RANGES: Final = {
    "5m": Range(0, 60),
    "15m": Range(0, 180),
    "30m": Range(0, 360),
    "1h": Range(1, 120),
    "6h": Range(1, 720),
    "24h": Range(2, 720),
}


class StoredLine(msgspec.Struct, array_like=True, frozen=True):
    """A line in the file: the points of each resolution as 32-bit floats, not a number for none."""

    points: list[bytes]


class Line:
    """The newest points of one value; one that is not known is null.

    A coarse point is the mean of the fine ones that it stands for, or with `is_peak` the largest.
    """

    __slots__ = ("_count", "_is_peak", "_points", "_sums")

    def __init__(self, *, is_peak: bool = False) -> None:
        self._is_peak = is_peak
        self._points = (array("d"), *(array("f") for _ in RESOLUTIONS[1:]))
        coarse = len(RESOLUTIONS) - 1
        self._sums = [0.0] * coarse
        """Of each coarse point that is not complete: the sum of its values, or the largest."""
        self._count = [0] * coarse
        """How many values are in it."""

    def __len__(self) -> int:
        return len(self._points[0])

    def add(self, value: float | None, tick: int = 0) -> None:
        """One more point; the oldest goes when there are enough.

        `tick` counts the points of all lines; a coarse point is complete when it is a multiple of
        what the resolution says.
        """
        _append(self._points[0], nan if value is None else value, POINTS)
        for at, (steps, most) in enumerate(RESOLUTIONS[1:]):
            if value is not None:
                self._take(at, value)
            if tick and tick % steps == 0:
                _append(self._points[at + 1], self._complete(at), most)

    def _take(self, at: int, value: float) -> None:
        if self._is_peak:
            self._sums[at] = max(self._sums[at], value) if self._count[at] else value
        else:
            self._sums[at] += value
        self._count[at] += 1

    def _complete(self, at: int) -> float:
        count, total = self._count[at], self._sums[at]
        self._count[at], self._sums[at] = 0, 0.0
        if not count:
            return nan
        return total if self._is_peak else total / count

    def skip(self, passed: Sequence[int]) -> None:
        """Note that nothing is known of some points of each resolution."""
        for points, (_, most), count in zip(self._points, RESOLUTIONS, passed, strict=True):
            points.extend([nan] * min(count, most))
            del points[: max(len(points) - most, 0)]

    def newest(self, count: int, resolution: int = 0) -> list[float | None]:
        """The last points, the newest at the end."""
        return [_shown(value) for value in self._points[resolution][-count:]]

    def values(self) -> list[float | None]:
        """All of the finest resolution, the newest at the end."""
        return self.newest(POINTS)

    def within(self, chosen: Range) -> list[float | None]:
        """The points of a range, the newest at the end."""
        return self.newest(chosen.points, chosen.resolution)

    # --- In the file -----------------------------------------------------------------------------

    def stored(self) -> StoredLine:
        """What `restore` takes."""
        return StoredLine([array("f", points).tobytes() for points in self._points])

    def restore(self, stored: StoredLine) -> None:
        """Go on from what was stored. Raises `ValueError` when that is no line."""
        for points, (_, most), data in zip(self._points, RESOLUTIONS, stored.points, strict=True):
            found = array("f")
            found.frombytes(data)
            points.extend(array(points.typecode, found[-most:]))


def _append(points: array[float], value: float, most: int) -> None:
    if len(points) >= most:
        del points[0]
    points.append(value)


def _shown(value: float) -> float | None:
    """As JSON shows it: whole numbers without a fraction, three digits behind the point."""
    if isnan(value):
        return None
    return int(value) if value == int(value) else round(value, 3)
