"""The logs of the broker's coordinators: their partitions, as `goqueue.state` needs them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from goqueue.model.topic_partition import TopicPartition
from goqueue.state.change_log import ChangeLog
from goqueue.state.clock import StateClock
from goqueue.state.coordinators import Coordinators
from goqueue.state.log import StateLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.model.errors import StorageError
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partition import Partition, Placed
    from goqueue.partitions.partitions import Partitions
    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Bytes, Disk
    from goqueue.storage.snapshot_kinds import SnapshotKind
    from goqueue.topics.catalogue import Topics

_L = TypeVar("_L", bound=StateLog)


class CoordinatedPartition:
    """A partition that holds the state of a coordinator."""

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.name = str(partition.id)
        self.folder = partition.folder
        self.append: Callable[[Bytes, BatchInfo], Placed] = partition.append
        self.is_committed, self.committed = partition.is_committed, partition.committed
        self.synced, self.chunks, self.trim = partition.synced, partition.chunks, partition.trim
        self.report_damage = partition.report_damage
        self.report_damaged_snapshots = partition.report_damaged_snapshots

    @property
    def leader_epoch(self) -> int:
        """In which epoch it is led here; -1 when it is not."""
        return self._partition.leader_epoch if self._partition.is_leading else -1

    @property
    def log_start(self) -> int:
        """The first record that can be read."""
        return self._partition.log_start

    @property
    def log_end(self) -> int:
        """The next offset to be given."""
        return self._partition.log_end

    @property
    def high_watermark(self) -> int:
        """Below it everything is committed."""
        return self._partition.high_watermark

    @property
    def size_bytes(self) -> int:
        """How large the log is."""
        return self._partition.size_bytes

    @property
    def failure(self) -> StorageError | None:
        """Why the log refuses appends, until it has recovered."""
        return self._partition.failure

    @property
    def has_lost_tail(self) -> bool:
        """Whether recovery has cut off more than a torn batch."""
        return self._partition.recovery.cut_whole


class StateLogs:
    """Makes the logs for the coordinators that open them, and holds the clock of all of these."""

    def __init__(
        self,
        partitions: Partitions,
        topics: Topics,
        disk: Disk,
        clock: Clock,
        measures: Measures,
    ) -> None:
        self._partitions = partitions
        self._disk = disk
        self._clock = clock
        self._measures = measures
        self.clock = StateClock(clock)
        self.coordinators = Coordinators(partitions, topics)
        """Opens and closes their shards."""

    def partition(self, topic: str, number: int) -> CoordinatedPartition:
        """A partition of an internal topic, which is there."""
        return CoordinatedPartition(self._partitions.partition(TopicPartition(topic, number)))

    def log(self, topic: str, number: int, kind: SnapshotKind) -> StateLog:
        """The log in a partition of an internal topic, which is there."""
        return self._log(StateLog, topic, number, kind)

    def change_log(self, topic: str, number: int, kind: SnapshotKind) -> ChangeLog:
        """The same, of a log of changes."""
        return self._log(ChangeLog, topic, number, kind)

    def _log(self, log: type[_L], topic: str, number: int, kind: SnapshotKind) -> _L:
        saved = partial(self._measures.snapshot_saved, kind.label)
        return log(self.partition(topic, number), kind, self._disk, self._clock, saved)
