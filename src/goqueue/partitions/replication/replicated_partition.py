"""A partition that several nodes hold, in either role.

As a follower it copies the leader's bytes, is cut where the two part, and follows the leader's
start and high watermark. Who tells it to do so are the other modules here; this one says what
happens to the log and to what follows from it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from goqueue.model.errors import DamagedRangeError, InvariantError, StorageError
from goqueue.partitions.replication.committed_partition import CommittedPartition
from goqueue.records.batch import walk

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.partitions.log_state import LogState
    from goqueue.runtime.disk import Bytes

_log = logging.getLogger(__name__)


class ReplicatedPartition(CommittedPartition):
    """A replica among others. At one time, one thing is copied, cut or noted."""

    on_failed: Callable[[], Awaitable[bool]] | None = None
    """Asked before a failed log is recovered: gives up the leadership and leaves the in-sync set.
    True when other replicas have what is committed; False of the only one, which then keeps what it
    has."""
    distrusted_in: int | None = None
    """The epoch in which stored records were found damaged: until the log is cut there, nothing is
    fetched, for that would say that everything before is here."""
    _is_given_up = False
    """Nobody counts on this replica since its log failed: it is cut, however often that is tried.
    Recovered as the only copy is, a log that was cut halfway would have a hole."""
    _wanted_start = 0
    _moving_start: asyncio.Task[None] | None = None

    # --- Following -------------------------------------------------------------------------------

    def append_replica(self, batches: Bytes) -> None:
        """Store what the leader has sent, as it is; it may wait for the disk, see `copy`.

        Raises:
            OffsetGapError: the batches do not continue this log.
            BatchError: one is damaged.
            DiskError, LogFailedError: the disk refused.
            InvariantError: this node leads the partition.
        """
        self._check_following()
        if self._turn.locked():
            raise InvariantError(f"{self.id}: batches came while the log was being changed")
        before = self._log.end_offset
        self._replica.append_replica(batches, gaps=True)
        self._copied(batches, before)

    async def copy(self, batches: Bytes) -> None:
        """`append_replica` without blocking: a leader's first batches are announced in a thread.

        Raises like `append_replica`, and `NotLeaderError` when the role has changed meanwhile;
        whoever is cancelled has perhaps stored them.
        """
        role = self.role
        async with self._turn:
            self._check_following()
            if self.role is not role:
                self.check_leading()  # names the new leader
            before = self._log.end_offset
            await self._replica.copy(batches, gaps=True)
            self._copied(batches, before)

    def _check_following(self) -> None:
        if self.is_leading:
            raise InvariantError(f"{self.id}: what followers do was asked of the leader")

    def _copied(self, batches: Bytes, before: int) -> None:
        """Let what follows from the log follow what was stored past an offset."""
        state, now_ms = self._state, self._clock.now_ms()
        view = memoryview(batches)
        for at, info in walk(batches):
            if info.next_offset > before and state.follows(info):
                state.note(info, info.base_offset, view[at : at + info.size_bytes], now_ms)
        if not self._is_marked:
            self._mark()
        self._log.flush_soon()

    async def truncate(self, to: int) -> int:
        """Cut what the leader does not have; returns where the log ends now.

        Nothing may be copied meanwhile. The snapshots of every kind that know what goes are removed
        first, and what follows from the log is built again.

        Raises:
            StorageError: the disk refused.
        """
        async with self._turn:
            self._check_following()
            self._is_cut(await self._replica.truncate(to, self._rebuild))
        return self.log_end

    async def restart_at(self, offset: int) -> None:
        """Let go everything, and go on empty where the leader's log starts. Otherwise `truncate`.

        What the leader has removed was committed: the high watermark is there, too.
        """
        async with self._turn:
            self._check_following()
            self._is_cut(await self._replica.restart(offset, self._rebuild))

    def _is_cut(self, state: LogState | None) -> None:
        if state is None:
            return
        self._state = state
        self._tail.clear()
        self._commit.cut()
        self._visible_to = self.high_watermark
        self._stable_to = self.last_stable
        self.report_damaged_snapshots(self._log.damaged_snapshots)
        self._mark()
        self.on_cut(self)

    def follow_start(self, log_start: int) -> None:
        """Start where the leader's log starts, soon; files are removed in a thread.

        One removal at a time is under way; a later start that comes meanwhile follows it.
        """
        self._wanted_start = max(self._wanted_start, log_start)
        if self._wanted_start > self.log_start and self._moving_start is None:
            self._moving_start = asyncio.get_running_loop().create_task(self._move_start())

    async def _move_start(self) -> None:
        try:
            while not self.is_closed and not self.is_leading:
                wanted = min(self._wanted_start, self.log_end)
                if wanted <= self.log_start:
                    return
                await self._log.move_start(wanted)
                self._commit.cut()  # it starts later: that was committed
        except StorageError as error:
            _log.warning("%s: records that the leader removed stay: %s", self.id, error)
        finally:
            self._moving_start = None

    @property
    def is_fetchable(self) -> bool:
        """Whether a follower may go on from the end of this log."""
        return self._log.failure is None and self.distrusted_in is None

    async def is_damaged_at(self, offset: int) -> bool:
        """Whether the stored records at an offset cannot be read; looked at in a thread."""
        try:
            region = self._log.read(offset, 1) if offset >= self.log_start else None
            if region is not None:
                await asyncio.to_thread(region.load)
        except DamagedRangeError:
            return True
        return False

    async def recover(self) -> None:
        """Bring a failed log back: by what others have, or alone if there are none.

        Raises `GoQueueError` while the disk still refuses, or the leadership cannot be given up.
        """
        if not self._is_given_up:
            self._is_given_up = self.on_failed is not None and await self.on_failed()
        if not self._is_given_up:
            await super().recover()
            self.admitted()
            return
        async with self._turn:
            self._check_following()
            self._is_cut(await self._replica.discard_unsynced(self._rebuild))
        self._is_given_up = False
        self._after_flush()
