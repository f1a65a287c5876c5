"""The two indexes of one segment, kept in step with its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import DiskFullError
from goqueue.model.ids import NO_TIMESTAMP
from goqueue.model.tuples import NamedTuple
from goqueue.storage.index import SparseIndex
from goqueue.storage.scan import Damage, IntactBatch

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from goqueue.runtime.disk import Disk, DiskFile


class IndexPaths(NamedTuple):
    """Where the two are stored."""

    offsets: Path
    times: Path


class Newest(NamedTuple):
    """The highest timestamp of a segment, and the base offset of the first batch that has it."""

    timestamp_ms: int
    offset: int


NOTHING: Final = Newest(NO_TIMESTAMP, 0)


class SegmentIndexes:
    """Offsets to positions, and timestamps to offsets, one entry each time enough was written.

    The time index holds rising maxima: each entry is the highest timestamp so far and the base
    offset of the batch that has it. `save` adds the highest of all, so the last entry of a stored
    index is the maximum of the segment.
    """

    def __init__(self, offsets: SparseIndex, times: SparseIndex, interval_bytes: int) -> None:
        self.offsets = offsets
        self.times = times
        self._interval_bytes = interval_bytes
        self._next_position = offsets.last.value + interval_bytes if offsets.last else 0
        """From here on the next batch gets an entry."""
        self._newest_ms, self._newest_at = times.last or NOTHING

    @classmethod
    def fresh(cls, disk: Disk, paths: IndexPaths, interval_bytes: int) -> SegmentIndexes:
        """Two empty indexes in new files; readers may still have the old ones mapped."""
        for path in paths:
            disk.remove(path)
        offsets, times = (SparseIndex(disk, path) for path in paths)
        return cls(offsets, times, interval_bytes)

    @classmethod
    def load(
        cls, disk: Disk, paths: IndexPaths, interval_bytes: int, size_bytes: int, *, sealed: bool
    ) -> SegmentIndexes | None:
        """The stored indexes of a segment's first `size_bytes`; None when they must be rebuilt."""
        offsets, times = (SparseIndex.load(disk, path, size_bytes, sealed=sealed) for path in paths)
        if offsets is None or times is None:
            return None
        return cls(offsets, times, interval_bytes)

    @classmethod
    def rebuild(
        cls,
        disk: Disk,
        paths: IndexPaths,
        interval_bytes: int,
        batches: Iterable[IntactBatch | Damage],
    ) -> SegmentIndexes:
        """The indexes made anew from the batches themselves."""
        indexes = cls.fresh(disk, paths, interval_bytes)
        for item in batches:
            if isinstance(item, IntactBatch):
                indexes.note(item.position, item.info.base_offset, item.info.max_timestamp)
        return indexes

    @property
    def newest(self) -> Newest:
        """The highest timestamp, and where it is."""
        return Newest(self._newest_ms, self._newest_at)

    def note(self, position: int, base_offset: int, timestamp_ms: int) -> None:
        """Remember a batch that lies at `position`, where an entry is due."""
        if timestamp_ms > self._newest_ms:
            self._newest_ms, self._newest_at = timestamp_ms, base_offset
        if position >= self._next_position:
            self.offsets.append(base_offset, position)
            self._note_time()
            self._next_position = position + self._interval_bytes

    def _note_time(self) -> None:
        if self._newest_ms != NO_TIMESTAMP:
            self.times.append(self._newest_ms, self._newest_at)

    def save(self, size_bytes: int) -> tuple[DiskFile, DiskFile]:
        """Write both out, as those of a segment of that size; the caller syncs the files."""
        self._note_time()
        return self.offsets.save(size_bytes), self.times.save(size_bytes)

    def seal(self, size_bytes: int) -> None:
        """No more batches will come: write both out and let the kernel hold them.

        On a full disk they stay in memory: they can be made again, and a log that could not be
        opened then could not be trimmed either.
        """
        try:
            offsets, times = self.save(size_bytes)
        except DiskFullError:
            return
        self.offsets.seal(offsets)
        self.times.seal(times)
