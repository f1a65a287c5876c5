"""How evenly something is spread, and how it would be over another number of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CANDIDATES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
EVEN: Final = 1.3
"""The fullest partition may hold so many times the mean before it counts as uneven."""


def gini(values: Sequence[float]) -> float:
    """0: all are equal; towards 1: one has everything."""
    total = sum(values)
    count = len(values)
    if not total:
        return 0.0
    weighted = sum(place * value for place, value in enumerate(sorted(values), 1))
    return (2 * weighted - (count + 1) * total) / (count * total)


def max_to_mean(values: Sequence[float]) -> float:
    """How many times the mean the largest is; 1 when all are equal, or nothing is there."""
    total = sum(values)
    return max(values) * len(values) / total if total else 1.0


class Outlook(NamedTuple):
    """How messages would be spread over so many partitions."""

    partitions: int
    max_to_mean: float


def outlooks(
    hot: Sequence[tuple[bytes, int]],
    rest: int,
    current: int,
    hash_of: Callable[[bytes], int],
) -> list[Outlook]:
    """What the fullest partition would hold, for several numbers of partitions.

    The hot keys go where their hash says; everything else is taken to be even, which is what many
    keys of few messages each come to.
    """
    found = []
    for count in sorted({*CANDIDATES, current}):
        loads = [rest / count] * count
        for key, messages in hot:
            loads[hash_of(key) % count] += messages
        found.append(Outlook(count, max_to_mean(loads)))
    return found


def suggested(found: Sequence[Outlook], current: int) -> int:
    """The most partitions, from the present number on, over which messages are still even.

    The present number when none is: a key that is too hot for it is too hot for more, too.
    """
    even = [each.partitions for each in found if each.max_to_mean <= EVEN]
    return max([each for each in even if current <= each <= 4 * current], default=current)
