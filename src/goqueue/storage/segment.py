"""One segment: a file of batches and the two indexes that make it quick to search.

The last segment of a log is active and grows; the others are sealed and never change (compaction
replaces them, it does not edit them). Files are opened when first used, and closed when others need
the descriptors (see `goqueue.storage.open_files`) or when the segment and every reader are gone.

An active segment that is still short has no index, in memory or on the disk: a search reads it from
its start. So a log of a few messages is one file.
"""

from __future__ import annotations

from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import BatchError, DiskFullError
from goqueue.model.ids import NO_TIMESTAMP
from goqueue.records.batch import HEADER, HEADER_BYTES, MAGIC, BatchInfo, peek_header
from goqueue.storage.indexes import NOTHING, IndexPaths, Newest, SegmentIndexes
from goqueue.storage.naming import LOG, OFFSET_INDEX, TIME_INDEX, segment_path
from goqueue.storage.scan import (
    ANY_OFFSET,
    READ_BYTES,
    READ_NEAR_BYTES,
    BatchPosition,
    Context,
    Damage,
    IntactBatch,
    scan,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from goqueue.runtime.disk import Bytes, DiskFile
    from goqueue.storage.config import LogConfig
    from goqueue.storage.index import IndexEntry
    from goqueue.storage.open_files import SharedFiles

UNINDEXED_ENTRIES: Final = 16
"""An active segment gets its indexes once they would have more entries than this."""


RECENT_BATCHES: Final = 8
"""The last so many batches of an active segment are found without a search: whoever reads as fast
as is written wants one of these. Whatever is older is searched for by the index."""
NOWHERE: Final = (0, 0, 0, 0)


class Segment:
    """The batches from `base_offset` up to `end_offset`, of which `size_bytes` are readable."""

    __slots__ = (
        "_file",
        "_folder",
        "_indexes",
        "_interval_bytes",
        "_loading",
        "_newest",
        "_recent",
        "_recent_at",
        "_shared",
        "_stored_bytes",
        "base_offset",
        "created_ms",
        "end_offset",
        "index_rebuilds",
        "is_dirty",
        "sealed",
        "size_bytes",
        "synced_bytes",
        "was_used",
    )

    def __init__(
        self,
        shared: SharedFiles,
        folder: Path,
        base_offset: int,
        config: LogConfig,
        *,
        size_bytes: int = 0,
        sealed_at: int | None = None,
    ) -> None:
        self._shared = shared
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
        """When the segment was started; of one found at start not known until `born_ms` asks."""

        self.index_rebuilds = 0
        self.was_used = False

        self.is_dirty = False
        """This process has written to it since it was last synced."""

        self._file: DiskFile | None = None
        self._indexes: SegmentIndexes | None = None
        self._loading = Lock()
        """Two readers that both rebuilt an index would remove each other's files."""
        self._newest = NOTHING
        """Of the batches so far, as long as there is no index."""
        self._recent: list[tuple[int, int, int, int]] = []
        """The last appended batches, as `BatchPosition` has it; each takes the oldest's slot."""
        self._recent_at = 0
        self._stored_bytes = -1
        """How long the segment was when its indexes were stored, if that was before the start."""

    @property
    def sealed_at(self) -> int | None:
        """Where the next segment starts; None for the active one."""
        return self.end_offset if self.sealed else None

    def path(self, suffix: str) -> Path:
        """Where the segment's file of this kind is."""
        return segment_path(self._folder, self.base_offset, suffix)

    @property
    def _index_paths(self) -> IndexPaths:
        return IndexPaths(self.path(OFFSET_INDEX), self.path(TIME_INDEX))

    # --- Files -----------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the file of a new segment, so that a full disk is noticed before anything else."""
        self._file = self._shared.disk.open(self.path(LOG), create=True)
        self._shared.open_files.opened(self)

    @property
    def file(self) -> DiskFile:
        """The batches."""
        self.was_used = True
        file = self._file
        if file is None:
            may_write = not self.sealed or self.synced_bytes < self.size_bytes
            file = self._file = self._shared.disk.open(self.path(LOG), write=may_write)
            self._shared.open_files.opened(self)
        return file

    @property
    def indexes(self) -> SegmentIndexes | None:
        """What makes it quick to search; None while it is active and short."""
        indexes = self._indexes
        if indexes is None and self.sealed:
            with self._loading:
                indexes = self._indexes = self._indexes or self._loaded(self.size_bytes)
            self._shared.open_files.opened(self)
        return indexes

    @property
    def newest(self) -> Newest:
        """The highest timestamp of any record, -1 when there is none, and where it is."""
        indexes = self.indexes
        return self._newest if indexes is None else indexes.newest

    def hold(self) -> None:
        """Open what there is: whoever has this segment can read it when its names are gone."""
        file, indexes = self.file, self.indexes
        self._shared.open_files.forget(self)
        self._file, self._indexes = file, indexes  # also if they were just given back

    def rest(self) -> None:
        """Give the descriptors back; whoever uses the segment next opens it again."""
        self._file = None
        if self.sealed:
            self._indexes = None

    # --- Age -------------------------------------------------------------------------------------

    def born_ms(self, now_ms: int) -> int:
        """When the segment was started; of one found at start, when its first batch was dated.

        A first batch without a timestamp or with one after now says nothing: then the time of the
        last write to the file counts.
        """
        if self.created_ms == NO_TIMESTAMP:
            first = self.first_timestamp
            dated = 0 <= first <= now_ms
            self.created_ms = first if dated else self.modified_ms(now_ms)
        return self.created_ms

    @property
    def first_timestamp(self) -> int:
        """The highest timestamp of the first batch, or -1 when there is none."""
        if self.size_bytes < HEADER_BYTES:
            return NO_TIMESTAMP
        try:
            return peek_header(self.file.read(0, HEADER_BYTES)).max_timestamp
        except BatchError:
            return NO_TIMESTAMP  # damaged

    def modified_ms(self, now_ms: int) -> int:
        """When the file was last written.

        A file that was written while the clock was ahead counts as written now, and is dated so:
        its age would stand still until the clock gets there.
        """
        path = self.path(LOG)
        disk = self._shared.disk
        modified_ms = disk.modified_ms(path)
        if modified_ms > now_ms:
            disk.set_modified_ms(path, now_ms)
            return now_ms
        return modified_ms

    # --- Growing ---------------------------------------------------------------------------------

    def write(self, data: Bytes) -> None:
        """Put bytes after the readable ones; readers see them once `publish` has told."""
        self.file.write(self.size_bytes, data)

    def publish(self, info: BatchInfo, base_offset: int, size_bytes: int) -> None:
        """Let readers see a batch that `write` has put there, under the offset that it was given.

        In this order: a reader who sees the bytes knows where they end, and one who finds the index
        entry sees the bytes.
        """
        position = self.size_bytes
        self.end_offset = next_offset = base_offset + info.last_offset_delta + 1
        self.size_bytes = position + size_bytes
        self._note(position, base_offset, info.max_timestamp)
        if len(self._recent) < RECENT_BATCHES:
            self._recent = [NOWHERE] * RECENT_BATCHES
        self._recent_at = at = (self._recent_at + 1) % RECENT_BATCHES
        self._recent[at] = (position, base_offset, next_offset, size_bytes)

    def note(self, position: int, info: BatchInfo) -> None:
        """Remember a batch that lies at `position`."""
        self._note(position, info.base_offset, info.max_timestamp)
        self.end_offset = info.next_offset

    def _note(self, position: int, base_offset: int, timestamp_ms: int) -> None:
        """Let searches find a batch; only the writer comes here, so that none is left out."""
        indexes = self._indexes
        if indexes is None and position > UNINDEXED_ENTRIES * self._interval_bytes:
            stored = position == self._stored_bytes
            indexes = self._indexes = self._loaded(position) if stored else self._built(position)
        if indexes is not None:
            indexes.note(position, base_offset, timestamp_ms)
        elif timestamp_ms > self._newest.timestamp_ms:
            self._newest = Newest(timestamp_ms, base_offset)

    def cut(self, size_bytes: int) -> None:
        """Drop everything from this position on, also what was never published."""
        self._recent = []
        self.file.truncate(size_bytes)
        self.size_bytes = size_bytes
        self.synced_bytes = min(self.synced_bytes, size_bytes)

    def seal(self, end_offset: int) -> None:
        """No more batches will come; the next segment starts at `end_offset`."""
        self._recent = []
        self._built_now().seal(self.size_bytes)
        self.end_offset = end_offset
        self.sealed = True

    def _built_now(self) -> SegmentIndexes:
        """The indexes, also of a short segment; only the writer may ask."""
        if self._indexes is None:
            self._indexes = self.indexes or self._built(self.size_bytes)
        return self._indexes

    def save_indexes(self) -> tuple[DiskFile, DiskFile]:
        """Write the indexes to their files; the caller syncs them."""
        return self._built_now().save(self.size_bytes)

    def keep_indexes(self) -> None:
        """Write the indexes to their files, if there are any, without waiting for the disk.

        What a power cut takes of them is made again.
        """
        if self._indexes is not None:
            self._indexes.save(self.size_bytes)

    # --- Searching -------------------------------------------------------------------------------

    def recent(self, offset: int) -> BatchPosition | None:
        """The batch that holds `offset`, if it is one of the last that were appended."""
        for place in self._recent:
            if place[1] <= offset < place[2]:
                return BatchPosition._make(place)
        return None

    def locate(self, offset: int, context: Context) -> IntactBatch | Damage | None:
        """The batch that holds `offset`, or the first one after it; None past the last.

        Damage is returned only when it covers `offset`.
        """
        entry = self._entry_for(offset)
        position, start = (entry.value, entry.key) if entry else (0, self.base_offset)
        near = self.walk(
            context,
            position=position,
            start_offset=start,
            wanted=offset,
            ahead_bytes=READ_NEAR_BYTES,
        )
        for item in near:
            if isinstance(item, IntactBatch):
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
        wanted: int | None = None,
        ahead_bytes: int = READ_BYTES,
    ) -> Iterator[IntactBatch | Damage]:
        """The batches from `position` on, the first of which starts at `start_offset`."""
        return scan(
            self.file,
            position,
            self.size_bytes,
            self.base_offset if start_offset is None else start_offset,
            context.up_to(self.end_offset),
            wanted=wanted,
            ahead_bytes=ahead_bytes,
        )

    def _entry_for(self, offset: int) -> IndexEntry | None:
        """The index entry to start from: the last one before `offset` whose batch is intact."""
        if self.indexes is None:
            return None
        offsets = self.indexes.offsets
        entry = offsets.at_or_before(offset)
        while entry is not None and not self._starts_batch(entry):
            entry = offsets.before(entry.key)
        return entry

    def _starts_batch(self, entry: IndexEntry) -> bool:
        if not 0 <= entry.value <= self.size_bytes - HEADER_BYTES:
            return False
        read = self.file.read(entry.value, HEADER_BYTES)  # short where a cut was not noted yet
        header = HEADER.unpack(read) if len(read) == HEADER_BYTES else (-1,) * 4
        return bool(header[0] == entry.key and header[3] == MAGIC)

    # --- Making the indexes anew -----------------------------------------------------------------

    def resume(self, position: int, end_offset: int, newest: Newest | None = None) -> None:
        """Make this segment grow again from `position`, with the indexes of what lies below.

        If the newest batch below `position` is known, they are read with the next append.
        """
        if self.sealed:
            self._file = None  # it was opened for reading
        self.sealed = False
        self.end_offset = end_offset
        self._stored_bytes = position
        if position == 0 or newest is not None:
            self._newest = newest or NOTHING
            self._indexes = None
        else:
            self._indexes = self._loaded(position)

    def _loaded(self, size_bytes: int) -> SegmentIndexes:
        """The indexes of the first `size_bytes`, as they are stored if those can be used."""
        stored = SegmentIndexes.load(
            self._shared.disk,
            self._index_paths,
            self._interval_bytes,
            size_bytes,
            sealed=self.sealed,
        )
        if stored is None:
            self.index_rebuilds += 1
        return stored or self._built(size_bytes)

    def _built(self, size_bytes: int) -> SegmentIndexes:
        """The indexes of the first `size_bytes`, from the batches themselves."""
        anything = Context(gaps_below=ANY_OFFSET, end_offset=self.end_offset)
        batches = scan(self.file, 0, size_bytes, self.base_offset, anything)
        indexes = SegmentIndexes.rebuild(
            self._shared.disk, self._index_paths, self._interval_bytes, batches
        )
        if self.sealed:
            with suppress(DiskFullError):
                for file in indexes.save(size_bytes):
                    file.sync()
            indexes.seal(size_bytes)
        return indexes
