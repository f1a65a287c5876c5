"""One segment: a file of batches and the two indexes that make it quick to search.

The last segment of a log is active and grows; the others are sealed and never change (compaction
replaces them, it does not edit them). Files of sealed segments are opened when first read, and
closed when the segment and every reader of it are gone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from goqueue.model.ids import NO_TIMESTAMP
from goqueue.records.batch import HEADER, HEADER_BYTES, MAGIC
from goqueue.storage.index import SparseIndex
from goqueue.storage.naming import LOG, OFFSET_INDEX, TIME_INDEX, segment_path
from goqueue.storage.scan import Context, Damage, Found, scan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.disk import Bytes, Disk, DiskFile
    from goqueue.storage.config import LogConfig
    from goqueue.storage.index import Entry


class Segment:
    """The batches from `base_offset` up to `end_offset`, of which `size_bytes` are readable."""

    def __init__(
        self,
        disk: Disk,
        folder: Path,
        base_offset: int,
        config: LogConfig,
        *,
        size_bytes: int = 0,
        sealed_at: int | None = None,
    ) -> None:
        self._disk = disk
        self._folder = folder
        self._interval_bytes = config.index_interval_bytes
        self.base_offset = base_offset

        self.sealed = sealed_at is not None
        self.end_offset = base_offset if sealed_at is None else sealed_at
        """One past the last offset; for a sealed segment, where the next one starts."""

        self.size_bytes = size_bytes
        """How much of the file readers may see; grows only after the bytes are in the file."""

        self.synced_bytes = size_bytes
        """How much of the file is known to be on the disk."""

        self.created_ms = NO_TIMESTAMP
        """When this process made the segment; unknown for one found at start."""

        self.index_rebuilds = 0
        self._indexed_position = -self._interval_bytes
        self._max_timestamp = int(NO_TIMESTAMP)
        self._max_timestamp_offset = base_offset

    def path(self, suffix: str) -> Path:
        """Where the segment's file of this kind is."""
        return segment_path(self._folder, self.base_offset, suffix)

    def create(self) -> None:
        """Make the file of a new segment, so that a full disk is noticed before anything else."""
        self.__dict__["file"] = self._disk.open(self.path(LOG), create=True)

    @cached_property
    def file(self) -> DiskFile:
        """The batches."""
        return self._disk.open(self.path(LOG), create=not self.sealed, write=not self.sealed)

    @cached_property
    def _indexes(self) -> tuple[SparseIndex, SparseIndex]:
        if not self.sealed:
            return self._fresh_indexes()
        offsets = SparseIndex.load(self._disk, self.path(OFFSET_INDEX), sealed=True)
        times = SparseIndex.load(self._disk, self.path(TIME_INDEX), sealed=True)
        if offsets is None or (times is None and self.size_bytes):
            return self._rebuild_indexes()
        return offsets, times or SparseIndex(self._disk, self.path(TIME_INDEX))

    @property
    def offsets(self) -> SparseIndex:
        """Base offsets and the positions of their batches."""
        return self._indexes[0]

    @property
    def times(self) -> SparseIndex:
        """Timestamps, each the highest so far, and the base offsets of the batches that have them.

        `save_indexes` adds the highest of all, so the last entry of a saved index is the maximum.
        """
        return self._indexes[1]

    @property
    def max_timestamp(self) -> int:
        """The highest timestamp of any record, or -1 when there is none."""
        last = self.times.last
        return max(self._max_timestamp, last.key if last else int(NO_TIMESTAMP))

    @property
    def max_timestamp_offset(self) -> int:
        """The base offset of the batch with the highest timestamp."""
        last = self.times.last
        if last is None or self._max_timestamp > last.key:
            return self._max_timestamp_offset
        return last.value

    # --- Growing ---------------------------------------------------------------------------------

    def write(self, data: Bytes) -> None:
        """Put bytes after the readable ones; readers see them once `publish` has told."""
        self.file.write(self.size_bytes, data)

    def publish(self, infos: list[BatchInfo]) -> None:
        """Let readers see batches that `write` has put there."""
        for info in infos:
            self.note(self.size_bytes, info)
            self.size_bytes += info.size_bytes

    def note(self, position: int, info: BatchInfo) -> None:
        """Remember a batch that lies at `position`, in the indexes where one is due."""
        if info.max_timestamp > self._max_timestamp:
            self._max_timestamp = info.max_timestamp
            self._max_timestamp_offset = info.base_offset
        if position - self._indexed_position >= self._interval_bytes:
            self.offsets.append(info.base_offset, position)
            self._note_time()
            self._indexed_position = position
        self.end_offset = info.next_offset

    def _note_time(self) -> None:
        if self._max_timestamp != NO_TIMESTAMP:
            self.times.append(self._max_timestamp, self._max_timestamp_offset)

    def cut(self, size_bytes: int) -> None:
        """Drop everything from this position on, also what was never published."""
        self.file.truncate(size_bytes)
        self.size_bytes = size_bytes
        self.synced_bytes = min(self.synced_bytes, size_bytes)

    def save_indexes(self) -> tuple[DiskFile, DiskFile]:
        """Write both indexes out; the files returned are synced by whoever needs that."""
        if not self.sealed:
            self._note_time()
        return self.offsets.save(), self.times.save()

    def seal(self, end_offset: int) -> None:
        """No more batches will come; the next segment starts at `end_offset`."""
        self.save_indexes()
        self.end_offset = end_offset
        self.offsets.seal()
        self.times.seal()
        self.sealed = True

    # --- Searching -------------------------------------------------------------------------------

    def locate(self, offset: int, context: Context) -> Found | Damage | None:
        """The batch that holds `offset`, or the first one after it; None past the last.

        Damage is returned only when it covers `offset`.
        """
        entry = self._entry_for(offset)
        position, start = (entry.value, entry.key) if entry else (0, self.base_offset)
        for item in self.walk(context, position=position, start_offset=start):
            if isinstance(item, Found):
                if item.info.last_offset >= offset:
                    return item
            elif item.resume_at is None or item.resume_at > offset:
                return item
        return None

    def walk(
        self,
        context: Context,
        *,
        position: int = 0,
        start_offset: int | None = None,
        checksums: bool = False,
    ) -> Iterator[Found | Damage]:
        """The batches from `position` on, the first of which starts at `start_offset`."""
        start = self.base_offset if start_offset is None else start_offset
        bounded = replace(context, end_offset=self.end_offset)
        return scan(self.file, position, self.size_bytes, start, bounded, checksums=checksums)

    def _entry_for(self, offset: int) -> Entry | None:
        """The index entry to start from, checked against the batch that it points to."""
        entry = self.offsets.at_or_before(offset)
        if entry is None or self._starts_batch(entry):
            return entry
        self._indexes = self._rebuild_indexes()
        return self.offsets.at_or_before(offset)

    def _starts_batch(self, entry: Entry) -> bool:
        if not 0 <= entry.value <= self.size_bytes - HEADER_BYTES:
            return False
        header = HEADER.unpack(self.file.read(entry.value, HEADER_BYTES))
        return bool(header[0] == entry.key and header[3] == MAGIC)

    # --- Making the indexes anew -----------------------------------------------------------------

    def _fresh_indexes(self) -> tuple[SparseIndex, SparseIndex]:
        """Two empty indexes in new files; readers may still have the old ones mapped."""
        for suffix in (OFFSET_INDEX, TIME_INDEX):
            self._disk.remove(self.path(suffix))
        return (
            SparseIndex(self._disk, self.path(OFFSET_INDEX)),
            SparseIndex(self._disk, self.path(TIME_INDEX)),
        )

    def resume_indexes(self, position: int, end_offset: int) -> None:
        """Make this segment active again, with the indexes of what lies below `position`."""
        self.sealed = False
        self.end_offset = end_offset
        loaded = [
            SparseIndex.load(self._disk, self.path(suffix), sealed=False)
            for suffix in (OFFSET_INDEX, TIME_INDEX)
        ]
        if position == 0 or loaded[0] is None or loaded[1] is None:
            self._indexes = self._rebuild_indexes(until=position)
            return
        self._indexes = offsets, times = loaded[0], loaded[1]
        offsets.keep_values_below(position)
        times.keep_values_below(end_offset)
        self._indexed_position = offsets.last.value if offsets.last else -self._interval_bytes

    def _rebuild_indexes(self, until: int | None = None) -> tuple[SparseIndex, SparseIndex]:
        """Both indexes from the batches themselves."""
        self.index_rebuilds += 1
        self._indexes = indexes = self._fresh_indexes()
        self._indexed_position = -self._interval_bytes
        end_offset = self.end_offset
        size = self.size_bytes if until is None else until
        anything = Context(gaps_below=end_offset)
        for item in scan(self.file, 0, size, self.base_offset, anything, checksums=False):
            if isinstance(item, Found):
                self.note(item.position, item.info)
        self.end_offset = end_offset
        if self.sealed:
            self._note_time()
            for index in indexes:
                index.save().sync()
                index.seal()
        return indexes
