"""What the broker keeps for a member that it reads for, and which offsets a poll commits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.groups.messages import PartitionOutcomes


class AutoCommit(msgspec.Struct):
    """What was committed for one member, and when it is time to commit again."""

    interval_ms: int
    committed_at_ms: int
    committed: dict[TopicPartition, int] = msgspec.field(default_factory=dict)

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


class Member(msgspec.Struct):
    """What the broker keeps for one member that it reads for."""

    group_id: str
    member_id: str
    reset_to_earliest: bool
    client_id: str = ""
    client_host: str = ""
    epoch: int = 0
    coordinated_in: int = -1
    """The epoch of the coordinator that knows of the member: of a later one, it is made anew."""
    releases_itself: bool = False
    """It says when it has given up a partition; otherwise its next heartbeat says so."""
    assigned: frozenset[TopicPartition] = frozenset()
    revoking: frozenset[TopicPartition] = frozenset()
    """Nothing is read of these any more, and the member still holds them until it has finished
    with what it was handed; its commits of them count."""
    positions: dict[TopicPartition, int] = msgspec.field(default_factory=dict)
    """The next offset to be read of each partition that has been read."""
    heartbeat_interval_ms: int = 0
    polls: int = 0
    auto: AutoCommit | None = None
    """None where the member commits itself."""
