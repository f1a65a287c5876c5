"""How far a group is behind: the same question for people, metrics and every protocol.

What a group has committed means the same whatever its kind: it is done with everything before. Of
a log group that is what its members have said; of a queue group, the lowest offset that it is not
done with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.broker.partition import PartitionId
from goqueue.groups.offsets import CommittedOffset
from goqueue.model.errors import TopicError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.broker.broker import Broker


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition that a group has committed an offset for."""

    topic: str
    partition: int
    committed: int
    log_end: int
    log_start: int = 0

    @property
    def id(self) -> PartitionId:
        """The partition."""
        return PartitionId(self.topic, self.partition)

    @property
    def at(self) -> int:
        """Where the group goes on: retention may have taken away what it had committed."""
        return max(self.committed, self.log_start)

    @property
    def lag(self) -> int:
        """Messages between the committed offset and the end of the log."""
        return max(self.log_end - self.committed, 0)


def committed_offsets(broker: Broker, group_id: str) -> dict[PartitionId, int]:
    """How far a group is through, for every partition that it has read and that still exists."""
    return {
        PartitionId(each.topic, each.partition): each.committed
        for each in group_lag(broker, group_id)
    }


def group_lag(broker: Broker, group_id: str) -> Iterator[PartitionLag]:
    """Every partition that the group has read and that still exists; none of an unknown group."""
    queue_group = broker.queues.find(group_id)
    if queue_group is not None and not queue_group.is_dormant:
        yield from sorted(
            (
                PartitionLag(
                    *partition.id,
                    max(queue.start, partition.log_start),
                    partition.log_end,
                    partition.log_start,
                )
                for key, queue in queue_group.queues.items()
                if (partition := broker.queues.partition(key)) is not None
            ),
            key=lambda each: (each.topic, each.partition),
        )
        return
    coordinator = broker.groups.coordinator(group_id)
    for (topic, number), offset in coordinator.fetch_offsets(group_id).items():
        if not isinstance(offset, CommittedOffset):
            continue
        try:
            partition = broker.partitions.partition(PartitionId(topic, number))
        except TopicError:
            continue
        yield PartitionLag(topic, number, offset.offset, partition.log_end, partition.log_start)
