"""How many tasks read a set of ranges, and what each of them gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goqueue.spark.kafka.ranges import OffsetRange

SMALL_TASK_OFFSETS: Final = 4_000
"""Less than this is not worth another task: starting one costs more than reading it."""
LARGE_TASK_OFFSETS: Final = 1_000_000
"""A batch query is cut into tasks of at most this many, so that a lost one is soon read again."""


def task_count(
    total: int,
    *,
    cores: int,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> int:
    """How many tasks are to read `total` offsets.

    Without a wish: one a core, fewer when there is little to read, and so many rounds of them that
    no task has more than `max_records`. A micro-batch pays for every task, so this is what its
    latency depends on most.
    """
    if total <= 0:
        return 0
    if min_partitions is not None:
        count = min_partitions
        if max_records is not None:
            count = max(count, -(-total // max_records))
    else:
        count = min(cores, -(-total // SMALL_TASK_OFFSETS))
        if max_records is not None and total > count * max_records:
            rounds = -(-total // (cores * max_records))
            count = rounds * cores
    return min(count, total)


def cut(ranges: Iterable[OffsetRange], parts: int) -> list[tuple[OffsetRange, ...]]:
    """The ranges laid end to end and cut into `parts` pieces that differ by one offset at most.

    Every offset is in exactly one piece, in the order it had; a piece holds the ends of some ranges
    and whole ones. Pieces that would be empty are left out.
    """
    left = [each for each in ranges if each.size > 0]
    total = sum(each.size for each in left)
    pieces: list[tuple[OffsetRange, ...]] = []
    for number in range(parts):
        size = total * (number + 1) // parts - total * number // parts
        piece, left = _take(left, size)
        if piece:
            pieces.append(tuple(piece))
    return pieces


def _take(ranges: Sequence[OffsetRange], size: int) -> tuple[list[OffsetRange], list[OffsetRange]]:
    """The first `size` offsets, and the ranges that remain."""
    taken: list[OffsetRange] = []
    for index, each in enumerate(ranges):
        if size < each.size:
            middle = each.start + size
            if size:
                taken.append(each._replace(end=middle))
            return taken, [each._replace(start=middle), *ranges[index + 1 :]]
        taken.append(each)
        size -= each.size
    return taken, []
