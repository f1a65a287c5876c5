"""A log on the disk as a partition uses it on an event loop: whatever is slow is in a thread.

Beside the batches it keeps what its owner knows of them, so that the next start need not read all
of them: in the book that all logs share while that is small, in a snapshot of its own otherwise.
"""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.model.errors import DiskError, DiskFullError, InvariantError, LogFailedError
from goqueue.model.tuples import NamedTuple
from goqueue.runtime.tasks import in_thread
from goqueue.storage.compaction.cleanable import (
    Cleanable,
    CompactionLimits,
    CompactionStats,
    cleanable,
    dirty_ratio,
    is_sealing_due,
)
from goqueue.storage.compaction.compaction import Compaction
from goqueue.storage.config import Fsync, LogConfig
from goqueue.storage.flushing.flusher import Flusher
from goqueue.storage.log import Log
from goqueue.storage.retention import next_look_ms
from goqueue.storage.snapshot import Entry, Snapshot, SnapshotFolder
from goqueue.storage.snapshot_kinds import SnapshotKind
from goqueue.storage.stats import LogFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Bytes
    from goqueue.storage.append_log import Appended
    from goqueue.storage.checkpoints.book import CheckpointBook
    from goqueue.storage.checkpoints.checkpoint import LogSummary
    from goqueue.storage.flushing.schedule import FlushSchedule
    from goqueue.storage.open_files import SharedFiles

_T = TypeVar("_T")

_MAX_SUMMARISED_BYTES: Final = 4096
"""What an owner knows goes into the summary of its log up to this size; more gets a file."""


class LogHost(NamedTuple):
    """What the logs of one process share beside their files, and whom they tell of their work."""

    executor: Executor
    schedule: FlushSchedule | None = None
    """Of flushes that nobody waits for."""
    book: CheckpointBook | None = None
    """Of summaries; without it every log has snapshots of its own."""
    on_synced: Callable[[float | None], None] = lambda _: None
    """Told how many seconds a sync took, or None when the disk refused."""
    on_saved: Callable[[float], None] = lambda _: None
    """Told how many seconds it took to keep what an owner knows."""


class DiskLog(Log):
    """A log with its flushes and snapshots. Opened in any thread, then used on the loop."""

    def __init__(
        self,
        folder: Path,
        config: LogConfig,
        host: LogHost,
        *,
        shared: SharedFiles,
        clock: Clock,
        summary: LogSummary | None = None,
        is_replica: bool = False,
    ) -> None:
        """Open the log in `folder`, which nobody else uses yet.

        After a crash, what recovery found is synced before anybody sees it where readers wait for
        the disk: they may have seen it before, and will ask for it. A disk that refuses leaves a
        failed log, which is to be recovered like any other.
        """
        super().__init__(
            folder, config, clock=clock, shared=shared, summary=summary, is_replica=is_replica
        )
        if config.fsync is Fsync.ALWAYS and self.flushed_offset < self.end_offset:
            with suppress(DiskError):
                self.flush()
        self._host = host
        self._executor = host.executor
        self._snapshots = SnapshotFolder(shared.disk, folder, SnapshotKind.PRODUCERS)
        self.flusher = Flusher(self, host.executor, self._flushed, host.on_synced, host.schedule)
        self.on_flushed: Callable[[], None] = lambda: None
        """Called after each flush."""
        self.on_start_moved: Callable[[], None] = lambda: None
        """Called when the log starts later than before."""
        self.flush_soon = self.flusher.appended
        self.promises_sync = self.flusher.promises_sync
        self.durable = self.flusher.durable
        self.flush_to = self.flusher.flush_to
        self._upkeep = asyncio.Lock()
        """Held by whatever works on the files for longer than a moment: one thing at a time, and
        the log is neither closed nor removed under it."""
        self._compaction: Compaction | None = None
        """What compaction is reading and writing now."""
        self._removing = asyncio.Lock()
        """Held while segments are removed: recovery must not meet files that are on their way out,
        and of two removals the later start counts."""

    def _flushed(self) -> None:
        self.on_flushed()

    # --- What there is ---------------------------------------------------------------------------

    def facts(self) -> LogFacts:
        """What people and monitoring systems are told of the log."""
        stats, segments = self.stats, self.segments
        return LogFacts(
            segment_count=len(segments),
            active_segment_count=1 if segments.active else 0,
            bytes_written=stats.bytes_written,
            segments_created=stats.segments_created,
            segments_deleted=stats.segments_deleted,
            offset_lookups=stats.offset_lookups,
            time_lookups=stats.time_lookups,
            index_rebuilds=stats.index_rebuilds + sum(each.index_rebuilds for each in segments),
            dirty_ratio=dirty_ratio(self),
        )

    def take_lookup_times(self) -> list[float]:
        """How long searches by time took since this was last asked, in seconds."""
        times, self.stats.time_lookups_s = self.stats.time_lookups_s, []
        return times

    # --- What the owner knows --------------------------------------------------------------------

    def kept(self) -> Snapshot | None:
        """What the owner knew at the newest checkpoint that fits the log; reads the disk."""
        snapshot = None if self.opened_from is None else Snapshot.decode(self.opened_from.state)
        if snapshot is None and self.recovery.has_snapshots:
            snapshot = self._snapshots.load(self.end_offset)
        return snapshot

    @property
    def damaged_snapshots(self) -> Sequence[str]:
        """The files that `kept` had to pass over."""
        return self._snapshots.damaged

    @property
    def snapshot_bytes(self) -> int:
        """The size of what was kept last."""
        return self._snapshots.size_bytes

    def _snapshot(self, entries: tuple[Entry, ...]) -> Snapshot:
        now_ms = self._clock.now_ms()
        return Snapshot(SnapshotKind.PRODUCERS, self.end_offset - 1, now_ms, entries)

    async def save(self, dump: Callable[[], tuple[Entry, ...]]) -> None:
        """Make everything durable, with what lets the next start begin here.

        What the owner knows, which `dump` gives, is written last: it must not know of batches that
        a power cut can still take away.

        Raises:
            LogFailedError: the log has failed and must recover first.
            DiskError: the snapshot could not be kept; an older one serves.
        """
        async with self._upkeep:
            if self._closed or self.end_offset == 0:
                return
            snapshot = self._snapshot(dump())
            if not await self._summarise(snapshot):
                await self.flusher.checkpoint()
                await in_thread(self._executor, partial(self._save_snapshot, snapshot))

    @property
    def is_save_due(self) -> bool:
        """Whether something was appended that the next start would have to scan."""
        return self.failure is None and self.end_offset > self.store.checkpoint.recovery_point

    async def _summarise(self, snapshot: Snapshot) -> bool:
        """Enter the log, as it is now, into the book that all logs share, if that is enough.

        The book counts from when it is saved. Raises `LogFailedError` if the disk refuses.
        """
        book = self._host.book
        if book is None or not self.is_summarisable:
            return False
        started_s = self._clock.monotonic_s()
        state = snapshot.encode()
        if len(state) > _MAX_SUMMARISED_BYTES:
            return False
        summary = self.summary(state)
        await self.flush_to(summary.checkpoint.recovery_point)
        if not self.summarised(summary):
            return False
        book.put(self.folder, summary)
        self._snapshots.size_bytes = len(state)
        self._host.on_saved(self._clock.monotonic_s() - started_s)
        return True

    def _save_snapshot(self, snapshot: Snapshot) -> None:
        started_s = self._clock.monotonic_s()
        self._snapshots.save(snapshot)
        self._host.on_saved(self._clock.monotonic_s() - started_s)

    # --- Batches of another log ------------------------------------------------------------------

    async def copy(
        self, batches: Bytes, *, gaps: bool = False, check: Callable[[], None] | None = None
    ) -> Appended:
        """`append_replica`, with what must be durable before the batches noted in a thread.

        `check` is called after that and may raise: nothing was appended then.
        """
        plan = self.plan_replica(batches, gaps=gaps)
        if plan.note is not None:
            await in_thread(self._executor, plan.note)
        if check is not None:
            check()
        return self.append_planned(plan)

    async def begin_at(self, offset: int) -> None:
        """Let a log that is empty go on at an offset.

        Raises:
            InvariantError: it is not empty.
            DiskError: the disk refused.
        """
        async with self._upkeep, self._removing:
            if self.end_offset or len(self.segments):
                raise InvariantError(f"{self.folder}: a log with records is to begin at {offset}")
            self.store.make_folder()
            begin = in_thread(self._executor, partial(self._start_at, offset))
            await self.flusher.alone(begin, lambda: None)

    # --- Removing --------------------------------------------------------------------------------

    async def move_start(self, offset: int) -> int:
        """Let the log start at `offset`, or at its end; returns where it starts now."""
        async with self._removing:
            await self._remove_before(offset)
        return self.start_offset

    async def expire(
        self, *, retention_ms: int | None, retention_bytes: int | None, until: int | None = None
    ) -> int:
        """Drop what has outlived the limits and lies before `until`; returns how many segments."""
        async with self._removing:
            if self._closed:
                return 0
            expired = self.expired_before(
                retention_ms=retention_ms, retention_bytes=retention_bytes
            )
            return await self._remove_before(expired if until is None else min(expired, until))

    def has_segments_before(self, offset: int) -> bool:
        """Whether whole segments lie before an offset."""
        return any(each.end_offset <= offset for each in self.segments.sealed)

    def next_expiry_ms(self, now_ms: int, retention_ms: int | None) -> int | None:
        """When time alone gives `expire` something to do; None when it never does."""
        return next_look_ms(self.segments, now_ms, self.config, retention_ms)

    async def _remove_before(self, offset: int) -> int:
        """Let the log start at `offset`; returns how many segments went.

        On a full disk there may be no room for saying so until something is removed: then all of
        it happens here and now.
        """
        before = self.stats.segments_deleted
        removal = self.plan_removal(offset)
        if not removal.is_due:
            return 0
        try:
            await in_thread(self._executor, removal.announce)
        except DiskFullError:
            self.delete_before(offset)
        removal.let_go()
        self.on_start_moved()
        await in_thread(self._executor, removal.remove_files)
        return self.stats.segments_deleted - before

    # --- Compaction ------------------------------------------------------------------------------

    def cleanable(self, limits: CompactionLimits, now_ms: int) -> Cleanable:
        """What compaction would do now."""
        return cleanable(self, limits, now_ms)

    def seal_if_due(self, limits: CompactionLimits) -> None:
        """Seal the active segment, if it holds so much that compaction should reach it soon."""
        if self._failure is None and is_sealing_due(self, limits):
            self._seal()

    async def compact(
        self, now_ms: int, *, until: int, tombstone_ms: int, aborted: Callable[[BatchInfo], bool]
    ) -> CompactionStats | None:
        """One pass over what lies before `until`; None when the log was closed meanwhile.

        Raises:
            DiskError, LogFailedError: the disk refused.
        """
        async with self._upkeep:
            if self._closed:
                return None
            compaction = self._compaction = Compaction(
                self, now_ms, until=until, tombstone_ms=tombstone_ms, aborted=aborted
            )
            try:
                await in_thread(self._executor, compaction.build, compaction.cancel)
            finally:
                self._compaction = None
            with suppress(LogFailedError):  # the first step speaks of it
                await self.flusher.checkpoint()  # or that step would, and stop everyone
            with closing(compaction.steps()) as steps:
                following = partial(next, steps, None)
                work = following()
                while work is not None:
                    async with self._removing:
                        step = in_thread(self._executor, work)
                        work = await self.flusher.alone(step, following)
            await in_thread(self._executor, compaction.let_go)
        return compaction.stats

    # --- Failing and ending ----------------------------------------------------------------------

    async def restore(self, rebuild: Callable[[], _T]) -> _T | None:
        """Bring a failed log back, and let its owner `rebuild` what it knows of it.

        None when there is nothing to bring back. Raises `DiskError` while the disk still refuses.
        """
        return await self.restore_by(self.recover_files, rebuild)

    async def restore_by(self, repair: Callable[[], None], rebuild: Callable[[], _T]) -> _T | None:
        """The same with another way to make the files whole, which runs in a thread."""

        def restored() -> _T:  # readers may look on meanwhile
            repair()
            return rebuild()

        async with self._upkeep, self._removing:
            await self.flusher.stop()
            if self._closed or self.failure is None:
                return None
            rebuilt = await in_thread(self._executor, restored)
            self._failure = None
            return rebuilt

    async def shut(self, dump: Callable[[], tuple[Entry, ...]]) -> None:
        """Flush, keep what the next start needs, and let go.

        Raises:
            DiskError, LogFailedError: the disk refused; the next start recovers the log.
        """
        async with self._upkeep, self._removing:
            await self.flusher.stop()
            if self.failure is not None:
                self.let_go()
                raise LogFailedError(f"it refuses writes: {self.failure}")
            if self.end_offset == 0:
                self.let_go()
                return
            snapshot = self._snapshot(dump())
            if await self._summarise(snapshot):
                self.let_go()
            else:
                await in_thread(self._executor, partial(self._close, snapshot))

    def _close(self, snapshot: Snapshot) -> None:
        self.close()
        self._snapshots.save(snapshot)

    async def remove(self) -> None:
        """Remove the log and its files; in a thread, since large files take a while."""
        async with self._upkeep, self._removing:
            await self.flusher.stop()
            await in_thread(self._executor, self.delete)
            if self._host.book is not None:
                self._host.book.forget(self.folder)
