"""The log of one partition on the disk: all that is done to it beside appending and reading.

Batches are found by time, the oldest are removed, a failed log is recovered, and the whole is
closed or deleted. Whatever is slow here happens at once; `goqueue.storage.disk_log` does the same
in threads.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from goqueue.model.errors import (
    DiskError,
    DiskFullError,
    InvariantError,
)
from goqueue.storage import lookup
from goqueue.storage.replica_log import ReplicaLog
from goqueue.storage.retention import expired_count, is_aged, newest_ms
from goqueue.storage.segments import remove_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.storage.checkpoints.checkpoint import LogSummary
    from goqueue.storage.lookup import TimestampHit
    from goqueue.storage.segment import Segment
    from goqueue.storage.store import SegmentStore


class Removal:
    """Lets a log start at an offset: `announce`, then `let_go`, then `remove_files`.

    A large file takes the kernel tens of milliseconds to remove, and a log may lose thousands at
    once. So only the step that changes the log in memory belongs to the writer; the other two wait
    for the disk and may run in any thread. In this order a crash leaves files that the checkpoint
    says are deleted, never a checkpoint that misses files.

    Until the last step is over the log may be neither recovered nor deleted, and no other removal
    may begin.
    """

    def __init__(self, store: SegmentStore, start: int) -> None:
        """Begin, on the writer's thread; `start` is not past the end of the log."""
        self._store = store
        self._start = start
        self._segments: list[Segment] = []
        if self._moves_start:
            store.make_folder()

    @property
    def _moves_start(self) -> bool:
        return self._start > self._store.checkpoint.log_start

    @property
    def _from(self) -> int:
        """Where the log starts in the end."""
        return max(self._start, self._store.checkpoint.log_start)

    @property
    def is_due(self) -> bool:
        """Whether there is anything to do."""
        oldest = next(iter(self._store.segments.sealed), None)
        return self._moves_start or (oldest is not None and oldest.end_offset <= self._from)

    def announce(self) -> None:
        """Make the new start durable; in any thread. Records below cannot be read from here on."""
        if self._moves_start:
            self._store.note_start(self._start)

    def let_go(self) -> None:
        """Take the segments below the start out of the log; on the writer's thread."""
        self._segments += self._store.drop_below(self._from)

    def remove_files(self) -> None:
        """Remove their files; in any thread, while the log goes on.

        The descriptors go here too: removed files are given back with the last of them.
        """
        remove_files(self._store.disk, self._segments)
        self._segments.clear()


class Log(ReplicaLog):
    """A partition's batches on disk."""

    # --- Summaries -------------------------------------------------------------------------------

    @property
    def is_summarisable(self) -> bool:
        """Whether a summary can take the place of a newer checkpoint in the folder."""
        return self._failure is None and self._store.is_summarisable

    def summary(self, state: bytes = b"") -> LogSummary:
        """The log as it is now, with what its owner knows of its batches.

        It counts only once everything up to now is flushed and `summarised` has accepted it.
        """
        self._ensure_writable()
        return self._store.summary(state)

    def summarised(self, summary: LogSummary) -> bool:
        """Take a summary for the newest checkpoint; false when the log has changed too much."""
        return self._store.summarised(summary)

    # --- Finding ---------------------------------------------------------------------------------

    def offset_before(self, end: int, size_bytes: int) -> int:
        """An offset from which on there are about so many bytes up to `end`, for reading backwards.

        It lies below `end`, also where there is nothing that could be read.
        """
        self._ensure_open()
        return max(lookup.offset_before(self.segments, end, size_bytes), self.start_offset)

    def find_time(self, timestamp_ms: int) -> TimestampHit | None:
        """The first record at or after a moment, by the records' own timestamps."""
        self._ensure_open()
        with self._timed():
            return lookup.find_time(
                self.segments, timestamp_ms, self.start_offset, self._store.context
            )

    def find_latest_time(self) -> TimestampHit | None:
        """The record with the highest timestamp; the first of them when there are several."""
        self._ensure_open()
        with self._timed():
            return lookup.find_latest_time(self.segments, self.start_offset, self._store.context)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Note a search by time, and how long it takes."""
        started_s = time.perf_counter()
        yield
        self.stats.note_time_lookup(time.perf_counter() - started_s)

    # --- Removing --------------------------------------------------------------------------------

    def plan_removal(self, offset: int) -> Removal:
        """What `delete_before` would do, for a caller that runs its slow steps in a thread."""
        self._ensure_open()
        return Removal(self._store, min(offset, self.end_offset))

    def delete_before(self, offset: int) -> int:
        """Let the log start at `offset`; whole segments below are removed. Returns the start."""
        removal = self.plan_removal(offset)
        try:
            removal.announce()
        except DiskFullError:
            removal.let_go()
            removal.remove_files()  # which makes room for saying so
            removal.announce()
        removal.let_go()
        removal.remove_files()
        return self.start_offset

    def expired_before(
        self, *, retention_ms: int | None = None, retention_bytes: int | None = None
    ) -> int:
        """Below which offset the segments have outlived the limits; seals one that is old enough.

        The start of the log when there are none.
        """
        self._ensure_open()
        now_ms = self._clock.now_ms()
        self._roll_if_old(now_ms, retention_ms)
        start = self.start_offset
        count = expired_count(
            self.segments,
            start,
            now_ms=now_ms,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
        )
        return max(self.segments.sealed[count - 1].end_offset, start) if count else start

    def _roll_if_old(self, now_ms: int, retention_ms: int | None) -> None:
        """Seal an active segment whose records are all due, or that has been open for too long."""
        active = self.segments.active
        if active is None or not active.size_bytes or self._failure is not None:
            return
        expired = retention_ms is not None and newest_ms(active, now_ms) < now_ms - retention_ms
        if expired or is_aged(active, now_ms, self.config):
            self._seal()

    def _seal(self) -> None:
        """Seal the active segment, and go on in another."""
        try:
            self._store.roll()
        except DiskError as error:
            self._fail(error)  # the new segment's file may be there: nothing may pass it
            raise

    # --- Ending ----------------------------------------------------------------------------------

    def recover(self) -> None:
        """Make the log whole again after a failed write or sync, and accept appends again.

        What the kernel has dropped is lost, but not its offsets: readers may have seen them, and a
        record that came in their place would be taken for one that was read.

        Raises:
            DiskError: the disk still refuses; the log stays failed and can be recovered later.
        """
        self._ensure_open()
        if self._failure is not None:
            self.recover_files()
            self._failure = None

    def close(self) -> None:
        """Flush, write the checkpoint that makes the next start instant, and let go."""
        if self._closed:
            return
        if self._failure is None:
            self.flush(checkpoint=True)
        self.let_go()

    def let_go(self) -> None:
        """End without a checkpoint: there is a summary, or the next start scans the tail."""
        self._closed = True
        self._store.let_go()

    def delete(self) -> None:
        """Remove the log and everything in its folder."""
        self.let_go()
        self._store.disk.remove_folder(self.folder)

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the log contradicts itself."""
        self._store.check_invariants()
        if self.start_offset > self.end_offset:
            raise InvariantError(f"start {self.start_offset} past the end {self.end_offset}")
