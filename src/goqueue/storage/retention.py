"""Which segments have outlived their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.storage.segments import Segments


def expired_count(
    segments: Segments, *, now_ms: int, retention_ms: int | None, retention_bytes: int | None
) -> int:
    """How many of the oldest segments may go; the active one never does.

    By time, a segment goes when its newest record is older than `retention_ms`; a segment of
    records without timestamps stays. By size, the oldest go while the rest still holds
    `retention_bytes`.
    """
    count = 0
    size = segments.size_bytes
    for segment in segments.sealed:
        newest = segment.max_timestamp
        dated = newest >= 0 or not segment.size_bytes
        too_old = retention_ms is not None and dated and newest < now_ms - retention_ms
        size -= segment.size_bytes
        too_large = retention_bytes is not None and size >= retention_bytes
        if not (too_old or too_large):
            break
        count += 1
    return count
