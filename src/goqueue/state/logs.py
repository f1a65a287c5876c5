"""The logs of the broker's coordinators."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from goqueue.model.topic_partition import TopicPartition
from goqueue.state.change_log import ChangeLog
from goqueue.state.clock import ShardClock, StateClock
from goqueue.state.coordinators import Coordinators
from goqueue.state.log import StateLog

if TYPE_CHECKING:
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk
    from goqueue.storage.snapshot_kinds import SnapshotKind
    from goqueue.topics.catalogue import Topics


_L = TypeVar("_L", bound=StateLog)


class StateLogs:
    """Makes the logs for the coordinators that open them, and holds their clock."""

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

    def partition(self, topic: str, number: int) -> Partition:
        """A partition of an internal topic, which is there."""
        return self._partitions.partition(TopicPartition(topic, number))

    def log(self, topic: str, number: int, kind: SnapshotKind) -> StateLog:
        """The log in a partition of an internal topic, which is there."""
        return self._log(StateLog, topic, number, kind)

    def change_log(self, topic: str, number: int, kind: SnapshotKind) -> ChangeLog:
        """The same, of a log of changes."""
        return self._log(ChangeLog, topic, number, kind)

    def _log(self, log: type[_L], topic: str, number: int, kind: SnapshotKind) -> _L:
        saved = partial(self._measures.snapshot_saved, kind.label)
        in_cluster = self._partitions.facts is not None
        return log(
            self.partition(topic, number),
            kind,
            self._disk,
            self._clock,
            on_saved=saved,
            time=ShardClock(self.clock.now_ms) if in_cluster else self.clock,
        )
