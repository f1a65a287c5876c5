"""Offsets of a partition that hold no message: of markers, and of messages that were delayed.

A batch of which records are delayed keeps its offsets where a client counts on them, and the end of
a transaction takes one. Whoever counts messages leaves both out. What compaction removed is not
known here.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import CorruptQueueStateError, InvariantError

if TYPE_CHECKING:
    from goqueue.records.batch import BatchInfo

_MAX_RANGES: Final = 10_000
"""Of one partition. At the bound the two oldest become one, which counts until all of it is gone:
then a few messages less are shown than there are, until retention has passed it."""
_RANGE: Final = struct.Struct(">qqq")


class HiddenOffsets:
    """How many offsets of a partition hold no message."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, int]] = []
        """First offset, end, and how many of them are hidden; in order, apart from each other."""
        self.count = 0
        """The sum of them."""

    def note(self, info: BatchInfo, first: int) -> None:
        """A batch is in the log, from `first` on; most have a message for each offset."""
        offsets = info.last_offset_delta + 1
        hidden = offsets if info.is_control else offsets - info.count
        if hidden <= 0:
            return
        end = first + offsets
        self.count += hidden
        if self._ranges and hidden == offsets:
            before = self._ranges[-1]
            if before[1] == first and before[2] == before[1] - before[0]:
                self._ranges[-1] = (before[0], end, before[2] + hidden)
                return
        self._ranges.append((first, end, hidden))
        if len(self._ranges) > _MAX_RANGES:
            one, other = self._ranges[:2]
            self._ranges[:2] = [(one[0], other[1], one[2] + other[2])]

    def forget_before(self, log_start: int) -> None:
        """The log starts later now."""
        gone = 0
        for first, end, hidden in self._ranges:
            if end > log_start:
                if first < log_start and hidden == end - first:
                    self._ranges[gone] = (log_start, end, end - log_start)
                    self.count -= log_start - first
                break
            self.count -= hidden
            gone += 1
        del self._ranges[:gone]

    def __len__(self) -> int:
        return len(self._ranges)

    def dump(self) -> bytes:
        """Everything, as `load` takes it."""
        return b"".join(_RANGE.pack(*each) for each in self._ranges)

    def load(self, data: bytes) -> None:
        """Take over what `dump` gave.

        Raises:
            CorruptQueueStateError: it is something else.
        """
        if len(data) % _RANGE.size:
            raise CorruptQueueStateError(f"hidden offsets of {len(data)} bytes")
        self._ranges = list(_RANGE.iter_unpack(data))
        self.count = sum(hidden for _, _, hidden in self._ranges)

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the ranges contradict themselves."""
        at = -1
        for first, end, hidden in self._ranges:
            if not (at <= first < end and 0 < hidden <= end - first):
                raise InvariantError(f"{hidden} hidden offsets of {first} to {end}, after {at}")
            at = end
        if self.count != sum(hidden for _, _, hidden in self._ranges):
            raise InvariantError(f"{self.count} hidden offsets are not the sum of their ranges")
