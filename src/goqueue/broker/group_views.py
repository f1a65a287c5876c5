"""What people see of a group, whichever membership protocol it speaks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.broker.partition import PartitionId
from goqueue.groups.consumer_protocol import assigned_partitions
from goqueue.groups.describe import GroupType
from goqueue.model.errors import GroupNotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.broker.broker import Broker
    from goqueue.groups.describe import GroupListing
    from goqueue.groups.topics import TopicIdPartition


@dataclass(frozen=True, slots=True)
class MemberView:
    """One member, and the partitions that it holds."""

    member_id: str
    client_id: str
    client_host: str
    partitions: tuple[PartitionId, ...]


@dataclass(frozen=True, slots=True)
class GroupView:
    """One group with its members."""

    listing: GroupListing
    assignor: str
    members: tuple[MemberView, ...]


def list_groups(broker: Broker) -> list[GroupListing]:
    """Every group, by name."""
    found = [
        listing
        for coordinator in broker.groups.coordinators()
        for listing in coordinator.list_groups()
    ]
    return sorted(found, key=lambda listing: listing.group_id)


def view_group(broker: Broker, group_id: str) -> GroupView:
    """One group.

    Raises:
        GroupNotFoundError: there is none of that name.
    """
    coordinator = broker.groups.coordinator(group_id)
    listing = next((each for each in coordinator.list_groups() if each.group_id == group_id), None)
    if listing is None:
        raise GroupNotFoundError(f"there is no group {group_id!r}")
    if listing.group_type is GroupType.CONSUMER:
        group = coordinator.describe_consumer(group_id)
        members = tuple(
            MemberView(
                member.member_id,
                member.client_id,
                member.client_host,
                _named(broker, member.assigned),
            )
            for member in group.members
        )
        return GroupView(listing, group.assignor, members)
    classic = coordinator.describe_classic(group_id)
    members = tuple(
        MemberView(
            member.member_id,
            member.client_id,
            member.client_host,
            _ordered(PartitionId(*each) for each in assigned_partitions(member.assignment) or ()),
        )
        for member in classic.members
    )
    return GroupView(listing, classic.protocol_name, members)


def _named(broker: Broker, partitions: Iterable[TopicIdPartition]) -> tuple[PartitionId, ...]:
    """Partitions by the names of their topics; those of deleted topics are left out."""
    topics = broker.topics.catalogue.by_id
    return _ordered(
        PartitionId(topics[topic_id].name, number)
        for topic_id, number in partitions
        if topic_id in topics
    )


def _ordered(partitions: Iterable[PartitionId]) -> tuple[PartitionId, ...]:
    return tuple(sorted(partitions, key=lambda each: (each.topic, each.number)))
