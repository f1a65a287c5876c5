"""How far a group is behind: the same answer for people, metrics and every protocol.

A committed offset means the same whatever the kind of the group: everything before it is done. Of a
log group it is what its members have committed; of a queue group, the lowest offset that is not
done. Which partitions count, and from where, is defined in `goqueue.model.lag`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from goqueue.groups.encoding import CommittedOffset
from goqueue.model.errors import TopicError
from goqueue.model.lag import PartitionLag, counted_partitions
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.groups.describe import Reading
    from goqueue.groups.service import Groups
    from goqueue.partitions.partitions import Partitions
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.service import Queues
    from goqueue.topics.catalogue import Topics


class LagServices(Protocol):
    """What lag is read from."""

    topics: Topics
    partitions: Partitions
    groups: Groups
    queues: Queues


def committed_offsets(services: LagServices, group_id: str) -> dict[TopicPartition, int]:
    """The committed offsets of a group, for every partition that still exists."""
    return {
        TopicPartition(each.topic, each.partition): each.committed
        for each in group_lag(services, group_id)
        if each.committed is not None
    }


def group_lag(services: LagServices, group_id: str) -> Iterator[PartitionLag]:
    """Every partition that counts for a group and still exists; none of an unknown group."""
    queue_group = services.queues.find(group_id)
    if queue_group is not None and not queue_group.is_dormant:
        return _queue_lag(services, queue_group)
    return _log_lag(services, group_id)


def _queue_lag(services: LagServices, group: QueueGroup) -> Iterator[PartitionLag]:
    found = [
        PartitionLag(
            *partition.id,
            max(queue.start, partition.log_start),
            partition.log_start,
            partition.log_end,
        )
        for key, queue in group.queues.items()
        if (partition := services.queues.partition(key)) is not None
    ]
    yield from sorted(found, key=lambda each: (each.topic, each.partition))


def _log_lag(services: LagServices, group_id: str) -> Iterator[PartitionLag]:
    coordinator = services.groups.coordinator(group_id)
    committed = {
        place: offset.offset
        for place, offset in coordinator.fetch_offsets(group_id).items()
        if isinstance(offset, CommittedOffset)
    }
    reading = coordinator.reading(group_id)
    topics = services.topics.catalogue.by_name
    places = counted_partitions(
        committed,
        _assigned(services, reading),
        lambda name: topics[name].partition_count if name in topics else 0,
        is_subscriber=reading.is_subscriber,
    )
    for topic, number in places:
        try:
            partition = services.partitions.local(TopicPartition(topic, number))
        except TopicError:
            continue
        yield PartitionLag(
            topic,
            number,
            committed.get(TopicPartition(topic, number)),
            partition.log_start,
            partition.log_end,
        )


def _assigned(services: LagServices, reading: Reading) -> set[TopicPartition]:
    topics = services.topics.catalogue.by_id
    by_id = {
        TopicPartition(topics[topic_id].name, number)
        for topic_id, number in reading.with_ids
        if topic_id in topics
    }
    return {*by_id, *reading.named}
