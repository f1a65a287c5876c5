"""Which batches are traced: decided once for a batch, and found again from its first offset.

Multiples of an irrational number are spread evenly between 0 and 1; a batch is traced when that of
its first offset lies below the rate. So the same batch is always the same, nothing need be stored,
and also regular batches are met as often as the rate says.
"""

from __future__ import annotations

from typing import Final

from goqueue.tracing.context import spread

ALL: Final = 1 << 64
SHARE_FLOOR_BYTES: Final = 4 * 1024 * 1024
"""Trace files written since the start may be this large, however little is published."""


def threshold_of(rate: float) -> int:
    """What `is_sampled` compares with, for a rate from 0 to 1."""
    return min(max(round(rate * ALL), 0), ALL)


def is_sampled(threshold: int, base_offset: int) -> bool:
    """Whether the batch that begins at an offset is traced."""
    return threshold == ALL or spread(base_offset) < threshold


class Turns:
    """Every so many-th, for what has no offset yet."""

    __slots__ = ("_sum",)

    def __init__(self) -> None:
        self._sum = 0

    def draw(self, threshold: int) -> bool:
        """Whether this one is traced."""
        self._sum += threshold
        if self._sum < ALL:
            return False
        self._sum -= ALL
        return True


class DiskShare:
    """Keeps trace files small beside the data: a share of the published bytes, and a floor.

    While they are larger, no further batch is traced. So a quiet or new broker traces everything,
    and one that takes many small batches traces as many of them as the share pays for.
    """

    __slots__ = ("_floor_bytes", "_share", "published_bytes")

    def __init__(self, share: float) -> None:
        """Without bound when `share` is 1 or more."""
        self._share = share
        self._floor_bytes = SHARE_FLOOR_BYTES
        self.published_bytes = 0
        """Since the start; whoever publishes adds to it."""

    def has_room(self, written_bytes: int) -> bool:
        """Whether another batch may be traced, when the files have so many bytes."""
        allowed = self._floor_bytes + self._share * self.published_bytes
        return written_bytes < allowed or self._share >= 1


class Budget:
    """So many batches a second, and no more: what tracing may cost at most."""

    __slots__ = ("_a_second", "_left", "_until_s")

    def __init__(self, a_second: int) -> None:
        """Without bound when `a_second` is 0."""
        self._a_second = a_second
        self._left = 0
        self._until_s = float("-inf")

    def take(self, now_s: float) -> bool:
        """Whether one more may be traced now, by a clock that only moves forward."""
        if now_s >= self._until_s:
            self._until_s = now_s + 1
            self._left = self._a_second
        if self._left:
            self._left -= 1
            return True
        return not self._a_second

    def charge(self, count: int) -> None:
        """What was taken cost so many more; the rest of the second has that much less."""
        self._left = max(self._left - count, 0)
