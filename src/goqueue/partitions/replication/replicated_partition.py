"""A partition that several nodes hold, in either role.

As a follower it copies the leader's bytes, is cut where the two part, and follows the leader's
start and high watermark. Who tells it to do so are the other modules here; this one says what
happens to the log and to what follows from it.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from enum import Enum
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import (
    DamagedRangeError,
    InvariantError,
    LeadershipLostError,
    StorageError,
)
from goqueue.model.ids import NO_PRODUCER_ID
from goqueue.model.internal_topics import is_internal_topic
from goqueue.partitions.replication.committed_partition import CommittedPartition
from goqueue.records.batch import LENGTH_PREFIX_BYTES, peek

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from goqueue.partitions.log_state import LogState
    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.disk import Bytes
    from goqueue.storage.patching import DamagedStretch

_log = logging.getLogger(__name__)
_FOLLOWED: Final = struct.Struct(">8xi9xh20xq")
"""Of the header of a batch: its length, its attributes and its producer."""


class Standing(Enum):
    """Who counts on a replica whose log has failed."""

    GIVEN_UP = "given up"
    """Nobody: it is cut to what is on its disk, and fetched again."""
    NEEDED = "needed"
    """Others have what is committed, and none of them can lead now. It goes on if the disk has
    dropped nothing, and otherwise waits for them: with a hole it would lead without what they have.
    """
    ALONE = "alone"
    """No other has what is committed: it keeps what it can."""


class ReplicatedPartition(CommittedPartition):
    """A replica among others. At one time, one thing is copied, cut or noted."""

    on_failed: Callable[[], Awaitable[Standing]] | None = None
    """Asked before a failed log is recovered: gives up the leadership and leaves the in-sync set,
    where others have what is committed."""
    distrusted_in: int | None = None
    """The epoch in which stored records were found damaged: until the log is cut there, nothing is
    fetched, for that would say that everything before is here."""
    _is_given_up = False
    """Nobody counts on this replica since its log failed: it is cut, however often that is tried.
    Recovered as the only copy is, a log that was cut halfway would have a hole."""
    is_current = False
    """What is copied next was appended by the leader since this replica had everything: a moment
    ago."""
    _heard: tuple[int, float] | None = None
    """An epoch, and by how much its leader's stamps are ahead of this node's monotonic clock."""
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
        state, view = self._state, memoryview(batches)
        at, last, end = 0, 0, len(view)
        while at < end:
            last = at
            size, attributes, producer_id = _FOLLOWED.unpack_from(view, at)
            after = at + LENGTH_PREFIX_BYTES + size
            # Most batches are of no interest to anybody, and not worth a look at their headers.
            if producer_id != NO_PRODUCER_ID or attributes:
                info = peek(view, at)
                if info.next_offset > before and state.follows(info):
                    now_ms = self._clock.now_ms()
                    state.note(info, info.base_offset, view[at:after], now_ms)
            at = after
        if self.is_current and is_internal_topic(self.id.topic):
            self._hear(peek(view, last))
        if not self._is_marked:
            self._mark()
        self._log.flush_soon()

    def _hear(self, info: BatchInfo) -> None:
        """Note what time it was at the leader; the batch that came fastest counts."""
        ahead_ms = info.max_timestamp - self._clock.monotonic_s() * 1000
        if self._heard is not None and self._heard[0] == self.leader_epoch:
            ahead_ms = max(ahead_ms, self._heard[1])
        self._heard = self.leader_epoch, ahead_ms

    def leader_time_ms(self) -> int | None:
        """What the leader would stamp a batch with now, by those that came from it."""
        if self._heard is None:
            return None
        return round(self._clock.monotonic_s() * 1000 + self._heard[1])

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
        self._commit.fail_all(
            LeadershipLostError(f"{self.id}: the log was cut: what was appended last may be gone")
        )
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
        is_trusted = self.distrusted_in is None and not self._replica.damaged
        return is_trusted and self._log.failure is None

    @property
    def damaged(self) -> Sequence[int]:
        """Where a start has found batches damaged that others may have, the first first."""
        return self._replica.damaged

    async def settle_patched(self) -> None:
        """Follow from what was patched: note what is still damaged. Raises `StorageError`."""
        async with self._turn:
            self._is_cut(await self._replica.settle_patched(self._rebuild))

    async def forgive(self) -> None:
        """Let what is damaged be: no other replica will ever have it. Raises `DiskError`."""
        await self._replica.forgive()

    async def is_damaged_at(self, offset: int) -> bool:
        """Whether the stored records at an offset cannot be read; looked at in a thread."""
        try:
            region = self._log.read(offset, 1) if offset >= self.log_start else None
            if region is not None:
                await asyncio.to_thread(region.load)
        except DamagedRangeError:
            return True
        return False

    async def patch(
        self, offset: int, read: Callable[[DamagedStretch], Awaitable[Bytes]]
    ) -> DamagedStretch | None:
        """Put what another replica has where the records at an offset are damaged.

        None when nothing is damaged there that could be patched. Nothing else of the log changes,
        and nobody counts on less of it meanwhile: who reads the damage is refused as before.

        Raises:
            GoQueueError: the other has something else, or nothing, or the disk refused.
        """
        stretch = await asyncio.to_thread(self._replica.damaged_stretch, offset)
        if stretch is not None:
            batches = await read(stretch)
            async with self._turn:
                if not self.is_closed:
                    await asyncio.to_thread(self._replica.patch, stretch, batches)
        return stretch

    async def recover(self) -> None:
        """Bring a failed log back: by what others have, or alone if there are none.

        Raises `GoQueueError` while the disk still refuses, or the leadership cannot be given up.
        """
        if not self._is_given_up:
            standing = Standing.ALONE if self.on_failed is None else await self.on_failed()
            self._is_given_up = standing is Standing.GIVEN_UP
            if standing is Standing.ALONE:
                await super().recover()
            elif standing is Standing.NEEDED:
                self._restored(await self._replica.restore_whole(self._rebuild))
        if not self._is_given_up:
            self.admitted()
            return
        async with self._turn:
            self._check_following()
            self._is_cut(await self._replica.discard_unsynced(self._rebuild))
        self._is_given_up = False
        self._after_flush()
