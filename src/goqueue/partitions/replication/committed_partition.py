"""A partition whose in-sync replicas say what is committed: its roles, and what its leader does.

Whoever appends is told when every in-sync replica has it, readers stop there, and nothing past it
is removed. The newest batches are in memory, for followers and for readers that keep up.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, cast

from goqueue.model.errors import (
    GoQueueError,
    LeadershipLostError,
    NotLeaderError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
)
from goqueue.partitions.partition import Isolation, Partition, Placed
from goqueue.partitions.replica import Leading
from goqueue.partitions.replication.replicated_commit import ReplicatedCommit
from goqueue.partitions.replication.tail import Tail, TailBudget, TailEntry
from goqueue.records.batch import walk
from goqueue.storage.config import Fsync

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.damage import DamageReports
    from goqueue.partitions.due_marks import MaintenanceMarks
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.opening import OpenedLog
    from goqueue.partitions.partition_log import PartitionLog
    from goqueue.partitions.replica import Following
    from goqueue.partitions.replication.replicated_log import ReplicatedLog
    from goqueue.partitions.sequences import SequencedBatch
    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Bytes
    from goqueue.storage.region import Readable

_log = logging.getLogger(__name__)

_GAP_S: Final = 3.0
"""So long after a batch was refused, one that is missing is probably that one: it will come."""


class CommittedPartition(Partition):
    """A replica among others.

    Watermarks as in `Partition`, but `high_watermark` is a stored number: `advance` moves it, in
    the leader when the in-sync replicas have more, in a follower when the leader says so.
    """

    _commit: ReplicatedCommit

    def __init__(
        self,
        partition_id: TopicPartition,
        opened: OpenedLog,
        *,
        clock: Clock,
        role: Following,
        high_watermark: int = 0,
        tails: TailBudget | None = None,
        on_cut: Callable[[Partition], None] = lambda _: None,
        measures: Measures | None = None,
        marks: MaintenanceMarks | None = None,
        damage: DamageReports | None = None,
    ) -> None:
        """Hold a log as a follower; `high_watermark` is where an earlier run knew it to be."""
        self._replica: ReplicatedLog = cast("Any", opened.log)
        self.is_unclean = opened.log.recovery.has_lost or opened.log.end_offset < high_watermark
        """Something that this replica had is gone: it may not lead, nor be counted in sync, before
        it has fetched everything again."""

        def stored(log: PartitionLog) -> ReplicatedCommit:
            self._commit = ReplicatedCommit(log, high_watermark)
            return self._commit

        super().__init__(
            partition_id,
            opened,
            clock=clock,
            role=role,
            commit=stored,
            measures=measures,
            marks=marks,
            damage=damage,
        )
        self.expire, self.next_expiry_ms = self._expire_led, self._next_expiry_ms
        self.delete_before = self._delete_committed
        self._tail = Tail(tails or TailBudget())
        self.on_cut = on_cut
        """Told of the partition when what was read of it may not be true any more."""
        self._admitted_s = clock.monotonic_s()
        self._over_epoch = -1
        """The last epoch that this node has ceased to lead in."""
        self._turn = asyncio.Lock()
        """Held by whatever changes the log of a follower and waits for the disk in between."""
        self.on_appended: Callable[[], None] | None = None
        """Called in the same step after each append of the leader."""
        self.on_persisted: Callable[[], None] | None = None
        """Called after each flush: under `fsync=always` the position has moved."""

    # --- Roles -----------------------------------------------------------------------------------

    async def begin(self, epoch: int) -> bool:
        """Make ready to lead in an epoch, and lead; false when another role came meanwhile.

        The epoch is durable before the first append, so that none waits for the disk. Nobody may be
        copying to the log any more. An epoch that this node has ceased to lead in is not led again:
        others lead by now, and the log may have been cut, whatever an old view still says.

        Raises:
            StorageError: the disk refused; this node follows nobody.
        """
        if self.role == Leading(epoch):
            return True
        if epoch <= self._over_epoch:
            return False
        self.follow(None, epoch)
        waiting = self.role
        async with self._turn:
            if self.role is not waiting:
                return False
            await self._replica.begin_epoch(epoch)
        if self.role is not waiting:
            return False
        self.lead(epoch)
        return True

    async def end(self) -> None:
        """Forget the epochs in which this node has led and written nothing.

        Raises:
            StorageError: the disk refused. The next leader's batches say it again.
        """
        async with self._turn:
            if not self.is_leading:
                await self._replica.end_epochs()

    def lead(self, epoch: int) -> None:
        """Append from now on, in this epoch."""
        super().lead(epoch)
        self._commit.begin()
        self.admitted()
        self._mark()  # what a follower leaves to the leader is due now

    def follow(self, leader: int | None, epoch: int) -> None:
        """Refuse appends from now on; whoever waits for a commit is told that it is not known."""
        was_leading, led_epoch = self.is_leading, self.leader_epoch
        super().follow(leader, epoch)
        self.not_enough, self.isolated = None, self.restoring
        if was_leading:
            self._over_epoch = led_epoch
            self.verifying.clear()
            self._tail.clear()
            where = "no node leads it yet" if leader is None else f"node {leader} leads it now"
            self._commit.end(
                LeadershipLostError(
                    f"{self.id}: {where}, in epoch {epoch}: what was appended last may not be "
                    "committed; send it again"
                )
            )

    # --- Committing ------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """What this replica may say that it has: all of its log, or what is on its disk."""
        log = self._log
        return log.flushed_offset if log.config.fsync is Fsync.ALWAYS else log.end_offset

    def advance(self, high_watermark: int) -> None:
        """Everything up to there is committed: tell those who wait for that, and readers."""
        if self._commit.advance(high_watermark):
            self._show(None)

    def fail_waiting(self, error: GoQueueError) -> None:
        """Tell publishers that wait why that may take long; the broker's own writers wait on."""
        self._commit.fail_publishers(error)

    def stop_commits(self) -> None:
        """This node stops, and hears no other replica: whoever waits, or would, is told so."""
        self._commit.end(
            LeadershipLostError(
                f"{self.id}: its leader stops: what was appended last may not be committed; send "
                "it again"
            )
        )

    def _after_flush(self) -> None:
        if self.on_persisted is not None:
            self.on_persisted()

    # --- Leading ---------------------------------------------------------------------------------

    def admitted(self) -> None:
        """Batches are taken again that were refused until now; or one was refused just now."""
        self._admitted_s = self._clock.monotonic_s()

    def earlier_append(self, info: BatchInfo) -> SequencedBatch | None:
        """As `Partition` does; a gap may be of a batch that was refused a moment ago.

        A producer has several batches on their way. When the first is refused because this node
        does not lead yet, and the second arrives when it does, the producer has made no mistake:
        both are to be sent again. Told that the second is out of order, librdkafka would begin a
        new epoch, and repeat under it what other partitions have stored and not acknowledged. A
        producer that has never written here may have a gap before its second batch likewise.
        """
        try:
            if info.base_sequence > 0 and self.sequences.epoch_of(info.producer_id) < 0:
                self._refuse_gap()
            return super().earlier_append(info)
        except OutOfOrderSequenceError:
            self._refuse_gap()
            raise

    def _refuse_gap(self) -> None:
        """Refuse a batch as the one that is missing before it was, or would be."""
        self.check_leading()
        if self.isolated is not None:
            raise self.isolated.with_traceback(None)
        is_recent = self._clock.monotonic_s() - self._admitted_s < _GAP_S
        if is_recent or self.failure is not None:
            raise NotLeaderError(str(self.id)) from None

    def append_new(self, batch: Bytes, info: BatchInfo, now_ms: int) -> Placed:
        """As `Partition` does; followers are told, and readers when they have it."""
        if self.isolated is not None:
            raise self.isolated.with_traceback(None)
        data = memoryview(batch)
        if data.readonly:
            data = memoryview(bytearray(batch))  # stamped as it goes into the log
        first = self._log.append_batch(data, info, self.leader_epoch)
        if self._state.follows(info):
            self._state.note(info, first, data, now_ms)
        end = first + info.last_offset_delta + 1
        self._appended([TailEntry(first, end, bytes(data), info.count)])
        return Placed(first, end)

    def append_all(self, batches: Bytes) -> Placed:
        """As `Partition` does."""
        self.check_leading()
        if self.isolated is not None:
            raise self.isolated.with_traceback(None)
        data = bytearray(batches)
        appended = self._log.append(data, self.leader_epoch, checked=True)
        self._appended(
            [
                TailEntry(
                    info.base_offset,
                    info.next_offset,
                    bytes(data[at : at + info.size_bytes]),
                    info.count,
                )
                for at, info in walk(data)
            ]
        )
        return Placed(*appended)

    def _follow_append(self, size_bytes: int) -> None:  # noqa: ARG002 - as of one node
        """Batches came from elsewhere: readers and followers find them in the log alone."""
        self._tail.clear()
        self._commit.cut()  # a log that was empty may begin later now
        self._appended([])

    def _appended(self, entries: list[TailEntry]) -> None:
        for entry in entries:
            self._tail.add(entry)
        if not self._is_marked:
            self._mark()
        self._log.flush_soon()
        if self.on_appended is not None:
            self.on_appended()

    # --- Reading ---------------------------------------------------------------------------------

    def find(self, offset: int, max_bytes: int, isolation: Isolation) -> Readable | None:
        """As `Partition` does; the newest batches come from memory."""
        if self.is_leading and self.log_start <= offset < self._tail.end_offset:
            found = self._tail.find(offset, max_bytes, self.readable_to(isolation))
            if found is not None:
                return found
        return super().find(offset, max_bytes, isolation)

    def read_replica(self, offset: int, max_bytes: int) -> Readable | None:
        """The batches from `offset` on, for a follower, committed or not; None at the end.

        What the tail has is a `TailRegion`, whose `parts` can be sent as they are.

        Raises:
            NotLeaderError: this node does not lead the partition.
            OffsetOutOfRangeError: the offset is not in the log.
            DamagedRangeError: the records there are damaged.
        """
        if not self.is_leading:
            self.check_leading()
        log = self._log
        found = self._tail.find(offset, max_bytes, log.end_offset)
        if found is not None:
            return found
        if not log.start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRangeError(offset, log.start_offset, log.end_offset)
        return log.read(offset, max_bytes)

    # --- Maintenance -----------------------------------------------------------------------------

    async def _expire_led(
        self, *, retention_ms: int | None, retention_bytes: int | None, until: int | None = None
    ) -> int:
        """Retention: the leader's, and never past what is committed; followers follow its start."""
        if not self.is_leading:
            return 0
        bound = self.high_watermark if until is None else min(until, self.high_watermark)
        return await self._log.expire(
            retention_ms=retention_ms, retention_bytes=retention_bytes, until=bound
        )

    def _next_expiry_ms(self, now_ms: int, retention_ms: int | None) -> int | None:
        return self._log.next_expiry_ms(now_ms, retention_ms) if self.is_leading else None

    async def _delete_committed(self, offset: int) -> int:
        """Let the log start at an offset that is committed; returns where it starts."""
        self.check_leading()
        return await self._log.move_start(min(offset, self.high_watermark))

    async def trim(self, offset: int) -> bool:
        """As `Replica` does, before what is not committed."""
        return await super().trim(min(offset, self.high_watermark))

    async def close(self) -> None:
        """As `Replica` does; whoever waits for a commit learns that it is not known."""
        if self.is_leading:
            self.follow(None, self.leader_epoch)
        self._tail.clear()
        await super().close()

    async def delete(self) -> None:
        """As `Replica` does."""
        if self.is_leading:
            self.follow(None, self.leader_epoch)
        self._tail.clear()
        await super().delete()

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the watermarks or what lies under them contradict."""
        super().check_invariants()
        self._commit.check_invariants()
