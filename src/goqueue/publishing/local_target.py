"""Handing messages over to a partition that this node leads. See `goqueue.publishing.handover`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from goqueue.model.errors import GoQueueError, HandoverUnknownError, LeadershipLostError
from goqueue.model.tuples import NamedTuple
from goqueue.publishing.delayed import Rest
from goqueue.publishing.handover import Fate, Handover, Position
from goqueue.publishing.requests import PublishRequest
from goqueue.records import peek
from goqueue.records.batch import walk
from goqueue.runtime.tasks import in_thread
from goqueue.storage.config import Fsync

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from concurrent.futures import Executor

    from goqueue.partitions.partition import Partition, Placed
    from goqueue.publishing.delayed import SplitBatch
    from goqueue.publishing.publish import Publisher
    from goqueue.storage.recovery import RecoveryReport


class LogMark(NamedTuple):
    """Which log an append went to: after another epoch or recovery it may not be there any more."""

    epoch: int
    recovery: RecoveryReport


class LocalTarget:
    """A partition of this node, which decides for itself."""

    def __init__(
        self, partition: Partition, publisher: Publisher, executor: Executor, *, is_cluster: bool
    ) -> None:
        """Of a node of a cluster, what the in-sync replicas have is there to stay."""
        self.id = partition.id
        self.partition = partition
        self._publisher = publisher
        self._executor = executor
        self._is_cluster = is_cluster

    async def position(self, handover: Handover) -> Position:
        """Where the next batch of a producer goes; nothing is waited for."""
        return self.known_position(handover)

    def known_position(self, handover: Handover) -> Position:
        """See `position`. Raises `NotLeaderError`."""
        self.partition.check_leading()
        return Position(handover.next_sequence(self.partition), self.partition.log_end)

    def append_now(self, batch: bytearray) -> Placed:
        """Store a batch; `fate` says when it is there to stay.

        Twice with the same sequence appends once.

        Raises:
            ProducerError: a batch with a later sequence is there: this one never will be.
            NotLeaderError, BatchError, DiskError, LogFailedError: nothing was appended.
        """
        return self.partition.append(batch, peek(batch))

    async def append(self, batch: bytearray) -> Placed:
        """Store a batch; it is committed when this returns. See `Target.append`."""
        placed = self.append_now(batch)
        await self._told(self.partition.committed(placed.end_offset))
        return placed

    async def publish(self, batch: bytearray, *, delivery: bool, traced: bool) -> Placed:
        """Store a batch like that of any publisher. See `Target.publish`."""
        publisher = self._publisher
        request = PublishRequest(self.id, memoryview(batch), delivery=delivery, traced=traced)
        published = publisher.publish(await publisher.checked(request))
        if published.durable is not None:
            await self._told(published.durable)
        return published.placed

    async def _told(self, durable: Awaitable[None]) -> None:
        try:
            await durable
        except GoQueueError as error:
            raise HandoverUnknownError(
                f"{self.id}: whether messages that were moved there are stored is not known: "
                f"{error}; it is looked up before they are moved again"
            ) from error

    def mark(self) -> LogMark:
        """Which log this is now: to be kept with what is appended."""
        partition = self.partition
        return LogMark(partition.leader_epoch, partition.recovery)

    def is_same(self, mark: LogMark) -> bool:
        """Whether the log is still the one of `mark`."""
        partition = self.partition
        return partition.leader_epoch == mark.epoch and partition.recovery is mark.recovery

    def fate(self, end_offset: int, mark: LogMark) -> Fate:
        """What became of an append that ended there, when the log was that of `mark`.

        It is settled in a cluster when every in-sync replica has it. On one node that is at once
        where the policy is to leave it to the operating system, and where the disk is synced now
        and then, after the next time. What went with its topic needs no more care there.
        """
        partition = self.partition
        if partition.is_closed and not self._is_cluster:
            return Fate.SETTLED
        if partition.is_closed or not partition.is_leading or not self.is_same(mark):
            return Fate.UNKNOWN
        if self._is_cluster:
            is_settled = partition.is_committed(end_offset)
        else:
            is_settled = partition.fsync is Fsync.NEVER or (
                partition.failure is None and partition.synced_to >= end_offset
            )
        return Fate.SETTLED if is_settled else Fate.UNDER_WAY

    async def found(self, producer_id: int, epoch: int, from_offset: int) -> set[int]:
        """What is in the log for good. See `Target.found`."""
        partition = self.partition
        partition.check_leading()
        if partition.failure is not None:
            raise partition.failure
        led_in = partition.leader_epoch
        if self._is_cluster:
            partition.fence_producer(producer_id, epoch + 1)
            await partition.committed(partition.log_end)
        look = partial(Handover(producer_id, epoch).found, partition, from_offset)
        sequences = await in_thread(self._executor, look)
        if not self._is_cluster and sequences and partition.fsync is not Fsync.NEVER:
            await partition.synced(partition.log_end)
        if partition.leader_epoch != led_in or not partition.is_leading:
            raise LeadershipLostError(
                f"{self.id}: another node leads it since it was read; ask that one"
            )
        return sequences

    async def rests(self, batches: Sequence[SplitBatch]) -> list[Rest]:
        """What became of the rests of batches of which a part waits, in the committed log.

        What may have been removed from the log meanwhile, or emptied by compaction, is taken for
        stored: better twice than never.

        Raises:
            GoQueueError: nobody can tell at the moment; ask again.
        """
        partition, publisher = self.partition, self._publisher
        partition.check_leading()
        led_in = partition.leader_epoch
        under_way = [publisher.is_under_way(self.id, each) for each in batches]
        await partition.committed(partition.log_end)
        first = max(min(each.origin.end_offset for each in batches), partition.log_start)
        stored = await in_thread(self._executor, partial(_stored, partition, first))
        if partition.leader_epoch != led_in or not partition.is_leading:
            raise LeadershipLostError(
                f"{self.id}: another node leads it since it was read; ask that one"
            )
        removed_below = max(partition.log_start, partition.gaps_below)
        found = []
        for is_under_way, each in zip(under_way, batches, strict=True):
            key = (*each[:3], each.origin.leader_epoch, each.origin.attempt)
            is_gone = each.origin.end_offset < removed_below
            if is_under_way:
                found.append(Rest.UNDER_WAY)
            elif publisher.is_void(each):
                found.append(Rest.ABSENT)
            else:
                found.append(Rest.STORED if is_gone or key in stored else Rest.ABSENT)
        return found


def _stored(partition: Partition, first: int) -> set[tuple[int, ...]]:
    """Producer, its epoch, first sequence, leader epoch and attempt of each batch from there on."""
    return {
        (
            info.producer_id,
            info.producer_epoch,
            info.base_sequence,
            info.leader_epoch,
            info.attempt,
        )
        for chunk in partition.chunks(first)
        for _, info in walk(chunk.data)
        if info.has_producer and not info.is_control
    }
