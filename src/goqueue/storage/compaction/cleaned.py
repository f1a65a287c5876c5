"""A cleaned copy of some segments, written beside them under names that recovery throws away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.records.batch import peek
from goqueue.storage.compaction.cleanable import CompactionStats
from goqueue.storage.indexes import IndexPaths, SegmentIndexes
from goqueue.storage.naming import CLEANED, LOG, OFFSET_INDEX, TIME_INDEX, segment_path
from goqueue.storage.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from goqueue.runtime.disk import Disk
    from goqueue.storage.config import LogConfig

_WRITE_BYTES: Final = 1024 * 1024
_MAX_OFFSET_SPAN: Final = (1 << 31) - 1


class CleanedGroup(msgspec.Struct, frozen=True):
    """A finished copy of a group of segments, waiting to take their place."""

    sources: tuple[Segment, ...]
    stats: CompactionStats = msgspec.field(default_factory=CompactionStats)

    @property
    def base_offset(self) -> int:
        """Where the first of them begins."""
        return self.sources[0].base_offset

    @property
    def end_offset(self) -> int:
        """Where the last of them ends."""
        return self.sources[-1].end_offset


class CleanedCopy:
    """The batches that survive of a group of segments, being written with their indexes."""

    def __init__(self, disk: Disk, folder: Path, base_offset: int, config: LogConfig) -> None:
        remove_copy(disk, folder, base_offset)
        self._file = disk.open(copy_path(folder, base_offset, LOG), create=True)
        self._indexes = SegmentIndexes.fresh(
            disk,
            IndexPaths(
                copy_path(folder, base_offset, OFFSET_INDEX),
                copy_path(folder, base_offset, TIME_INDEX),
            ),
            config.index_interval_bytes,
        )
        self._pending = bytearray()
        self.size_bytes = 0

    def add(self, batch: bytes | bytearray) -> None:
        """Put a batch behind the others."""
        info = peek(batch)
        self._indexes.note(self.size_bytes, info.base_offset, info.max_timestamp)
        self._pending += batch
        self.size_bytes += len(batch)
        if len(self._pending) >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        self._file.write(self.size_bytes - len(self._pending), self._pending)
        self._pending = bytearray()

    def finish(self) -> None:
        """Make the copy durable, under the name that does not count yet."""
        self._write()
        for file in (self._file, *self._indexes.save(self.size_bytes)):
            file.sync()


def copy_path(folder: Path, base_offset: int, suffix: str) -> Path:
    """Where the copy's file of this kind is."""
    return segment_path(folder, base_offset, suffix + CLEANED)


def remove_copy(disk: Disk, folder: Path, base_offset: int) -> None:
    """Remove what there is of a copy."""
    for suffix in (LOG, OFFSET_INDEX, TIME_INDEX):
        disk.remove(copy_path(folder, base_offset, suffix))


def groups_of(segments: Sequence[Segment], segment_bytes: int) -> Iterator[list[Segment]]:
    """Neighbours that fit into one copy together, so that small segments do not pile up."""
    group: list[Segment] = []
    size = 0
    for segment in segments:
        span = segment.end_offset - group[0].base_offset if group else 0
        full = size > 0 and size + segment.size_bytes > segment_bytes
        if group and (full or span > _MAX_OFFSET_SPAN):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size_bytes
    if group:
        yield group
