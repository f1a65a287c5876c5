"""Ranges of offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Range: TypeAlias = tuple[int, int]
"""Offsets from the first up to, not including, the second."""


def around(first: int, end: int, gone: Iterable[Range]) -> Iterator[Range]:
    """The parts of [first, end) that are not gone."""
    for from_, to in sorted(gone):
        if to <= first or from_ >= end:
            continue
        if from_ > first:
            yield first, from_
        first = max(first, to)
    if end > first:
        yield first, end
