"""What a producer and its consumers know of each other: counters in memory that they share.

How much a producer may be ahead must not depend on what a system can tell of its backlog, nor cost
it a request. So the consumers count what they have acknowledged where the producer can see it.
"""

from __future__ import annotations

import mmap
import os
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from pathlib import Path

CONSUMERS: Final = 2
UNKNOWN: Final = -1


class _Slot(IntEnum):
    STOP = 0
    TOTAL = 1
    READY = 2
    ACKED = READY + CONSUMERS


_SLOT_BYTES: Final = 8
_SLOTS: Final = _Slot.ACKED + CONSUMERS


class Board:
    """Whole numbers in a file that all processes map; each has one writer."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR)
        try:
            self._memory = mmap.mmap(descriptor, _SLOTS * _SLOT_BYTES)
        finally:
            os.close(descriptor)
        self._slots = memoryview(self._memory).cast("q")

    @classmethod
    def create(cls, path: Path) -> Self:
        """A new one, on which nothing has happened."""
        path.write_bytes(bytes(_SLOTS * _SLOT_BYTES))
        board = cls(path)
        board.total = UNKNOWN
        return board

    @property
    def is_stopped(self) -> bool:
        """Whether the producer is to send no more."""
        return bool(self._slots[_Slot.STOP])

    def stop(self) -> None:
        """Tell the producer."""
        self._slots[_Slot.STOP] = 1

    @property
    def total(self) -> int:
        """How many messages were sent in all; `UNKNOWN` while the producer runs."""
        return self._slots[_Slot.TOTAL]

    @total.setter
    def total(self, count: int) -> None:
        self._slots[_Slot.TOTAL] = count

    @property
    def is_ready(self) -> bool:
        """Whether all consumers wait for messages."""
        return all(self._slots[_Slot.READY : _Slot.READY + CONSUMERS])

    def ready(self, consumer: int) -> None:
        """Say that this one does."""
        self._slots[_Slot.READY + consumer] = 1

    @property
    def acked(self) -> int:
        """How many messages the consumers have acknowledged together."""
        return sum(self._slots[_Slot.ACKED : _Slot.ACKED + CONSUMERS])

    def count_acked(self, consumer: int, count: int) -> None:
        """Say how many this one has in all."""
        self._slots[_Slot.ACKED + consumer] = count

    @property
    def is_done(self) -> bool:
        """Whether all that was sent has been acknowledged."""
        return self.total != UNKNOWN and self.acked >= self.total
