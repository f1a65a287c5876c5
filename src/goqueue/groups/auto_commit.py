"""Which offsets a poll commits for a member that does not commit itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.groups.messages import PartitionOutcomes


@dataclass(slots=True)
class AutoCommit:
    """What was committed for one member, and when it is time to commit again."""

    interval_ms: int
    committed_at_ms: int
    committed: dict[TopicPartition, int] = field(default_factory=dict)

    def due(
        self, positions: Mapping[TopicPartition, int], now_ms: int
    ) -> dict[TopicPartition, int]:
        """What to commit now of where the member is: nothing before the interval is over."""
        waited_ms = now_ms - self.committed_at_ms
        if 0 <= waited_ms < self.interval_ms:
            return {}
        self.committed_at_ms = now_ms
        return self.changed(positions)

    def changed(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where the member is, as far as it is not committed yet."""
        return {
            partition: offset
            for partition, offset in positions.items()
            if self.committed.get(partition) != offset
        }

    def note(self, offsets: Mapping[TopicPartition, int], outcomes: PartitionOutcomes) -> None:
        """Remember what was taken; what was refused is committed with a later poll."""
        refused = {
            TopicPartition(*place) for place, error in outcomes.partitions if error is not None
        }
        self.committed.update(
            (partition, offset) for partition, offset in offsets.items() if partition not in refused
        )

    def forget(self, partition: TopicPartition) -> None:
        """The partition is another member's now."""
        self.committed.pop(partition, None)
