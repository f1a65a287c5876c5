"""Keep the newest record of each key, as Kafka does: offsets never change, gaps are left.

A pass has two halves. `build` reads the sealed segments and writes cleaned copies beside them; it
may run in a thread while the log is read and written. `steps` puts the copies in place one at a
time, each so that a crash can interrupt it anywhere:

1. the checkpoint says that gaps are to be expected from now on;
2. the finished copy is renamed to `<first>-<end>.swap`: from here on it counts;
3. the segments that it stands for are removed, and it takes the first one's name
   (`recovery.finish_swap`, which recovery runs again if it was interrupted).

Before step 2 a crash leaves the old segments, after it the new one; never neither. What makes an
older record superfluous is on the disk before the older one goes: `build` syncs what it reads.

Tombstones (null values) stay for a day after the first pass that met them, so that a reader who
follows the log sees every deletion: that pass notes the end of the day in the batch (the delete
horizon of the record format). A tombstone goes only when nothing older of its key can be left:
copies are installed from the oldest on, and behind a segment that was left alone none is dropped.
Records without a key are never merged. Control batches stay, and so does the last batch of each
producer, if need be without records: it carries the sequence number that the next one continues.
So does the last batch of a log that other nodes hold too: a copy must come to the same end.
"""

from __future__ import annotations

import time
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import (
    BatchError,
    CompactionCancelledError,
    DiskError,
    LogFailedError,
    StorageError,
)
from goqueue.records import DELETE_HORIZON, BatchInfo, Compression, Record, decode_rows, encode
from goqueue.storage.compaction.cleanable import CompactionStats, dirty_ratio
from goqueue.storage.compaction.cleaned import (
    CleanedCopy,
    CleanedGroup,
    copy_path,
    groups_of,
    remove_copy,
)
from goqueue.storage.naming import LOG, OFFSET_INDEX, TIME_INDEX, segment_path, swap_path
from goqueue.storage.recovery import finish_swap
from goqueue.storage.scan import Damage, IntactBatch
from goqueue.storage.segment import Segment

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from goqueue.storage.log import Log

DAY_MS: Final = 24 * 3600 * 1000
_MAX_KEYS: Final = 5_000_000
"""How many keys one pass remembers; at the bound it stops there, and the next pass goes on."""


def compact(log: Log, now_ms: int, *, tombstone_ms: int = DAY_MS) -> CompactionStats:
    """One whole pass, here and now."""
    compaction = Compaction(log, now_ms, tombstone_ms=tombstone_ms)
    compaction.build()
    return compaction.install()


class Compaction:
    """One pass over the sealed segments of a log."""

    def __init__(
        self,
        log: Log,
        now_ms: int,
        *,
        until: int | None = None,
        tombstone_ms: int = DAY_MS,
        max_keys: int = _MAX_KEYS,
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
        self._store = log.store
        self._context = log.store.context
        self._now_ms = now_ms
        self._tombstone_ms = tombstone_ms
        self._max_keys = max_keys
        self._aborted = aborted
        stop = log.end_offset if until is None else until
        self._sources = tuple(s for s in log.segments.sealed if s.end_offset <= stop)
        self._clean_below = log.store.checkpoint.clean_below
        self._mapped_to = self._clean_below
        self._latest: dict[bytes, int] = {}
        self._last_of_producer: dict[int, int] = {}
        self._last_end = log.end_offset if log.is_replica else -1
        self._left_alone = self._cancelled = False
        self._cleaned: list[CleanedGroup] = []
        self._gaps_below = 0
        self._swapped: CleanedGroup | None = None
        self._started_s = time.perf_counter()
        self.stats = CompactionStats(dirty_ratio=dirty_ratio(log))
        """What the pass did; complete after the last step."""

    # --- Building: any thread --------------------------------------------------------------------

    def build(self) -> None:
        """Read everything, write the cleaned copies; the log itself is not touched.

        Raises:
            DiskError: the copies could not be written; what there was of them is removed.
            CompactionCancelledError: `cancel` was called meanwhile; as above.
        """
        try:
            for segment in self._sources:
                if segment.synced_bytes < segment.size_bytes:
                    segment.file.sync()
            self._mapped_to = self._map_keys()
            sources = [s for s in self._sources if s.base_offset < self._mapped_to]
            for group in groups_of(sources, self._log.config.segment_bytes):
                self._clean(CleanedGroup(tuple(group)))
        except (DiskError, CompactionCancelledError):
            with suppress(DiskError):
                self._discard(self._cleaned)
            raise
        self.stats.unique_keys = len(self._latest)

    def cancel(self) -> None:
        """Let `build`, in whichever thread it runs, give up at the next batch."""
        self._cancelled = True

    def _walk(self, segment: Segment) -> Iterator[IntactBatch | Damage]:
        for item in segment.walk(self._context):
            if self._cancelled:
                raise CompactionCancelledError(f"compaction of {self._store.folder} was called off")
            yield item

    def _map_keys(self) -> int:
        """Learn the newest offset of each key; returns the offset up to which that is known.

        Only what no pass has seen is opened. The producers are learnt from the headers of all.
        """
        known_to = self._clean_below
        for segment in self._sources:
            for item in self._walk(segment):
                if isinstance(item, Damage):
                    continue
                info = item.info
                if info.has_producer and not info.is_control:
                    self._last_of_producer[info.producer_id] = info.base_offset
                if info.next_offset <= self._clean_below:
                    continue
                if len(self._latest) >= self._max_keys:
                    return known_to
                known_to = info.next_offset
                if not info.is_control and not self._is_aborted(info):
                    self._map_batch(_load(segment, item))
            known_to = max(known_to, segment.end_offset)
        return known_to

    def _map_batch(self, data: bytes) -> None:
        for record in _rows(data) or ():
            if record.key is not None:
                self._latest[record.key] = record.offset

    def _is_aborted(self, info: BatchInfo) -> bool:
        return info.is_transactional and self._aborted(info)

    def _clean(self, cleaned: CleanedGroup) -> None:
        """Write what survives of a group, unless some of it is damaged.

        Damage is for readers to hear about, not for us to tidy away: such a group stays as it is.
        """
        store = self._store
        self._cleaned.append(cleaned)
        copy = CleanedCopy(store.disk, store.folder, cleaned.base_offset, store.config)
        for segment in cleaned.sources:
            cleaned.stats.bytes_before += segment.size_bytes
            for item in self._walk(segment):
                if isinstance(item, Damage):
                    self._left_alone = True
                    self._discard([self._cleaned.pop()])
                    return
                survivor = self._survivor(item.info, _load(segment, item), cleaned.stats)
                if survivor is not None:
                    copy.add(survivor)
        copy.finish()
        cleaned.stats.bytes_after = copy.size_bytes

    def _survivor(
        self, info: BatchInfo, data: bytes, stats: CompactionStats
    ) -> bytes | bytearray | None:
        """What is left of a batch: the same bytes, a smaller batch, or nothing."""
        if info.is_control:
            return data
        stats.records_before += info.count
        records = _rows(data) if info.next_offset <= self._mapped_to else None
        if records is None:
            stats.records_after += info.count
            return data
        kept = self._kept(info, records, stats)
        stats.records_after += len(kept)
        last = self._last_of_producer.get(info.producer_id)
        if not kept and info.base_offset != last and info.next_offset != self._last_end:
            return None
        new_horizon = not info.has_delete_horizon and any(_is_tombstone(r) for r in kept)
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
            max_timestamp=None if kept and not info.is_log_append_time else info.max_timestamp,
            leader_epoch=info.leader_epoch,
            producer_id=info.producer_id,
            producer_epoch=info.producer_epoch,
            base_sequence=info.base_sequence,
        )

    def _kept(self, info: BatchInfo, records: list[Record], stats: CompactionStats) -> list[Record]:
        if self._is_aborted(info):
            return []
        newest = [
            record
            for record in records
            if record.key is None or self._latest.get(record.key, -1) <= record.offset
        ]
        if not info.has_delete_horizon or info.base_timestamp > self._now_ms or self._left_alone:
            return newest
        kept = [record for record in newest if not _is_tombstone(record)]
        stats.tombstones_removed += len(newest) - len(kept)
        return kept

    def let_go(self) -> None:
        """Forget the segments that were replaced; in a thread, since to close them takes long.

        Their files have no names any more: the kernel gives their blocks back with the last
        descriptor.
        """
        self._sources, self._swapped = (), None

    # --- Installing ------------------------------------------------------------------------------

    def install(self) -> CompactionStats:
        """Put every finished copy in place, here and now. Raises like `steps`."""
        with closing(self.steps()) as steps:
            for work in steps:
                work()
        return self.stats

    def steps(self) -> Generator[Callable[[], None], None, None]:
        """Put one finished copy after the other in place of the segments that it was made from.

        Each step yields what waits for the disk, to be run in any thread, and does the rest when
        the next one is asked for. The log may be read and written all the time. While a step is
        under way no flush, no removal and no other pass may be. Where retention or a truncation was
        faster, the copies from there on are thrown away, and the next pass does their work again.

        Raises:
            LogFailedError: the log has failed since; nothing more was installed.
            DiskError: the disk refused. The log refuses appends until it has recovered, which
                finishes or forgets what was begun.
        """
        whole = all(self._is_there(s) or self._is_deleted(s) for s in self._sources)
        try:
            if self._cleaned:
                self._prepare(self._cleaned[-1].end_offset)
            while self._cleaned:
                yield from _step(self._swap_next)
                if self._swapped is None:
                    break
                self._put(self._swapped)
            if whole and not self._cleaned and self._mapped_to > self._clean_below:
                yield from _step(partial(self._store.note, clean_below=self._mapped_to))
        except DiskError as error:
            # Half a swap must not meet the next pass, nor a truncation: only recovery may see it.
            self._log.flush_failed(error)
            raise
        finally:
            with suppress(DiskError):  # recovery throws them away too
                self._discard(self._cleaned)
        self.stats.duration_s = time.perf_counter() - self._started_s

    def _prepare(self, end_offset: int) -> None:
        """Let the checkpoint not point into a file that goes."""
        self._check_failure()
        self._gaps_below = max(end_offset, self._store.checkpoint.gaps_below)
        if self._store.checkpoint.recovery_segment < end_offset:
            self._log.flush(checkpoint=True)

    def _check_failure(self) -> None:
        if self._log.failure is not None:
            raise LogFailedError(f"not compacted: {self._log.failure}") from self._log.failure

    def _is_there(self, source: Segment) -> bool:
        """Whether nothing has happened to a segment since the pass was planned."""
        return source in self._store.segments.since(source.base_offset)[:1]

    def _is_deleted(self, source: Segment) -> bool:
        return source.end_offset <= self._log.start_offset

    def _next(self) -> CleanedGroup | None:
        """Take the next copy; None when there is no more, or its segments are not all there."""
        self._check_failure()
        while self._cleaned:
            cleaned = self._cleaned[0]
            if all(self._is_there(source) for source in cleaned.sources):
                return self._cleaned.pop(0)
            if not all(self._is_deleted(source) for source in cleaned.sources):
                return None
            self._discard([self._cleaned.pop(0)])
        return None

    def _swap_next(self) -> None:
        """Put the next copy in place on the disk; in any thread."""
        self._swapped = None
        cleaned, store = self._next(), self._store
        if cleaned is None:
            return
        if store.checkpoint.gaps_below < self._gaps_below:
            store.note(gaps_below=self._gaps_below)
        base, end = cleaned.base_offset, cleaned.end_offset
        for source in cleaned.sources:
            source.hold()  # a reader who opened it later would find the copy under its name
        swap = swap_path(store.folder, base, end)
        store.disk.rename(copy_path(store.folder, base, LOG), swap)
        store.disk.sync_folder(store.folder)
        finish_swap(store.disk, store.folder, base, end)
        for suffix in (OFFSET_INDEX, TIME_INDEX):
            store.disk.rename(
                copy_path(store.folder, base, suffix), segment_path(store.folder, base, suffix)
            )
        self._swapped = cleaned

    def _put(self, cleaned: CleanedGroup) -> None:
        """Let readers of the log find a copy that is in place; on the writer's thread."""
        store, end = self._store, cleaned.end_offset
        segment = Segment(
            store.shared,
            store.folder,
            cleaned.base_offset,
            store.config,
            size_bytes=cleaned.stats.bytes_after,
            sealed_at=end,
        )
        store.replace(cleaned.base_offset, end, segment)
        self.stats.add(cleaned.stats)

    def _discard(self, copies: Sequence[CleanedGroup]) -> None:
        for cleaned in copies:
            remove_copy(self._store.disk, self._store.folder, cleaned.base_offset)


def _step(work: Callable[[], None]) -> Generator[Callable[[], None], None, None]:
    """Have somebody do `work`, and raise here what the disk says to it."""
    refusals: list[StorageError] = []

    def run() -> None:
        try:
            work()
        except StorageError as error:
            refusals.append(error)

    yield run
    if refusals:
        raise refusals[0]


def _load(segment: Segment, found: IntactBatch) -> bytes:
    return segment.file.read(found.position, found.info.size_bytes)


def _rows(data: bytes) -> list[Record] | None:
    """The records of a batch whose checksum was seen to fit; None when they do not parse.

    Its producer sent it that way. Nobody can tell its keys, so it stays as it is.
    """
    try:
        return decode_rows(data, check_crc=False)
    except BatchError:
        return None


def _is_tombstone(record: Record) -> bool:
    return record.key is not None and record.value is None
