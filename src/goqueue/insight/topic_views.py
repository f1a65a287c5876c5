"""What people see of a topic: its partitions, where they begin and end, how large they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.partitions.partitions import Partitions
    from goqueue.topics.catalogue import Topic


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition at one moment."""

    number: int
    leader: int
    leader_epoch: int
    log_start: int
    high_watermark: int
    log_end: int
    message_count: int
    """Offsets that hold a message; what compaction has removed counts along."""
    size_bytes: int
    failure: str | None
    """Why appends are refused; None when they are taken."""


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic at one moment."""

    topic: Topic
    partitions: tuple[PartitionView, ...]

    @property
    def message_count(self) -> int:
        """Messages of all partitions; what compaction has removed counts along."""
        return sum(each.message_count for each in self.partitions)

    @property
    def size_bytes(self) -> int:
        """All records on the disk."""
        return sum(each.size_bytes for each in self.partitions)


def view_topic(partitions: Partitions, topic: Topic, node_id: int) -> TopicView:
    """One topic."""
    return TopicView(
        topic,
        tuple(
            PartitionView(
                number=partition.id.partition,
                leader=node_id,
                leader_epoch=partition.leader_epoch,
                log_start=partition.log_start,
                high_watermark=partition.high_watermark,
                log_end=partition.log_end,
                message_count=partition.message_count,
                size_bytes=partition.log.size_bytes,
                failure=None if partition.log.failure is None else str(partition.log.failure),
            )
            for partition in partitions.of_topic(topic)
        ),
    )
