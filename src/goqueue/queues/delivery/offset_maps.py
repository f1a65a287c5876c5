"""What is kept of single messages, by their offsets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence


def within(offsets: dict[int, Any], first: int, end: int) -> Sequence[int]:
    """Those of the keys that lie in [first, end), at the cost of the smaller of the two."""
    if end - first < len(offsets):
        return [offset for offset in range(first, end) if offset in offsets]
    return [offset for offset in offsets if first <= offset < end]


def drop(offsets: dict[int, Any], first: int, end: int) -> None:
    """Forget the keys that lie in [first, end)."""
    for offset in within(offsets, first, end):
        del offsets[offset]
