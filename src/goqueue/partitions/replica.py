"""A replica of a partition on this node: its role, how it is, its maintenance and its end.

The role says who may append: this node leads the partition, follows another node, or has no replica
at all. It comes from the cluster's metadata, never from a clock or a lease; a node on its own leads
everything in epoch 0. What readers and writers do is in `goqueue.partitions.partition`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from goqueue.metrics.registry import Metrics
from goqueue.model.errors import (
    DamagedRangeError,
    DiskError,
    FencedLeaderEpochError,
    InvariantError,
    NotLeaderError,
    TopicRestoringError,
    UnknownLeaderEpochError,
)
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.damage import DamageReports
from goqueue.partitions.due_marks import MaintenanceMarks
from goqueue.partitions.waiting import Waiters
from goqueue.records.batch import stamp, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.model.errors import GoQueueError
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.opening import OpenedLog
    from goqueue.runtime.clock import Clock
    from goqueue.storage.config import Fsync, LogConfig
    from goqueue.storage.disk_log import DiskLog
    from goqueue.storage.epochs import LeaderEpochs
    from goqueue.storage.lookup import LogView
    from goqueue.storage.recovery import RecoveryReport


class Leading(NamedTuple):
    """This node appends, and says what is committed."""

    epoch: int


class Following(NamedTuple):
    """This node copies what the leader appends; clients are sent there."""

    leader: int | None
    """The id of the node that leads; None while there is no leader."""
    epoch: int


class Absent(NamedTuple):
    """This node holds no replica."""

    leader: int | None = None
    epoch: int = -1
    """-1 while it is not known here."""


Role = Leading | Following | Absent
ABSENT: Final = Absent()
ALONE: Final = Leading(0)
"""Of a node without others, which leads everything."""


class Replica:
    """A log in a role. Log and what follows from it are its own; others ask for what they need."""

    def __init__(
        self,
        partition_id: TopicPartition,
        opened: OpenedLog,
        role: Leading | Following = ALONE,
        marks: MaintenanceMarks | None = None,
        damage: DamageReports | None = None,
    ) -> None:
        self.id = partition_id
        self.damage = damage or DamageReports(Metrics(""))
        self._marks = marks or MaintenanceMarks()
        self._is_marked = False
        self.role = role
        self.is_leading = isinstance(role, Leading)
        self.leader_epoch = role.epoch
        self._log, self._rebuild, self._state = opened
        log = self._log
        log.on_failure = self._note_failure
        log.on_start_moved = self._forget_removed
        # What others ask the log: bound here, not forwarded.
        self.folder = log.folder
        self.read, self.chunks, self.offset_before = log.read, log.chunks, log.offset_before
        self.find_time, self.find_latest_time = log.find_time, log.find_latest_time
        self.synced = log.flush_to
        self.facts, self.take_lookup_times = log.facts, log.take_lookup_times
        self.expire, self.next_expiry_ms = log.expire, log.next_expiry_ms
        self.delete_before, self.cleanable = log.move_start, log.cleanable
        self.seal_if_due = log.seal_if_due
        self.waiters = Waiters()
        self.stable_waiters = Waiters()
        """Readers of committed records: what they cannot see yet does not wake them."""
        self.is_closed = False
        self.damage.recovered(partition_id, log.recovery)
        self.report_damaged_snapshots(log.damaged_snapshots)
        self.opened_at = log.end_offset
        """Where the log ended at the start: what lies before may be what a power cut has left."""
        if log.end_offset > 0:
            self._mark()
        if log.failure is not None:
            self._note_failure()

    # --- Role ------------------------------------------------------------------------------------

    async def begin(self, epoch: int) -> bool:
        """Lead in an epoch as soon as that is possible; false when another role came meanwhile."""
        self.lead(epoch)
        return True

    async def end(self) -> None:
        """What is left to do when another node leads."""

    def lead(self, epoch: int) -> None:
        """Append from now on, in this epoch."""
        self._become(Leading(epoch))

    def follow(self, leader: int | None, epoch: int) -> None:
        """Refuse appends from now on, and let waiting readers ask the leader."""
        self._become(Following(leader, epoch))
        self._wake_all()

    def _become(self, role: Leading | Following) -> None:
        if role.epoch < self.leader_epoch:
            raise InvariantError(
                f"{self.id}: {role} comes after epoch {self.leader_epoch}, which is newer"
            )
        self.role = role
        self.is_leading = isinstance(role, Leading)
        self.leader_epoch = role.epoch

    def check_leading(self) -> None:
        """Raise `NotLeaderError` unless this node leads the partition."""
        role = self.role
        if not isinstance(role, Leading):
            raise NotLeaderError(str(self.id), role.leader, role.epoch)

    def check_leader_epoch(self, epoch: int) -> None:
        """Refuse a client whose view of the leader is not ours; -1 is a client without one."""
        if 0 <= epoch < self.leader_epoch:
            raise FencedLeaderEpochError(
                f"{self.id} is led in epoch {self.leader_epoch}, the request says {epoch}: "
                "refresh the metadata"
            )
        if epoch > self.leader_epoch:
            raise UnknownLeaderEpochError(
                f"{self.id} is led in epoch {self.leader_epoch} here, the request says {epoch}: "
                "the metadata of this broker is stale, retry"
            )

    def leader_time_ms(self) -> int | None:
        """What the clock says by which the leader stamps batches; None of the leader itself."""
        return None

    # --- How it is -------------------------------------------------------------------------------

    @property
    def failure(self) -> DiskError | None:
        """Why appends are refused until the log has recovered, if they are."""
        return self._log.failure

    @property
    def recovery(self) -> RecoveryReport:
        """What the last recovery of the log found and did; another object after each."""
        return self._log.recovery

    @property
    def size_bytes(self) -> int:
        """All readable bytes."""
        return self._log.size_bytes

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshot of what follows from the log."""
        return self._log.snapshot_bytes

    @property
    def epochs(self) -> LeaderEpochs:
        """Which leader wrote which offsets."""
        return self._log.epochs

    @property
    def fsync(self) -> Fsync:
        """When appends reach the disk, by the settings of the topic."""
        return self._log.config.fsync

    @property
    def synced_to(self) -> int:
        """Everything below is on the disk."""
        return self._log.flushed_offset

    def report_damage(self, damage: DamagedRangeError) -> None:
        """Records are lost."""
        self.damage.damaged(self.id, damage)

    def report_damaged_snapshots(self, names: Sequence[str]) -> None:
        """Snapshots beside the log were passed over."""
        self.damage.snapshots(self.id, self._log.folder, names)

    # --- Maintenance -----------------------------------------------------------------------------

    def _mark(self) -> None:
        """Let every maintenance pass look at this partition, once."""
        self._is_marked = True
        self._marks.touch(self.id)

    def unmark(self) -> None:
        """A pass looks at the partition now; the next append marks it again."""
        self._is_marked = False

    def _note_failure(self) -> None:
        self._marks.failing.add(self.id)

    def _forget_removed(self) -> None:
        self._state.forget_before(self._log.start_offset)

    async def trim(self, offset: int) -> bool:
        """Let go the segments that lie wholly before an offset; false when there are none.

        Raises:
            StorageError: the disk refused.
        """
        is_due = self._log.has_segments_before(offset)
        if is_due:
            await self._log.move_start(offset)
        return is_due

    def forget_idle(self, before_ms: int) -> None:
        """Forget the producers that were not heard of since."""
        self._state.forget_idle(before_ms)

    def configure(self, config: LogConfig) -> None:
        """Follow other settings from now on, also with what is already in the log."""
        self._log.configure(config)
        self._mark()
        if self._log.flushed_offset < self._log.end_offset:
            self._log.flush_soon()  # readers may have to wait for the disk from now on

    @property
    def is_checkpoint_due(self) -> bool:
        """Whether something was appended that the next start would have to read."""
        return self._log.is_save_due

    async def checkpoint(self) -> None:
        """Make everything durable, with what lets the next start begin here.

        Raises:
            LogFailedError: the log has failed and must recover first.
            DiskError: what follows from the log could not be kept; an older snapshot serves.
        """
        await self._log.save(self._state.dump)

    # --- Ending ----------------------------------------------------------------------------------

    async def close(self) -> None:
        """Flush, keep what the next start needs, and let every waiting reader go.

        Raises:
            DiskError, LogFailedError: the disk refused; the next start recovers the log.
        """
        self.is_closed = True
        self._wake_all()
        await self._log.shut(self._state.dump)

    def _wake_all(self) -> None:
        self.waiters.wake()
        self.stable_waiters.wake()

    async def delete(self) -> None:
        """Remove the partition and everything that was stored of it."""
        self.is_closed = True
        self._wake_all()
        await self._log.remove()


class RestorableReplica(Replica):
    """A replica that a backup is made of, or restored into: batches under the offsets they had.

    The leader stores them as it stores what a producer sends, stamped with its own epoch, so that
    followers fetch them like any others. Publishers are refused until everything is there.
    """

    _clock: Clock
    isolated: GoQueueError | None
    restoring: GoQueueError | None = None
    """Why publishers are refused, if a backup is being restored here."""

    @property
    def _files(self) -> DiskLog:
        """The log, which is on the disk where there are backups."""
        return cast("DiskLog", self._log)

    def view(self, end_offset: int, *, holds_files: bool) -> LogView:
        """The log as it is now, up to an offset, to be copied from any thread."""
        return self._files.view(end_offset, holds_files=holds_files)

    def _follow_append(self, size_bytes: int) -> None:
        """Batches were stored: let everybody who waits for them know."""
        raise NotImplementedError

    def configure(self, config: LogConfig, *, is_restoring: bool = False) -> None:
        """Follow other settings of the topic from now on."""
        super().configure(config)
        self.hold(is_restoring=is_restoring)

    def hold(self, *, is_restoring: bool) -> None:
        """Refuse publishers while a backup is being restored here, or let them in again."""
        before, self.restoring = self.restoring, None
        if is_restoring:
            self.restoring = TopicRestoringError(
                f"topic {self.id.topic!r} is being restored from a backup: try again when that is "
                "done"
            )
        if self.isolated is before:
            self.isolated = self.restoring

    async def begin_at(self, offset: int) -> None:
        """Let an empty log go on at an offset. Raises `StorageError` if the disk refuses."""
        self.check_leading()
        await self._files.begin_at(offset)
        self._follow_append(0)

    async def adopt(self, batches: bytearray) -> None:
        """Store batches of a backup under their own offsets, as a batch of this leader each.

        Raises:
            NotLeaderError: this node does not lead the partition (any more).
            OffsetGapError, BatchError: they do not continue the log, or are damaged.
            DiskError, LogFailedError: the disk refused; nothing was stored.
        """
        self.check_leading()
        epoch = self.leader_epoch
        headers = list(walk(batches))
        for position, info in headers:
            stamp(batches, position, info.base_offset, epoch)

        def check() -> None:
            if self.leader_epoch != epoch or not self.is_leading:
                raise NotLeaderError(str(self.id))

        before = self._log.end_offset
        await self._files.copy(batches, gaps=True, check=check)
        view, now_ms = memoryview(batches), self._clock.now_ms()
        for position, info in headers:
            if info.next_offset > before and self._state.follows(info):
                batch = view[position : position + info.size_bytes]
                self._state.note(info, info.base_offset, batch, now_ms)
        self._follow_append(len(batches))
