"""Where in a partition to begin: at an end, at an offset, or at a moment."""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import OffsetOutOfRangeError
from goqueue.partitions.partition import Isolation, Partition

if TYPE_CHECKING:
    from concurrent.futures import Executor


class Anchor(Enum):
    """What a position is counted from."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    TIMESTAMP = auto()


class Position(msgspec.Struct, frozen=True):
    """A place in any partition; the number is an offset, or milliseconds since the epoch."""

    anchor: Anchor
    number: int = 0


EARLIEST: Final = Position(Anchor.EARLIEST)
LATEST: Final = Position(Anchor.LATEST)


async def offset_of(partition: Partition, position: Position, executor: Executor) -> int:
    """The offset that a reader of committed messages begins at.

    An offset that is not kept any more means the earliest; a moment after all messages, the end.

    Raises:
        OffsetOutOfRangeError: nothing has been stored at that offset yet.
    """
    start, end = partition.log_start, partition.readable_to(Isolation.READ_COMMITTED)
    match position.anchor:
        case Anchor.EARLIEST:
            return start
        case Anchor.LATEST:
            return end
        case Anchor.OFFSET:
            if not 0 <= position.number <= end:
                raise OffsetOutOfRangeError(position.number, start, end)
            return max(position.number, start)
        case Anchor.TIMESTAMP:
            loop = asyncio.get_running_loop()
            find = partition.find_time
            hit = await loop.run_in_executor(executor, find, position.number)
            return end if hit is None else min(hit.offset, end)
