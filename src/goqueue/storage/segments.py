"""The segments of a log at one moment, oldest first. Replaced as a whole, never changed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from goqueue.model.errors import InvariantError
from goqueue.storage.naming import LOG, OFFSET_INDEX, TIME_INDEX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.runtime.disk import Disk
    from goqueue.storage.segment import Segment


class Segments:
    """An immutable run of segments; whoever holds one sees the log as it was."""

    def __init__(self, items: tuple[Segment, ...] = ()) -> None:
        self._items = items
        self.active = items[-1] if items else None
        """The one that grows; None in a log that was never written."""

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    @property
    def sealed(self) -> tuple[Segment, ...]:
        """All but the active one."""
        return self._items[:-1]

    @property
    def size_bytes(self) -> int:
        """All that readers may see."""
        return sum(segment.size_bytes for segment in self._items)

    def since(self, offset: int) -> tuple[Segment, ...]:
        """The segment that holds `offset` (or the first one) and all after it."""
        found = bisect_right(self._items, offset, key=lambda segment: segment.base_offset)
        return self._items[max(found - 1, 0) :]

    def reaching(self, timestamp_ms: int) -> tuple[Segment, ...]:
        """The first segment with a record at or after `timestamp_ms`, and all after it."""
        return self._items[bisect_left(self._time_ceilings, timestamp_ms) :]

    @cached_property
    def _time_ceilings(self) -> list[int]:
        """For each sealed segment, the highest timestamp in the log up to its end."""
        return list(accumulate((segment.newest.timestamp_ms for segment in self.sealed), max))

    def with_active(self, segment: Segment) -> Segments:
        """The same with a new segment at the end."""
        return Segments((*self._items, segment))

    def without_first(self, count: int) -> Segments:
        """The same without the oldest `count`."""
        return Segments(self._items[count:])

    def replaced(self, base_offset: int, end_offset: int, segment: Segment) -> Segments:
        """The same with one segment where several were (compaction)."""
        before = tuple(item for item in self._items if item.base_offset < base_offset)
        after = tuple(item for item in self._items if item.base_offset >= end_offset)
        return Segments((*before, segment, *after))

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the segments contradict each other."""
        previous = None
        for segment in self._items:
            if previous is not None and previous.end_offset != segment.base_offset:
                raise InvariantError(
                    f"segment {previous.base_offset} ends at {previous.end_offset}, and the next "
                    f"starts at {segment.base_offset}"
                )
            if segment.synced_bytes > segment.size_bytes:
                raise InvariantError(f"segment {segment.base_offset} is synced past its size")
            previous = segment


def remove_files(disk: Disk, segments: Iterable[Segment]) -> None:
    """Remove what there is of segments; the batches last, since recovery goes by them."""
    for segment in segments:
        for suffix in (OFFSET_INDEX, TIME_INDEX, LOG):
            disk.remove(segment.path(suffix))
