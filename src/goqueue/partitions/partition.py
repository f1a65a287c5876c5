"""One partition: its log and what follows from it, its watermarks, and who waits at it."""

from __future__ import annotations

import asyncio
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.metrics.registry import Metrics
from goqueue.model.errors import (
    DiskFullError,
    FencedLeaderEpochError,
    InvariantError,
    LogFailedError,
    NotLeaderError,
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
)
from goqueue.partitions.damage import DamageReports
from goqueue.partitions.due_marks import MaintenanceMarks
from goqueue.partitions.markers import encode_marker
from goqueue.partitions.measures import Measures
from goqueue.partitions.partition_log import rebuilt_state
from goqueue.partitions.role import ALONE, Following, Leading
from goqueue.partitions.waiting import Waiters
from goqueue.records.batch import peek
from goqueue.runtime.tasks import in_thread
from goqueue.storage.config import Fsync
from goqueue.storage.flush import Flusher
from goqueue.storage.snapshot import Snapshot
from goqueue.storage.snapshot_kinds import SnapshotKind

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.isolation import PartitionTransactions
    from goqueue.partitions.lane_index import LaneIndex
    from goqueue.partitions.markers import Marker
    from goqueue.partitions.partition_log import PartitionLog
    from goqueue.partitions.sequences import ProducerSequences
    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Bytes
    from goqueue.storage.checkpoints.book import CheckpointBook
    from goqueue.storage.config import LogConfig
    from goqueue.storage.flush_schedule import FlushSchedule
    from goqueue.storage.region import Region

_MAX_SUMMARISED_BYTES: Final = 4096
"""What follows from a log goes into its summary up to this size; more gets a file of its own."""


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
        stored: PartitionLog,
        *,
        clock: Clock,
        executor: Executor,
        role: Leading | Following = ALONE,
        schedule: FlushSchedule | None = None,
        book: CheckpointBook | None = None,
        measures: Measures | None = None,
        marks: MaintenanceMarks | None = None,
        damage: DamageReports | None = None,
    ) -> None:
        """Hold the log in `stored` in a role; flushes and summaries may be shared with others."""
        self.id = partition_id
        self.damage = damage or DamageReports(Metrics(""))
        self._marks = marks or MaintenanceMarks()
        self._is_marked = False
        self.role = role
        self.is_leading = isinstance(role, Leading)
        self.leader_epoch = role.epoch
        self.log, self.state, self._snapshots = stored
        self.log.on_failure = self._note_failure
        self._book = book
        self._measures = measures or Measures(Metrics(""))
        self.flusher = Flusher(
            self.log, executor, self._after_flush, self._measures.synced, schedule
        )
        self.waiters = Waiters()
        self.stable_waiters = Waiters()
        """Readers of committed records: what they cannot see yet does not wake them."""
        self.upkeep = asyncio.Lock()
        """Held by whatever works on the files for longer than a moment: one thing at a time, and
        the partition is neither closed nor deleted under it."""
        self._removing = asyncio.Lock()
        """Held while segments are removed: recovery must not meet files that are on their way out,
        and of two removals the later start counts."""
        self.is_closed = False
        self._clock = clock
        self._executor = executor
        self.damage.recovered(partition_id, self.log.recovery)
        self.damage.snapshots(partition_id, self.log.folder, self._snapshots.damaged)
        self.opened_at = self.log.end_offset
        """Where the log ended at the start: what lies before may be what a power cut has left."""
        self._visible_to = self.high_watermark
        self._stable_to = self.last_stable
        if self.log.end_offset > 0:
            self._mark()
        if self.log.failure is not None:
            self._note_failure()
        elif self.log.flushed_offset < self.log.end_offset:
            self.flusher.appended()  # what a crash has left is synced as if it had just come

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
        return self.log.start_offset

    @property
    def log_end(self) -> int:
        """The next offset to be given."""
        return self.log.end_offset

    @property
    def message_count(self) -> int:
        """Offsets that hold a message; what compaction has removed counts along."""
        return self.log_end - self.log_start - self.state.hidden.count

    @property
    def high_watermark(self) -> int:
        """Where all readers stop."""
        if self.log.config.fsync is Fsync.ALWAYS:
            return max(self.log.flushed_offset, self.log_start)
        return self.log.end_offset

    @property
    def last_stable(self) -> int:
        """Where readers of committed records stop."""
        transactions = self.state.transactions
        if transactions.are_decided:
            return self.high_watermark
        return max(transactions.last_stable(self.high_watermark), self.log_start)

    def readable_to(self, isolation: Isolation) -> int:
        """Where this kind of reader stops."""
        return self.last_stable if isolation is Isolation.READ_COMMITTED else self.high_watermark

    # --- Writing ---------------------------------------------------------------------------------

    def append(self, batch: Bytes, info: BatchInfo) -> Placed:
        """Store one intact batch, once.

        Readers see it at once, unless the topic wants it on the disk first.

        Raises:
            NotLeaderError: this node does not lead the partition; nothing was stored.
            ProducerError: the batch of an idempotent producer is out of order, or it is fenced.
            BatchError, DiskError, LogFailedError: as `Log.append` says; nothing was stored.
        """
        if not self.is_leading:
            self.check_leading()
        follows = self.state.follows(info)
        if follows and (known := self.state.check(info)) is not None:
            return Placed(known.first_offset, known.end_offset, duplicate=True)
        appended = self.log.append(batch, self.leader_epoch, checked=True)
        if follows:
            placed = info._replace(base_offset=appended.first_offset)
            self.state.note(placed, batch, self._clock.now_ms())
        if not self._is_marked:
            self._mark()
        self.flusher.appended()
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
        appended = self.log.append(batch, self.leader_epoch, checked=True)
        self.state.note(info._replace(base_offset=appended.first_offset), batch, now_ms)
        self._mark()
        self.flusher.appended()
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
        visible_to, stable_to = self.high_watermark, self.last_stable
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

    def is_durable(self, placed: Placed) -> bool:
        """Whether an append is as durable as the topic's policy promises, without waiting."""
        end = placed.end_offset
        return self.log.flushed_offset >= end or not self.flusher.promises_sync(end)

    async def durable(self, placed: Placed) -> None:
        """Return when an append is as durable as the topic's policy promises."""
        await self.flusher.durable(placed.end_offset)

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
        region = self.log.read(offset, max_bytes, until=self.readable_to(isolation))
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
                "this broker is behind, try again"
            )

    # --- What follows from the log ---------------------------------------------------------------

    @property
    def sequences(self) -> ProducerSequences:
        """The idempotent producers that have written here."""
        return self.state.sequences

    @property
    def transactions(self) -> PartitionTransactions:
        """The open and the aborted transactions in the log."""
        return self.state.transactions

    @property
    def lanes(self) -> LaneIndex:
        """Which messages are more or less urgent than others."""
        return self.state.lanes

    def _state_now(self) -> Snapshot:
        last_offset, now_ms = self.log.end_offset - 1, self._clock.now_ms()
        return Snapshot(SnapshotKind.PRODUCERS, last_offset, now_ms, self.state.dump())

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

    async def delete_before(self, offset: int) -> int:
        """Let the log start at `offset`. Returns where it starts now. Raises like the log."""
        async with self._removing:
            await self._remove_before(offset)
        return self.log_start

    async def expire(self, *, retention_ms: int | None, retention_bytes: int | None) -> int:
        """Drop the segments that have outlived the limits; returns how many."""
        async with self._removing:
            if self.is_closed:
                return 0
            expired = self.log.expired_before(
                retention_ms=retention_ms, retention_bytes=retention_bytes
            )
            return await self._remove_before(expired)

    async def _remove_before(self, offset: int) -> int:
        """Let the log start at `offset`; returns how many segments went.

        On a full disk there may be no room for saying so until something is removed: then all of
        it happens here and now.
        """
        before = self.log.stats.segments_deleted
        removal = self.log.plan_removal(offset)
        if not removal.is_due:
            return 0
        try:
            await in_thread(self._executor, removal.announce)
        except DiskFullError:
            self.log.delete_before(offset)
        removal.let_go()
        self.state.forget_before(self.log_start)
        await in_thread(self._executor, removal.remove_files)
        return self.log.stats.segments_deleted - before

    def configure(self, config: LogConfig) -> None:
        """Follow other settings from now on, also with what is already in the log."""
        self.log.configure(config)
        self._mark()
        if self.log.flushed_offset < self.log.end_offset:
            self.flusher.appended()  # readers may have to wait for the disk from now on

    async def checkpoint(self) -> None:
        """Make everything durable, with what lets the next start begin here.

        What follows from the log is written last: a snapshot must not know of batches that a power
        cut can still take away.

        Raises:
            LogFailedError: the log has failed and must recover first.
            DiskError: the snapshot could not be kept; an older snapshot serves.
        """
        async with self.upkeep:
            if self.is_closed or self.log.end_offset == 0:
                return
            snapshot = self._state_now()
            if not await self._summarise(snapshot):
                await self.flusher.checkpoint()
                await in_thread(self._executor, partial(self._save_snapshot, snapshot))

    async def _summarise(self, snapshot: Snapshot) -> bool:
        """Enter the log, as it is now, into the book that all logs share, if that is enough.

        The book counts from when it is saved. Raises `LogFailedError` if the disk refuses.
        """
        if self._book is None or not self.log.is_summarisable:
            return False
        started_s = self._clock.monotonic_s()
        state = snapshot.encode()
        if len(state) > _MAX_SUMMARISED_BYTES:
            return False
        summary = self.log.summary(state)
        await self.flusher.flush_to(summary.checkpoint.recovery_point)
        if not self.log.summarised(summary):
            return False
        self._book.put(self.log.folder, summary)
        self._snapshots.size_bytes = len(state)
        took_s = self._clock.monotonic_s() - started_s
        self._measures.snapshot_saved(SnapshotKind.PRODUCERS.label, took_s)
        return True

    def _save_snapshot(self, snapshot: Snapshot) -> None:
        started_s = self._clock.monotonic_s()
        self._snapshots.save(snapshot)
        took_s = self._clock.monotonic_s() - started_s
        self._measures.snapshot_saved(SnapshotKind.PRODUCERS.label, took_s)

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshot of what follows from the log."""
        return self._snapshots.size_bytes

    async def recover(self) -> None:
        """Bring a failed log back. Raises `DiskError` while the disk still refuses."""
        async with self.upkeep, self._removing:
            await self.flusher.stop()
            if self.is_closed or self.log.failure is None:
                return
            self.log.recover()
            on_damage = partial(self.damage.damaged, self.id)
            self.state = rebuilt_state(self.log, self._snapshots, self._clock, on_damage)
            self.damage.snapshots(self.id, self.log.folder, self._snapshots.damaged)
            self._mark()
            self._after_flush()

    # --- Ending ----------------------------------------------------------------------------------

    async def close(self) -> None:
        """Flush, keep what the next start needs, and let every waiting reader go.

        Raises:
            DiskError, LogFailedError: the disk refused; the next start recovers the log.
        """
        async with self.upkeep, self._removing:
            self.is_closed = True
            self._wake_all()
            await self.flusher.stop()
            if self.log.failure is not None:
                self.log.let_go()
                raise LogFailedError(f"it refuses writes: {self.log.failure}")
            if self.log.end_offset == 0:
                self.log.let_go()
                return
            snapshot = self._state_now()
            if await self._summarise(snapshot):
                self.log.let_go()
            else:
                await in_thread(self._executor, partial(self._close, snapshot))

    def _close(self, snapshot: Snapshot) -> None:
        self.log.close()
        self._snapshots.save(snapshot)

    def _wake_all(self) -> None:
        self.waiters.wake()
        self.stable_waiters.wake()

    async def delete(self) -> None:
        """Remove the partition and its files; in a thread, since large files take a while."""
        self.is_closed = True
        self._wake_all()
        async with self.upkeep, self._removing:
            await self.flusher.stop()
            await in_thread(self._executor, self.log.delete)
            if self._book is not None:
                self._book.forget(self.log.folder)

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the watermarks or what lies under them contradict."""
        self.log.check_invariants()
        self.state.check_invariants()
        if not self.log_start <= self.last_stable <= self.high_watermark <= self.log_end:
            raise InvariantError(f"{self.id}: watermarks out of order")
