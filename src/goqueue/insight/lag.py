"""How far a group is behind: the same answer for people, metrics and every protocol.

A committed offset means the same whatever the kind of the group: everything before it is done. Of a
log group it is what its members have committed; of a queue group, the lowest offset that is not
done. Which partitions count, and from where, is defined in `goqueue.model.lag`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.groups.encoding import CommittedOffset
from goqueue.model.lag import PartitionLag, counted_partitions
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.groups.describe import Reading
    from goqueue.groups.service import Groups
    from goqueue.partitions.elsewhere.figures import PartitionFigures
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.service import Queues
    from goqueue.topics.catalogue import Topics


class GroupLag:
    """The lag of every group."""

    def __init__(
        self, topics: Topics, figures: PartitionFigures, groups: Groups, queues: Queues
    ) -> None:
        self._topics = topics
        self._figures = figures
        self._groups = groups
        self._queues = queues

    def committed(self, group_id: str) -> dict[TopicPartition, int]:
        """The committed offsets of a group, for every partition that still exists."""
        return {
            TopicPartition(each.topic, each.partition): each.committed
            for each in self.of(group_id)
            if each.committed is not None
        }

    def of(self, group_id: str) -> Iterator[PartitionLag]:
        """Every partition that counts for a group and still exists; none of an unknown group."""
        queue_group = self._queues.find(group_id)
        if queue_group is not None and not queue_group.is_dormant:
            return self._queue_lag(queue_group)
        return self._log_lag(group_id)

    def _queue_lag(self, group: QueueGroup) -> Iterator[PartitionLag]:
        found = [
            PartitionLag(
                *partition.id,
                max(queue.start, partition.log_start),
                partition.log_start,
                partition.log_end,
            )
            for key, queue in group.queues.items()
            if (partition := self._queues.sources.find(key)) is not None
        ]
        yield from sorted(found, key=lambda each: (each.topic, each.partition))

    def _log_lag(self, group_id: str) -> Iterator[PartitionLag]:
        coordinator = self._groups.coordinator(group_id)
        committed = {
            place: offset.offset
            for place, offset in coordinator.fetch_offsets(group_id).items()
            if isinstance(offset, CommittedOffset)
        }
        reading = coordinator.reading(group_id)
        topics = self._topics.catalogue.by_name
        places = counted_partitions(
            committed,
            self._assigned(reading),
            lambda name: topics[name].partition_count if name in topics else 0,
            is_subscriber=reading.is_subscriber,
        )
        for topic, number in places:
            place = TopicPartition(topic, number)
            figures = self._figures.of(place)
            if figures is not None:
                yield PartitionLag(*place, committed.get(place), figures.log_start, figures.log_end)

    def _assigned(self, reading: Reading) -> set[TopicPartition]:
        topics = self._topics.catalogue.by_id
        by_id = {
            TopicPartition(topics[topic_id].name, number)
            for topic_id, number in reading.with_ids
            if topic_id in topics
        }
        return {*by_id, *reading.named}
