"""One partition: its log and what follows from it, its watermarks, and who waits at it."""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.metrics.registry import Metrics
from goqueue.model.errors import (
    FencedCoordinatorError,
    GoQueueError,
    InvariantError,
    OffsetOutOfRangeError,
)
from goqueue.model.ids import NO_PRODUCER_ID
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.commit import CommitPolicy, LocalCommit
from goqueue.partitions.markers import Marker, encode_marker
from goqueue.partitions.measures import Measures
from goqueue.partitions.replica import ALONE, Following, Leading, RestorableReplica
from goqueue.records.batch import DELIVERY, BatchInfo, peek

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.damage import DamageReports
    from goqueue.partitions.due_marks import MaintenanceMarks
    from goqueue.partitions.isolation import PartitionTransactions
    from goqueue.partitions.lane_index import LaneIndex
    from goqueue.partitions.log_state import LogState
    from goqueue.partitions.opening import OpenedLog
    from goqueue.partitions.partition_log import PartitionLog
    from goqueue.partitions.sequences import ProducerSequences, SequencedBatch
    from goqueue.partitions.waiting import Waiters
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Bytes
    from goqueue.storage.compaction.cleanable import CompactionStats
    from goqueue.storage.region import Readable


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


_placed: Final[Callable[[tuple[int, int, bool]], Placed]] = partial(tuple.__new__, Placed)
"""`Placed` of a tuple, in a third of the time."""


class Partition(RestorableReplica):
    """What readers and writers use of a replica: its watermarks, appends, reads, and who waits.

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
        super().__init__(partition_id, opened, role, marks, damage)
        self.not_enough: GoQueueError | None = None
        """Why publishers that want every in-sync replica to have their batches are refused, if they
        are: too few are in sync."""
        self.isolated: GoQueueError | None = None
        """Why every append is refused, if it is: this node hears nothing of the others, or another
        one is about to lead."""
        self.verifying: dict[int, object] = {}
        """Producers whose coordinator is asked, in a cluster, whether a transaction of theirs may
        write here. A marker ends that: what was asked is of a transaction that is over."""
        self._clock = clock
        self._measures = measures or Measures(Metrics(""))
        policy = commit(self._log)
        self._high_watermark = policy.high_watermark
        self.is_committed, self.committed = policy.is_committed, policy.committed
        self.acknowledged = policy.acknowledged
        self.is_persisted, self.persisted = policy.is_persisted, policy.persisted
        self._log.on_flushed = self._after_flush
        self._visible_to = self.high_watermark
        self._stable_to = self.last_stable
        if self._log.failure is None and self._log.flushed_offset < self._log.end_offset:
            self._log.flush_soon()  # what a crash has left is synced as if it had just come

    # --- Watermarks ------------------------------------------------------------------------------

    @property
    def log_start(self) -> int:
        """The first record that can be read."""
        return self._log.start_offset

    @property
    def gaps_below(self) -> int:
        """Compaction may have removed batches that end below."""
        return self._log.gaps_below

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
        known = self.earlier_append(info)
        if known is not None:
            return Placed(known.first_offset, known.end_offset, duplicate=True)
        return self.append_new(batch, info, self._clock.now_ms())

    def append_new(self, batch: Bytes, info: BatchInfo, now_ms: int) -> Placed:
        """`append` in the step in which `is_leading` and `expects` have let a batch pass."""
        first = self._log.append_batch(batch, info, self.leader_epoch)
        _, _, _, _, _, attributes, last_delta, _, _, producer_id, _, _, _ = info
        # Most batches are of no interest to what follows from the log.
        if producer_id != NO_PRODUCER_ID or attributes & DELIVERY:
            self._state.note(info, first, batch, now_ms)
        self._follow_append(len(batch))
        return _placed((first, first + last_delta + 1, False))

    def append_all(self, batches: Bytes) -> Placed:
        """Store intact batches of no producer that say nothing of their delivery, all or none.

        Raises:
            NotLeaderError, BatchError, DiskError, LogFailedError: nothing was stored.
        """
        self.check_leading()
        appended = self._log.append(batches, self.leader_epoch, checked=True)
        self._follow_append(len(batches))
        return Placed(*appended)

    def _follow_append(self, size_bytes: int) -> None:
        if not self._is_marked:
            self._mark()
        self._log.flush_soon()
        self._show(size_bytes)

    def append_marker(
        self, marker: Marker, producer_id: int, epoch: int, coordinator_epoch: int
    ) -> Placed | None:
        """End the transaction that a producer has open here; None when it has none.

        So a marker that was written before a crash is not written again: the log itself says
        whether there is still something to end. Where there is nothing, the first marker of a
        coordinator that has taken over is written all the same: with it in the log, a marker of
        the one before that is still on its way comes too late.

        Raises:
            FencedCoordinatorError: a later coordinator has ended a transaction of the producer.
            NotLeaderError, DiskError, LogFailedError: nothing was stored.
        """
        self.check_leading()
        newest_coordinator = self.sequences.coordinator_epoch_of(producer_id)
        if coordinator_epoch < newest_coordinator:
            raise FencedCoordinatorError(
                f"{self.id}: a marker for producer {producer_id} comes from coordinator epoch "
                f"{coordinator_epoch}, and epoch {newest_coordinator} has taken over"
            )
        self.verifying.pop(producer_id, None)
        is_open = self.transactions.first_of(producer_id) is not None
        if not is_open and coordinator_epoch <= max(newest_coordinator, 0):
            return None
        now_ms = self._clock.now_ms()
        newest = max(epoch, self.sequences.epoch_of(producer_id))
        batch = encode_marker(marker, producer_id, newest, coordinator_epoch, now_ms)
        return self.append_new(batch, peek(batch), now_ms)

    def fence_producer(self, producer_id: int, epoch: int) -> None:
        """Refuse what an idempotent producer has sent in earlier epochs, from now on and for good.

        The log says so by a marker, which readers do not see and every later leader finds.

        Raises:
            NotLeaderError, DiskError, LogFailedError: nothing was stored.
        """
        self.check_leading()
        if self.sequences.epoch_of(producer_id) < epoch:
            now_ms = self._clock.now_ms()
            batch = encode_marker(Marker.ABORT, producer_id, epoch, 0, now_ms)
            self.append_new(batch, peek(batch), now_ms)

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
            if self.waiters:
                self.waiters.tell(size_bytes)
        if stable_to > self._stable_to:
            self._stable_to = stable_to
            if self.stable_waiters:
                all_is_stable = all_was_stable and stable_to == visible_to
                self.stable_waiters.tell(size_bytes if all_is_stable else None)

    def waiters_for(self, isolation: Isolation) -> Waiters:
        """Where this kind of reader waits for more."""
        return self.stable_waiters if isolation is Isolation.READ_COMMITTED else self.waiters

    # --- Reading ---------------------------------------------------------------------------------

    def find(self, offset: int, max_bytes: int, isolation: Isolation) -> Readable | None:
        """The batches from `offset` on that this reader may see; None when there are none yet.

        Raises:
            NotLeaderError: this node does not lead the partition any more.
            OffsetOutOfRangeError: the offset is not in the log.
            DamagedRangeError: the records there are damaged.
        """
        if not self.is_leading:
            self.check_leading()
        return self.find_committed(offset, max_bytes, isolation)

    def find_committed(self, offset: int, max_bytes: int, isolation: Isolation) -> Readable | None:
        """`find` in any role: what a follower knows to be committed, every reader may see.

        Raises:
            OffsetOutOfRangeError, DamagedRangeError: as `find` does.
        """
        if not self.log_start <= offset <= self.log_end:
            raise OffsetOutOfRangeError(offset, self.log_start, self.log_end)
        started_s = self._clock.monotonic_s()
        region = self._log.read(offset, max_bytes, until=self.readable_to(isolation))
        self._measures.offset_lookup_latency.observe(self._clock.monotonic_s() - started_s)
        return region

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

    def expects(self, info: BatchInfo) -> bool:
        """Whether a batch is the next of an idempotent producer that has written here before."""
        return self._state.expects(info)

    # --- Maintenance -----------------------------------------------------------------------------

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

    async def recover(self) -> None:
        """Bring a failed log back. Raises `DiskError` while the disk still refuses."""
        self._restored(await self._log.restore(self._rebuild))

    def _restored(self, state: LogState | None) -> None:
        if state is not None:
            self._state = state
            self.report_damaged_snapshots(self._log.damaged_snapshots)
            self._mark()
            self._after_flush()

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the watermarks or what lies under them contradict."""
        self._log.check_invariants()
        self._state.check_invariants()
        if not self.log_start <= self.last_stable <= self.high_watermark <= self.log_end:
            raise InvariantError(f"{self.id}: watermarks out of order")
