"""Keep the newest record of each key, as Kafka does: offsets never change, gaps are left.

A pass has two halves. `build` reads the sealed segments and writes cleaned copies beside them; it
may run in a thread while the log is read and written. `install` puts the copies in place, on the
writer's thread, each in steps that a crash can interrupt anywhere:

1. the checkpoint says that gaps are to be expected from now on;
2. the finished copy is renamed to `<first>-<end>.swap`: from here on it counts;
3. the segments that it stands for are removed, and it takes the first one's name
   (`recovery.finish_swap`, which recovery runs again if it was interrupted).

Before step 2 a crash leaves the old segments, after it the new one; never neither.

Tombstones (null values) stay for a day after the first pass that met them, so that a reader who
follows the log sees every deletion: that pass notes the end of the day in the batch (the delete
horizon of the record format). Records without a key are never merged. Control batches stay.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from goqueue.records import (
    DELETE_HORIZON,
    BatchInfo,
    Compression,
    Record,
    decode_rows,
    encode,
    peek,
)
from goqueue.storage.indexes import IndexPaths, SegmentIndexes
from goqueue.storage.naming import CLEANED, LOG, OFFSET_INDEX, TIME_INDEX, segment_path, swap_path
from goqueue.storage.recovery import finish_swap
from goqueue.storage.scan import Damage
from goqueue.storage.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from goqueue.storage.log import Log

DAY_MS: Final = 24 * 3600 * 1000
MAX_KEYS: Final = 5_000_000
"""How many keys one pass remembers; at the bound it stops there, and the next pass goes on."""

_WRITE_BYTES: Final = 1024 * 1024
_MAX_OFFSET_SPAN: Final = (1 << 31) - 1


@dataclass(slots=True)
class CompactionStats:
    """What one pass did."""

    records_before: int = 0
    records_after: int = 0
    unique_keys: int = 0
    tombstones_removed: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    duration_s: float = 0.0
    dirty_ratio: float = 0.0


def dirty_ratio(log: Log) -> float:
    """The share of the sealed bytes that no pass has looked at yet; 0 for an empty log."""
    clean_below = log.store.checkpoint.clean_below
    total = sum(segment.size_bytes for segment in log.segments.sealed)
    dirty = sum(s.size_bytes for s in log.segments.sealed if s.end_offset > clean_below)
    return dirty / total if total else 0.0


def compact(log: Log, now_ms: int, *, tombstone_ms: int = DAY_MS) -> CompactionStats:
    """One whole pass, here and now."""
    compaction = Compaction(log, now_ms, tombstone_ms=tombstone_ms)
    compaction.build()
    return compaction.install()


@dataclass(frozen=True, slots=True)
class _Cleaned:
    """A finished copy of a group of segments, waiting to take their place."""

    sources: tuple[Segment, ...]
    size_bytes: int

    @property
    def base_offset(self) -> int:
        return self.sources[0].base_offset

    @property
    def end_offset(self) -> int:
        return self.sources[-1].end_offset


class Compaction:
    """One pass over the sealed segments of a log."""

    def __init__(
        self,
        log: Log,
        now_ms: int,
        *,
        until: int | None = None,
        tombstone_ms: int = DAY_MS,
        max_keys: int = MAX_KEYS,
        aborted: Callable[[BatchInfo], bool] = lambda _: False,
    ) -> None:
        """Plan a pass on the writer's thread.

        Args:
            log: What to compact; records at or past `until` are left alone.
            now_ms: When the pass happens, for tombstones.
            until: The last stable offset, where transactions may be open.
            tombstone_ms: How long a tombstone outlives the first pass that meets it.
            max_keys: How many keys to remember; the pass ends where they run out.
            aborted: Says of a transactional batch that its records were never committed; they
                are dropped, and they do not replace older ones.
        """
        self._log = log
        self._context = log.store.context
        self._now_ms = now_ms
        self._tombstone_ms = tombstone_ms
        self._max_keys = max_keys
        self._aborted = aborted
        self._until = log.end_offset if until is None else until
        self._sources = tuple(s for s in log.segments.sealed if s.end_offset <= self._until)
        self._clean_below = log.store.checkpoint.clean_below
        self._latest: dict[bytes, int] = {}
        self._last_of_producer: dict[int, int] = {}
        self._cleaned: list[_Cleaned] = []
        self._started_s = time.monotonic()
        self._stats = CompactionStats(dirty_ratio=dirty_ratio(log))

    # --- Building: any thread --------------------------------------------------------------------

    def build(self) -> None:
        """Read everything, write the cleaned copies; the log itself is not touched."""
        mapped_to = self._map_keys()
        self._stats.unique_keys = len(self._latest)
        sources = [s for s in self._sources if s.base_offset < mapped_to]
        for group in _groups(sources, self._log.config.segment_bytes):
            cleaned = self._clean(group)
            if cleaned is not None:
                self._cleaned.append(cleaned)
        self._clean_below = mapped_to

    def _map_keys(self) -> int:
        """Learn the newest offset of each key; returns the offset up to which that is known."""
        known_to = self._clean_below
        for segment in self._sources:
            if segment.end_offset <= self._clean_below:
                continue
            for info, data in self._batches(segment):
                if len(self._latest) >= self._max_keys:
                    return known_to
                known_to = info.next_offset
                if info.has_producer:
                    self._last_of_producer[info.producer_id] = info.base_offset
                if not info.is_control and not self._aborted(info):
                    for record in decode_rows(data):
                        if record.key is not None:
                            self._latest[record.key] = record.offset
            known_to = segment.end_offset
        return known_to

    def _batches(self, segment: Segment) -> Iterator[tuple[BatchInfo, bytes]]:
        """The intact batches of a segment."""
        for item in segment.walk(self._context):
            if not isinstance(item, Damage):
                yield item.info, segment.file.read(item.position, item.info.size_bytes)

    def _clean(self, group: Sequence[Segment]) -> _Cleaned | None:
        """Write what survives of a group; None leaves the group as it is."""
        if any(isinstance(item, Damage) for s in group for item in s.walk(self._context)):
            return None  # damage is for readers to hear about, not for us to tidy away
        copy = _Copy(self._log, group[0].base_offset)
        for segment in group:
            self._stats.bytes_before += segment.size_bytes
            for info, data in self._batches(segment):
                survivor = self._survivor(info, data)
                if survivor is not None:
                    copy.add(survivor)
        self._stats.bytes_after += copy.finish()
        return _Cleaned(tuple(group), copy.size_bytes)

    def _survivor(self, info: BatchInfo, data: bytes) -> bytes | bytearray | None:
        """What is left of a batch: the same bytes, a smaller batch, or nothing."""
        if info.is_control:
            return data
        records = decode_rows(data, check_crc=False)
        self._stats.records_before += len(records)
        expired = info.has_delete_horizon and info.base_timestamp <= self._now_ms
        kept = [record for record in records if self._keeps(info, record, expired=expired)]
        self._stats.records_after += len(kept)
        new_horizon = not info.has_delete_horizon and any(_is_tombstone(r) for r in kept)
        if not kept and self._last_of_producer.get(info.producer_id) != info.base_offset:
            return None
        if len(kept) == len(records) and not new_horizon:
            return data
        return encode(
            kept,
            compression=Compression.of(info.compression),
            attributes=info.attributes | (DELETE_HORIZON if new_horizon else 0),
            base_offset=info.base_offset,
            last_offset_delta=info.last_offset_delta,
            base_timestamp=(
                self._now_ms + self._tombstone_ms if new_horizon else info.base_timestamp
            ),
            max_timestamp=info.max_timestamp,
            leader_epoch=info.leader_epoch,
            producer_id=info.producer_id,
            producer_epoch=info.producer_epoch,
            base_sequence=info.base_sequence,
        )

    def _keeps(self, info: BatchInfo, record: Record, *, expired: bool) -> bool:
        if info.is_transactional and self._aborted(info):
            return False
        if record.key is None:
            return True
        if self._latest.get(record.key, record.offset) > record.offset:
            return False
        if expired and record.value is None:
            self._stats.tombstones_removed += 1
            return False
        return True

    # --- Installing: the writer's thread ---------------------------------------------------------

    def install(self) -> CompactionStats:
        """Put every finished copy in place of the segments that it was made from."""
        store = self._log.store
        gaps_below = max(store.checkpoint.gaps_below, self._clean_below)
        store.note(gaps_below=gaps_below)
        present = set(store.segments.sealed)
        for cleaned in self._cleaned:
            if present.issuperset(cleaned.sources):
                self._install(cleaned)
            else:
                self._discard(cleaned)  # retention was faster
        store.note(clean_below=self._clean_below)
        self._stats.duration_s = time.monotonic() - self._started_s
        return self._stats

    def _install(self, cleaned: _Cleaned) -> None:
        store = self._log.store
        base, end = cleaned.base_offset, cleaned.end_offset
        swap = swap_path(store.folder, base, end)
        store.disk.rename(_cleaned_path(store.folder, base, LOG), swap)
        store.disk.sync_folder(store.folder)
        finish_swap(store.disk, store.folder, base, end)
        for suffix in (OFFSET_INDEX, TIME_INDEX):
            store.disk.rename(
                _cleaned_path(store.folder, base, suffix), segment_path(store.folder, base, suffix)
            )
        segment = Segment(
            store.disk,
            store.folder,
            base,
            store.config,
            size_bytes=cleaned.size_bytes,
            sealed_at=end,
        )
        store.replace(base, end, segment)

    def _discard(self, cleaned: _Cleaned) -> None:
        store = self._log.store
        for suffix in (LOG, OFFSET_INDEX, TIME_INDEX):
            store.disk.remove(_cleaned_path(store.folder, cleaned.base_offset, suffix))


class _Copy:
    """A cleaned copy of a group of segments, being written with its indexes."""

    def __init__(self, log: Log, base_offset: int) -> None:
        store = log.store
        paths = {
            suffix: _cleaned_path(store.folder, base_offset, suffix)
            for suffix in (LOG, OFFSET_INDEX, TIME_INDEX)
        }
        store.disk.remove(paths[LOG])
        self._file = store.disk.open(paths[LOG], create=True)
        self._indexes = SegmentIndexes.fresh(
            store.disk,
            IndexPaths(paths[OFFSET_INDEX], paths[TIME_INDEX]),
            store.config.index_interval_bytes,
        )
        self._pending = bytearray()
        self.size_bytes = 0

    def add(self, batch: bytes | bytearray) -> None:
        self._indexes.note(self.size_bytes, peek(batch))
        self._pending += batch
        self.size_bytes += len(batch)
        if len(self._pending) >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        self._file.write(self.size_bytes - len(self._pending), self._pending)
        self._pending = bytearray()

    def finish(self) -> int:
        """Make the copy durable; returns its size."""
        self._write()
        for file in (self._file, *self._indexes.save()):
            file.sync()
        return self.size_bytes


def _cleaned_path(folder: Path, base_offset: int, suffix: str) -> Path:
    return segment_path(folder, base_offset, suffix + CLEANED)


def _is_tombstone(record: Record) -> bool:
    return record.key is not None and record.value is None


def _groups(segments: Sequence[Segment], segment_bytes: int) -> Iterator[list[Segment]]:
    """Neighbours that fit into one segment together, so that small ones do not pile up."""
    group: list[Segment] = []
    size = 0
    for segment in segments:
        span = segment.end_offset - group[0].base_offset if group else 0
        if group and (size + segment.size_bytes > segment_bytes or span > _MAX_OFFSET_SPAN):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size_bytes
    if group:
        yield group
