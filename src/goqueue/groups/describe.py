"""What administrators see of groups."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from goqueue.groups.classic.group import ClassicGroup
from goqueue.groups.classic.state import ClassicState
from goqueue.groups.consumer.group import ConsumerGroup
from goqueue.groups.consumer.member import ConsumerMember
from goqueue.groups.consumer.protocol import PROTOCOL_TYPE, assigned_partitions
from goqueue.groups.streams.group import StreamsGroup
from goqueue.model.topic_partition import TopicIdPartition, TopicPartition

Group: TypeAlias = ClassicGroup | ConsumerGroup | StreamsGroup


class GroupType(StrEnum):
    """Which protocol a group speaks."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    STREAMS = "streams"
    SHARE = "share"
    """Its members share messages, not partitions; the broker's queues know it, not this package."""


class GroupListing(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a list of groups."""

    group_id: str
    group_type: GroupType
    protocol_type: str
    state: str
    generation: int
    """The generation of a classic group, the epoch of any other."""
    member_count: int


class ClassicMemberDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One member of a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class ClassicDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A classic group. Metadata and assignments are shown only while it is stable."""

    group_id: str
    state: ClassicState
    protocol_type: str
    protocol_name: str
    members: tuple[ClassicMemberDescription, ...]


class ConsumerDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A KIP-848 group."""

    group_id: str
    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: tuple[ConsumerMember, ...]


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """Which partitions the members of a group read: a classic group names topics, KIP-848 ids."""

    named: frozenset[TopicPartition] = frozenset()
    with_ids: frozenset[TopicIdPartition] = frozenset()
    """Also those that are on their way from one member to another."""
    is_subscriber: bool = False
    """Its members subscribe to topics, or did; False: offsets were committed from outside."""


def reading_of(group: Group) -> Reading:
    """What the members of a group read, also while it rebalances."""
    if isinstance(group, StreamsGroup):
        tasks = {task for each in group.roster.members.values() for task in each.owned}
        return Reading(named=group.partitions_of(tasks), is_subscriber=True)
    if isinstance(group, ConsumerGroup):
        members = group.roster.members.values()
        with_ids = {part for each in members for part in each.assigned | each.target}
        return Reading(with_ids=frozenset(with_ids), is_subscriber=True)
    if group.roster.protocol_type != PROTOCOL_TYPE:
        return Reading()
    named = {
        part
        for each in group.roster.members.values()
        for part in assigned_partitions(each.assignment) or ()
    }
    return Reading(named=frozenset(named), is_subscriber=True)


def type_of(group: Group) -> GroupType:
    """Which protocol a group speaks."""
    if isinstance(group, StreamsGroup):
        return GroupType.STREAMS
    return GroupType.CONSUMER if isinstance(group, ConsumerGroup) else GroupType.CLASSIC


def list_group(group: Group) -> GroupListing:
    """The line of one group."""
    group_type = type_of(group)
    if isinstance(group, ClassicGroup):
        protocol_type, generation = group.roster.protocol_type or "", group.generation
    else:
        protocol_type, generation = group_type.value, group.epoch
    return GroupListing(
        group_id=group.group_id,
        group_type=group_type,
        protocol_type=protocol_type,
        state=group.state.value,
        generation=generation,
        member_count=len(group.roster.members),
    )


def describe_classic(group: ClassicGroup) -> ClassicDescription:
    """The whole of a classic group."""
    is_stable = group.state is ClassicState.STABLE
    return ClassicDescription(
        group_id=group.group_id,
        state=group.state,
        protocol_type=group.roster.protocol_type or "",
        protocol_name=(group.protocol_name or "") if is_stable else "",
        members=tuple(
            ClassicMemberDescription(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata(group.protocol_name) if is_stable else b"",
                assignment=member.assignment if is_stable else b"",
            )
            for member in group.roster.members.values()
        ),
    )


def describe_consumer(group: ConsumerGroup) -> ConsumerDescription:
    """The whole of a KIP-848 group."""
    return ConsumerDescription(
        group_id=group.group_id,
        state=group.state.value,
        epoch=group.epoch,
        target_epoch=group.target_epoch,
        assignor=group.assignor,
        members=tuple(group.roster.members.values()),
    )
