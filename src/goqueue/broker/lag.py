"""How far a group is behind: the same question for people, metrics and every protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.broker.partition import PartitionId
from goqueue.groups.offsets import CommittedOffset
from goqueue.model.errors import TopicError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.broker.partitions import Partitions
    from goqueue.groups.coordinator import GroupCoordinator


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """One partition that a group has committed an offset for."""

    topic: str
    partition: int
    committed: int
    log_end: int

    @property
    def lag(self) -> int:
        """Messages between the committed offset and the end of the log."""
        return max(self.log_end - self.committed, 0)


def group_lag(
    partitions: Partitions, coordinator: GroupCoordinator, group_id: str
) -> Iterator[PartitionLag]:
    """Every partition that the group has read and that still exists."""
    for (topic, number), offset in coordinator.fetch_offsets(group_id).items():
        if not isinstance(offset, CommittedOffset):
            continue
        try:
            partition = partitions.partition(PartitionId(topic, number))
        except TopicError:
            continue
        yield PartitionLag(topic, number, offset.offset, partition.log_end)
