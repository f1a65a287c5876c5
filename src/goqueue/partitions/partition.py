"""One partition: its log and what follows from it, its watermarks, and who waits at it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from goqueue.metrics.registry import Metrics
from goqueue.model.errors import (
    FencedLeaderEpochError,
    InvariantError,
    NotLeaderError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from goqueue.model.ids import NO_PRODUCER_ID
from goqueue.partitions.commit import LocalCommit
from goqueue.partitions.damage import DamageReports
from goqueue.partitions.due_marks import MaintenanceMarks
from goqueue.partitions.markers import encode_marker
from goqueue.partitions.measures import Measures
from goqueue.partitions.role import ALONE, Following, Leading
from goqueue.partitions.waiting import Waiters
from goqueue.records.batch import DELIVERY, peek

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.model.errors import DamagedRangeError, DiskError
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.commit import CommitPolicy
    from goqueue.partitions.isolation import PartitionTransactions
    from goqueue.partitions.lane_index import LaneIndex
    from goqueue.partitions.markers import Marker
    from goqueue.partitions.opening import OpenedLog
    from goqueue.partitions.partition_log import PartitionLog
    from goqueue.partitions.sequences import ProducerSequences, SequencedBatch
    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Bytes
    from goqueue.storage.compaction.cleanable import CompactionStats
    from goqueue.storage.config import Fsync, LogConfig
    from goqueue.storage.epochs import LeaderEpochs
    from goqueue.storage.recovery import RecoveryReport
    from goqueue.storage.region import Region


class Isolation(IntEnum):
    """Which records a reader wants to see; the numbers are Kafka's."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Placed(NamedTuple):
    """Where a batch is: offsets from `first_offset` up to, not including, `end_offset`."""

    first_offset: int
    end_offset: int
    duplicate: bool = False
    """The batch was already there; the offsets are those of the first time."""


class Partition:
    """A replica on this node, and what it is to the cluster.

    The leader appends; a follower refuses with `NotLeaderError`. Whether this node leads is looked
    at in the same step as the append, so that nothing is appended in an epoch that is over.

    Watermarks, as everywhere `log_start <= last_stable <= high_watermark <= log_end`:

    - `log_start`: the first record that can be read; retention and record deletion move it.
    - `last_stable`: below it every transaction is decided; readers of committed records stop here.
      It moves when a transaction ends; without open transactions it is the high watermark.
    - `high_watermark`: below it every in-sync replica has the records; all readers stop here. On
      one node that is the log end, or what is on the disk where a topic asks for `fsync=always`.
    - `log_end`: the next offset to be given.
    """

    def __init__(
        self,
        partition_id: TopicPartition,
        opened: OpenedLog,
        *,
        clock: Clock,
        role: Leading | Following = ALONE,
        commit: Callable[[PartitionLog], CommitPolicy] = LocalCommit,
        measures: Measures | None = None,
        marks: MaintenanceMarks | None = None,
        damage: DamageReports | None = None,
    ) -> None:
        """Hold a log in a role; `commit` makes what says how far it is committed."""
        self.id = partition_id
        self.damage = damage or DamageReports(Metrics(""))
        self._marks = marks or MaintenanceMarks()
        self._is_marked = False
        self.role = role
        self.is_leading = isinstance(role, Leading)
        self.leader_epoch = role.epoch
        self._log, self._rebuild, self._state = opened
        log, policy = self._log, commit(self._log)
        log.on_failure = self._note_failure
        log.on_flushed = self._after_flush
        log.on_start_moved = self._forget_removed
        # What others ask the log, and what the policy answers: bound here, not forwarded.
        self.folder = log.folder
        self.read, self.chunks, self.offset_before = log.read, log.chunks, log.offset_before
        self.find_time, self.find_latest_time = log.find_time, log.find_latest_time
        self.synced = log.flush_to
        self.facts, self.take_lookup_times = log.facts, log.take_lookup_times
        self.expire, self.next_expiry_ms = log.expire, log.next_expiry_ms
        self.delete_before, self.cleanable = log.move_start, log.cleanable
        self._high_watermark = policy.high_watermark
        self.is_committed, self.committed = policy.is_committed, policy.committed
        self._measures = measures or Measures(Metrics(""))
        self.waiters = Waiters()
        self.stable_waiters = Waiters()
        """Readers of committed records: what they cannot see yet does not wake them."""
        self.is_closed = False
        self._clock = clock
        self.damage.recovered(partition_id, self._log.recovery)
        self.report_damaged_snapshots(self._log.damaged_snapshots)
        self.opened_at = self._log.end_offset
        """Where the log ended at the start: what lies before may be what a power cut has left."""
        self._visible_to = self.high_watermark
        self._stable_to = self.last_stable
        if self._log.end_offset > 0:
            self._mark()
        if self._log.failure is not None:
            self._note_failure()
        elif self._log.flushed_offset < self._log.end_offset:
            self._log.flush_soon()  # what a crash has left is synced as if it had just come

    # --- Role ------------------------------------------------------------------------------------

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

    # --- Watermarks ------------------------------------------------------------------------------

    @property
    def log_start(self) -> int:
        """The first record that can be read."""
        return self._log.start_offset

    @property
    def log_end(self) -> int:
        """The next offset to be given."""
        return self._log.end_offset

    @property
    def message_count(self) -> int:
        """Offsets that hold a message; what compaction has removed counts along."""
        return self.log_end - self.log_start - self._state.hidden.count

    @property
    def high_watermark(self) -> int:
        """Where all readers stop."""
        return self._high_watermark()

    @property
    def last_stable(self) -> int:
        """Where readers of committed records stop."""
        transactions = self._state.transactions
        if transactions.are_decided:
            return self.high_watermark
        return max(transactions.last_stable(self.high_watermark), self.log_start)

    def readable_to(self, isolation: Isolation) -> int:
        """Where this kind of reader stops."""
        return self.last_stable if isolation is Isolation.READ_COMMITTED else self.high_watermark

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

    # --- Writing ---------------------------------------------------------------------------------

    def append(self, batch: Bytes, info: BatchInfo) -> Placed:
        """Store one intact batch, once. Of no producer, it may be several, all or none of them.

        Readers see it at once, unless the topic wants it on the disk first.

        Raises:
            NotLeaderError: this node does not lead the partition; nothing was stored.
            ProducerError: the batch of an idempotent producer is out of order, or it is fenced.
            BatchError, DiskError, LogFailedError: as `Log.append` says; nothing was stored.
        """
        if not self.is_leading:
            self.check_leading()
        # Most batches are of no interest to what follows from the log.
        is_noted = info.producer_id != NO_PRODUCER_ID or bool(info.attributes & DELIVERY)
        if is_noted and (known := self._state.check(info)) is not None:
            return Placed(known.first_offset, known.end_offset, duplicate=True)
        appended = self._log.append(batch, self.leader_epoch, checked=True)
        if is_noted:
            placed = info._replace(base_offset=appended.first_offset)
            self._state.note(placed, batch, self._clock.now_ms())
        if not self._is_marked:
            self._mark()
        self._log.flush_soon()
        self._show(info.size_bytes)
        return Placed(appended.first_offset, appended.end_offset)

    def append_marker(
        self, marker: Marker, producer_id: int, epoch: int, coordinator_epoch: int
    ) -> Placed | None:
        """End the transaction that a producer has open here; None when it has none.

        So a marker that was written before a crash is not written again: the log itself says
        whether there is still something to end.

        Raises:
            NotLeaderError, DiskError, LogFailedError: nothing was stored.
        """
        self.check_leading()
        if self.transactions.first_of(producer_id) is None:
            return None
        now_ms = self._clock.now_ms()
        newest = max(epoch, self.sequences.epoch_of(producer_id))
        batch = encode_marker(marker, producer_id, newest, coordinator_epoch, now_ms)
        info = peek(batch)
        appended = self._log.append(batch, self.leader_epoch, checked=True)
        self._state.note(info._replace(base_offset=appended.first_offset), batch, now_ms)
        self._mark()
        self._log.flush_soon()
        self._show(info.size_bytes)
        return Placed(appended.first_offset, appended.end_offset)

    def _after_flush(self) -> None:
        """Let waiting readers look: nobody has counted how many bytes a flush has shown them."""
        self._show(None)

    def _show(self, size_bytes: int | None) -> None:
        """Tell waiting readers of what they can see since the last time.

        Without a size they look for themselves, and so do readers of committed records when the
        end of a transaction shows them more than what was appended.
        """
        visible_to = self._high_watermark()
        stable_to = visible_to if self._state.transactions.are_decided else self.last_stable
        all_was_stable = self._stable_to == self._visible_to
        if visible_to > self._visible_to:
            self._visible_to = visible_to
            self.waiters.tell(size_bytes)
        if stable_to > self._stable_to:
            self._stable_to = stable_to
            all_is_stable = all_was_stable and stable_to == visible_to
            self.stable_waiters.tell(size_bytes if all_is_stable else None)

    def waiters_for(self, isolation: Isolation) -> Waiters:
        """Where this kind of reader waits for more."""
        return self.stable_waiters if isolation is Isolation.READ_COMMITTED else self.waiters

    # --- Reading ---------------------------------------------------------------------------------

    def find(self, offset: int, max_bytes: int, isolation: Isolation) -> Region | None:
        """The batches from `offset` on that this reader may see; None when there are none yet.

        Raises:
            NotLeaderError: this node does not lead the partition any more.
            OffsetOutOfRangeError: the offset is not in the log.
            DamagedRangeError: the records there are damaged.
        """
        if not self.is_leading:
            self.check_leading()
        if not self.log_start <= offset <= self.log_end:
            raise OffsetOutOfRangeError(offset, self.log_start, self.log_end)
        started_s = self._clock.monotonic_s()
        region = self._log.read(offset, max_bytes, until=self.readable_to(isolation))
        self._measures.offset_lookup_latency.observe(self._clock.monotonic_s() - started_s)
        return region

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

    # --- What follows from the log ---------------------------------------------------------------

    @property
    def sequences(self) -> ProducerSequences:
        """The idempotent producers that have written here."""
        return self._state.sequences

    @property
    def transactions(self) -> PartitionTransactions:
        """The open and the aborted transactions in the log."""
        return self._state.transactions

    @property
    def lanes(self) -> LaneIndex:
        """Which messages are more or less urgent than others."""
        return self._state.lanes

    def earlier_append(self, info: BatchInfo) -> SequencedBatch | None:
        """Where the batch of an idempotent producer is already; None when it may be appended.

        Raises:
            ProducerError: it may not be; see `append`.
        """
        return self._state.check(info)

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
        self._state.forget_before(self.log_start)

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

    async def compact(
        self, now_ms: int, *, until: int, tombstone_ms: int
    ) -> CompactionStats | None:
        """Compact what is decided before `until`; None when the partition was closed meanwhile.

        Raises:
            DiskError, LogFailedError: the disk refused.
        """
        return await self._log.compact(
            now_ms,
            until=min(until, self.last_stable),
            tombstone_ms=tombstone_ms,
            aborted=self.transactions.frozen(),
        )

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

    async def recover(self) -> None:
        """Bring a failed log back. Raises `DiskError` while the disk still refuses."""
        state = await self._log.restore(self._rebuild)
        if state is not None:
            self._state = state
            self.report_damaged_snapshots(self._log.damaged_snapshots)
            self._mark()
            self._after_flush()

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

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the watermarks or what lies under them contradict."""
        self._log.check_invariants()
        self._state.check_invariants()
        if not self.log_start <= self.last_stable <= self.high_watermark <= self.log_end:
            raise InvariantError(f"{self.id}: watermarks out of order")
