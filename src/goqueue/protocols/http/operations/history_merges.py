"""Values over time of several nodes as one line, step by step from the newest back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Values: TypeAlias = list[float | None]


def summed_values(series: Iterable[Values]) -> Values:
    """Added; null where no node knows a value."""
    return _joined(series, _sum)


def largest_values(series: Iterable[Values]) -> Values:
    """The largest of the nodes; null where none knows a value."""
    return _joined(series, _largest)


def _joined(series: Iterable[Values], join: Callable[[Sequence[float]], float]) -> Values:
    found = list(series)
    length = max(map(len, found))
    padded = [[*[None] * (length - len(each)), *each] for each in found]
    steps = ([each for each in step if each is not None] for step in zip(*padded, strict=True))
    return [join(known) if known else None for known in steps]


def _sum(known: Sequence[float]) -> float:
    return round(sum(known), 3)


def _largest(known: Sequence[float]) -> float:
    return max(known)
