"""Counts by size class: percentiles of any number of values in bounded memory, to a known error.

A class is all values between two powers of `BASE`, so a percentile is right to half a class, 1 %.
Classes are reckoned by Spark and added up by whoever likes, in any order.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, functions as sql

if TYPE_CHECKING:
    from collections.abc import Mapping


BASE: Final = 1.02
ERROR: Final = (BASE - 1) / 2
"""How far a percentile is from the value at that place, at most, as a share of it."""
NOTHING: Final = -(1 << 30)
"""The class of zero, and of what is less."""


def class_column(value: Column) -> Column:
    """The class that each value belongs to."""
    found = sql.floor(sql.log(value.cast("double")) / sql.lit(math.log(BASE))).cast("int")
    return sql.when(value <= 0, sql.lit(NOTHING)).otherwise(found)


def middle(number: int) -> float:
    """The value that stands for a class."""
    return 0.0 if number == NOTHING else BASE**number * (1 + ERROR)


def percentile(counts: Mapping[int, int], share: float, largest: float = math.inf) -> float | None:
    """The smallest value that at least this share of all values does not exceed, to `ERROR`.

    None when there are no values. 0.5 is the median, 1 the largest; where the largest is known, no
    percentile is above it.
    """
    total = sum(counts.values())
    if not total:
        return None
    place = max(1, math.ceil(share * total))
    seen = 0
    for number in sorted(counts):
        seen += counts[number]
        if seen >= place:
            return min(middle(number), largest)
    raise AssertionError("the last class holds the last value")


def rebinned(counts: Mapping[int, int], bins: int) -> list[tuple[float, float, int]]:
    """A few wide classes, evenly wide in powers: from, to, and how many values. For plots."""
    known = sorted(number for number in counts if number != NOTHING)
    found: list[tuple[float, float, int]] = []
    if NOTHING in counts:
        found.append((0.0, 0.0, counts[NOTHING]))
    if not known:
        return found
    first, last = known[0], known[-1] + 1
    bins = max(1, min(bins, last - first))
    for number in range(bins):
        start = first + (last - first) * number // bins
        end = first + (last - first) * (number + 1) // bins
        inside = sum(count for each, count in counts.items() if start <= each < end)
        found.append((BASE**start, BASE**end, inside))
    return found
