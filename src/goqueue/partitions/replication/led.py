"""One partition that this node leads in one epoch: its followers ask, its watermark moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from goqueue.cluster.elections import required
from goqueue.cluster.following import FetchAsk, FetchProblem, divergence
from goqueue.model.errors import (
    NotEnoughReplicasAfterAppendError,
    NotEnoughReplicasError,
    NotLeaderError,
)
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.fetch import FetchedPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.cluster.progress import LeaderProgress
    from goqueue.cluster.records import PartitionKey
    from goqueue.model.errors import GoQueueError
    from goqueue.partitions.replication.replicated_partition import ReplicatedPartition
    from goqueue.wire.kafka.fetch import FetchPartition


class Watcher(Protocol):
    """A replica of a follower in one of its sessions."""

    @property
    def node_id(self) -> int:
        """Whose it is."""

    @property
    def incarnation(self) -> int:
        """Which run of the node asks."""

    @property
    def heard_s(self) -> float:
        """When the session last asked for something: also for what did not move since."""

    def appended(self) -> None:
        """There is more to be had."""

    def watermark_moved(self) -> None:
        """There is something to be told."""

    def ended(self) -> None:
        """This node leads the partition no longer."""


class LedPartition:
    """What the leader of a partition does when something happens to it.

    A partition is *settled* while every replica is in sync and has everything: nothing has to be
    looked at until the next append, or until the cluster changes.
    """

    def __init__(
        self,
        key: PartitionKey,
        partition: ReplicatedPartition,
        progress: LeaderProgress,
        attend: Callable[[LedPartition], None],
    ) -> None:
        """Lead from now on; `attend` is called when the in-sync set may have to change."""
        self.key = key
        self.partition = partition
        self.progress = progress
        self._attend = attend
        self.watchers: dict[object, Watcher] = {}
        """A few for each follower: one for each of its sessions that names the partition."""
        self.log_starts: dict[int, int] = {}
        """Where the logs of the followers start, as they last said."""
        self.is_settled = False
        self._is_alone = False
        self.is_resigning = False
        partition.on_appended = self.appended
        partition.on_persisted = self.persisted
        self.appended()
        self.follow_record()

    # --- What happens ----------------------------------------------------------------------------

    def appended(self) -> None:
        """The log has grown, or more of it is on the disk; feed the followers in this turn."""
        progress, partition = self.progress, self.partition
        if self.is_settled:
            self.refresh()  # whoever had everything until now is as late as this append is old
            self.is_settled = False
            self._attend(self)
        if progress.appended(partition.log_end, partition.position):
            self.advance()
        for watcher in self.watchers.values():
            watcher.appended()

    def start_moved(self) -> None:
        """Records at the start were deleted: tell the followers."""
        for watcher in self.watchers.values():
            watcher.watermark_moved()

    def persisted(self) -> None:
        """More of the log is on the disk: that counts where the topic promises it."""
        partition = self.partition
        if self.progress.appended(partition.log_end, partition.position):
            self.advance()

    def refusal(
        self, node_id: int, incarnation: int, asked: FetchPartition
    ) -> FetchedPartition | None:
        """Why a fetch gets nothing and acknowledges nothing; None when it is in order."""
        number, epoch, offset, last_epoch, _, _ = asked
        progress, partition = self.progress, self.partition
        if not progress.is_leading:
            return FetchedPartition(number, ErrorCode.not_leader_or_follower)
        if epoch != progress.epoch:
            is_old = epoch < progress.epoch
            code = ErrorCode.fenced_leader_epoch if is_old else ErrorCode.unknown_leader_epoch
            return FetchedPartition(number, code, leader=(progress.node_id, progress.epoch))
        if not progress.is_current(node_id, incarnation):
            return FetchedPartition(number, ErrorCode.stale_broker_epoch)
        start, end = partition.log_start, partition.log_end
        ask = FetchAsk(progress.node_id, epoch, offset, last_epoch)
        found = divergence(ask, partition.epochs, start, end)
        if found is None:
            return None
        hw = partition.high_watermark
        if isinstance(found, FetchProblem):
            return FetchedPartition(number, ErrorCode.offset_out_of_range, hw, end, start)
        return FetchedPartition(number, ErrorCode.none, hw, end, start, diverging_epoch=found)

    def fetched(self, node_id: int, incarnation: int, asked: FetchPartition, now_s: float) -> None:
        """A follower has everything below an offset: this is what acknowledges it."""
        progress = self.progress
        self.log_starts[node_id] = asked.log_start_offset
        if progress.fetched(node_id, incarnation, asked.fetch_offset, now_s):
            self.advance()
        if node_id not in progress.record.isr or asked.fetch_offset < progress.hw:
            self.is_settled = False
            self._attend(self)

    def refresh(self) -> None:
        """Take each request of a session as one for every partition that it names no longer."""
        progress = self.progress
        for watcher in self.watchers.values():
            follower = progress.followers.get(watcher.node_id)
            if follower is not None and watcher.heard_s > follower.fetched_s:
                position = follower.position
                progress.fetched(watcher.node_id, watcher.incarnation, position, watcher.heard_s)

    # --- What follows from it --------------------------------------------------------------------

    def advance(self) -> None:
        """Commit what every replica in sync has: the line where publishers are told."""
        self.partition.advance(self.progress.hw)
        for watcher in self.watchers.values():
            watcher.watermark_moved()

    def follow_record(self) -> None:
        """Refuse and admit publishers as the in-sync set is now, which may have changed."""
        progress, partition = self.progress, self.partition
        if progress.hw > partition.high_watermark:
            self.advance()
        was_short = partition.not_enough is not None
        partition.not_enough = self._shortage() if progress.is_short else None
        if progress.is_short and not was_short:
            partition.fail_waiting(
                NotEnoughReplicasAfterAppendError(f"{self._shortage()}; the batch is not committed")
            )
        elif was_short and not progress.is_short:
            partition.admitted()
        self._admit()

    def _shortage(self) -> NotEnoughReplicasError:
        record = self.progress.record
        return NotEnoughReplicasError(
            f"{self.partition.id}: {len(record.isr)} of {len(record.replicas)} replicas are in "
            f"sync, and {required(record)} are required: start the missing nodes and try again"
        )

    def note_alone(self, now_s: float, store_heard_s: float) -> None:
        """Refuse every append while neither a follower nor the store is heard of."""
        self.refresh()
        self._is_alone = self.progress.is_alone(now_s, store_heard_s)
        self._admit()

    def stop_appends(self, *, is_resigning: bool = True) -> None:
        """Refuse every append, because another node is about to lead."""
        self.is_resigning = is_resigning
        self._admit()

    def _admit(self) -> None:
        was_isolated, self.partition.isolated = self.partition.isolated, self._refusal()
        if was_isolated is not None and self.partition.isolated is None:
            self.partition.admitted()

    def _refusal(self) -> GoQueueError | None:
        if self.is_resigning or not self.progress.is_leading:
            return NotLeaderError(str(self.partition.id))
        if self._is_alone:
            return NotEnoughReplicasError(
                f"{self.partition.id}: its leader hears neither a follower nor the metadata "
                "store, so another node may lead by now: try again"
            )
        return self.partition.restoring

    @property
    def may_settle(self) -> bool:
        """Whether nothing needs to be looked at before the next append."""
        progress = self.progress
        record = progress.record
        if progress.is_pending or record.struck or len(record.isr) < len(record.replicas):
            return False
        return all(each.position >= progress.end for each in progress.followers.values())

    def end(self) -> None:
        """This node leads the partition no longer, in this epoch."""
        partition = self.partition
        partition.on_appended = partition.on_persisted = None
        partition.not_enough = None
        partition.isolated = partition.restoring
        for watcher in tuple(self.watchers.values()):
            watcher.ended()
