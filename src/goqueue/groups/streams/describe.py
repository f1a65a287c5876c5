"""What administrators see of a Streams group."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from goqueue.groups.streams.assignor import Role
from goqueue.groups.streams.member import StreamsMember
from goqueue.groups.streams.topology import InternalTopic, Subtopology, Topology
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.groups.streams.group import StreamsGroup


class StreamsMemberDescription(msgspec.Struct, frozen=True):
    """One member, and the partitions that its active tasks read."""

    member: StreamsMember
    partitions: frozenset[TopicPartition]


class StreamsDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A Streams group."""

    group_id: str
    state: str
    epoch: int
    target_epoch: int
    topology: Topology | None
    """With the partitions of the internal topics that exist."""
    is_configured: bool
    """The topics fit the topology, so there are tasks."""
    members: tuple[StreamsMemberDescription, ...]


def describe_streams(group: StreamsGroup) -> StreamsDescription:
    """The whole of a Streams group."""
    counts = group.partition_counts
    topology = group.topology
    return StreamsDescription(
        group_id=group.group_id,
        state=group.state.value,
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        topology=topology
        and Topology(topology.epoch, tuple(_counted(s, counts) for s in topology.subtopologies)),
        is_configured=group.basis.is_ready,
        members=tuple(
            StreamsMemberDescription(
                member, group.partitions_of(t for t in member.assigned if t[0] is Role.ACTIVE)
            )
            for member in group.roster.members.values()
        ),
    )


def _counted(subtopology: Subtopology, counts: Mapping[str, int]) -> Subtopology:
    def counted(topic: InternalTopic) -> InternalTopic:
        return replace(topic, partition_count=counts.get(topic.name, topic.partition_count))

    return replace(
        subtopology,
        repartition_sources=tuple(map(counted, subtopology.repartition_sources)),
        changelogs=tuple(map(counted, subtopology.changelogs)),
    )
