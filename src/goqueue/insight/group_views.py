"""What people see of a group, whichever way it reads and whichever protocol its members speak."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.groups.consumer.protocol import PROTOCOL_TYPE, assigned_partitions
from goqueue.groups.describe import GroupListing, GroupType
from goqueue.model.errors import GroupNotFoundError
from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
from goqueue.queues.delivery.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.groups.service import Groups
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.service import Queues
    from goqueue.topics.catalogue import Topics

_EMPTY: Final = "Empty"
_STABLE: Final = "Stable"
_SHARE: Final = "share"
STICKY: Final = "sticky"
"""The assignor of Streams groups."""


class MemberView(msgspec.Struct, frozen=True):
    """One member, and the partitions that it holds, or takes from."""

    member_id: str
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...]
    protocol: GroupType
    """A KIP-848 group may have members of the classic protocol, too."""


class GroupLine(GroupListing, frozen=True, kw_only=True):
    """One line of a list of groups."""

    mode: Mode | None = None
    """How a queue group shares out its messages; None is a log group."""


class GroupView(msgspec.Struct, frozen=True):
    """One group with its members."""

    listing: GroupLine
    assignor: str
    members: tuple[MemberView, ...]


class GroupViews:
    """Every group: log groups, and the queue groups that may have the same names."""

    def __init__(self, topics: Topics, groups: Groups, queues: Queues) -> None:
        self._topics = topics
        self._groups = groups
        self._queues = queues

    def all(self) -> list[GroupLine]:
        """Every group, by name; those that the broker keeps for itself are left out."""
        found = {
            listing.group_id: _log_line(listing)
            for coordinator in self._groups.coordinators()
            for listing in coordinator.list_groups()
        }
        for group in self._queues:
            if is_listed(group):
                found[group.group_id] = _queue_line(group, found.get(group.group_id))
        return [found[group_id] for group_id in sorted(found)]

    def view(self, group_id: str) -> GroupView:
        """One group.

        Raises:
            GroupNotFoundError: there is none of that name.
        """
        coordinator = self._groups.coordinator(group_id)
        known = next(
            (each for each in coordinator.list_groups() if each.group_id == group_id), None
        )
        queue_group = self._queues.find(group_id)
        if queue_group is not None and is_listed(queue_group):
            line = _queue_line(queue_group, known)
            if queue_group.settings.mode is Mode.SHARED:
                return GroupView(line, "", self._shared_members(queue_group))
            if known is None:
                return GroupView(line, "", ())
        elif known is None:
            raise GroupNotFoundError(f"there is no group {group_id!r}")
        else:
            line = _log_line(known)
        if line.group_type is GroupType.STREAMS:
            found = coordinator.describe_streams(group_id).members
            members = tuple(
                MemberView(
                    each.member.member_id,
                    each.member.client_id,
                    each.member.client_host,
                    _ordered(TopicPartition(*part) for part in each.partitions),
                    GroupType.STREAMS,
                )
                for each in found
            )
            return GroupView(line, STICKY, members)
        if line.group_type is GroupType.CONSUMER:
            group = coordinator.describe_consumer(group_id)
            members = tuple(
                MemberView(
                    member.member_id,
                    member.client_id,
                    member.client_host,
                    self._named(member.assigned),
                    GroupType.CLASSIC if member.classic else GroupType.CONSUMER,
                )
                for member in group.members
            )
            return GroupView(line, group.assignor, members)
        classic = coordinator.describe_classic(group_id)
        members = tuple(
            MemberView(
                member.member_id,
                member.client_id,
                member.client_host,
                _ordered(
                    TopicPartition(*each) for each in assigned_partitions(member.assignment) or ()
                ),
                GroupType.CLASSIC,
            )
            for member in classic.members
        )
        return GroupView(line, classic.protocol_name, members)

    def _shared_members(self, group: QueueGroup) -> tuple[MemberView, ...]:
        return tuple(
            MemberView(
                member.member_id,
                member.client_id,
                member.client_host,
                self._named(self._queues.keys_of(member)),
                GroupType.SHARE,
            )
            for member in group.members
        )

    def _named(self, partitions: Iterable[TopicIdPartition]) -> tuple[TopicPartition, ...]:
        """Partitions by the names of their topics; those of deleted topics are left out."""
        topics = self._topics.catalogue.by_id
        return _ordered(
            TopicPartition(topics[topic_id].name, number)
            for topic_id, number in partitions
            if topic_id in topics
        )


def shared_state(group: QueueGroup) -> str:
    """The state of a queue group in which all members take from all partitions."""
    return _STABLE if len(group.members) else _EMPTY


def is_listed(group: QueueGroup) -> bool:
    """Whether lists show a queue group: not what the broker keeps, nor settings alone."""
    return not group.is_internal and not group.is_dormant


def _log_line(listing: GroupListing) -> GroupLine:
    return GroupLine(**msgspec.structs.asdict(listing))


def _queue_line(group: QueueGroup, known: GroupListing | None) -> GroupLine:
    """A queue group; who owns the partitions of an exclusive one, a consumer group knows."""
    mode = group.settings.mode
    if mode is Mode.SHARED:
        return GroupLine(
            group_id=group.group_id,
            group_type=GroupType.SHARE,
            protocol_type=_SHARE,
            state=shared_state(group),
            generation=group.members.epoch,
            member_count=len(group.members),
            mode=mode,
        )
    if known is not None:
        return msgspec.structs.replace(_log_line(known), mode=mode)
    return GroupLine(
        group_id=group.group_id,
        group_type=GroupType.CONSUMER,
        protocol_type=PROTOCOL_TYPE,
        state=_EMPTY,
        generation=0,
        member_count=0,
        mode=mode,
    )


def _ordered(partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(partitions, key=lambda each: (each.topic, each.partition)))
