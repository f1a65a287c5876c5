"""Turning a group from one protocol to another.

An empty group becomes one of any kind. A group with members turns from the classic protocol to the
KIP-848 one, and back.

Either way the members keep what they own, and the generation or epoch counts on. After an upgrade
the classic members are served by the KIP-848 group. After a downgrade they are told to join again,
and until then may go on speaking for the epoch that each of them had reached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.groups.classic.group import ClassicGroup
from goqueue.groups.classic.member import ClassicMember
from goqueue.groups.consumer.group import ConsumerGroup, by_topic_id
from goqueue.groups.consumer.member import ConsumerMember
from goqueue.groups.consumer.protocol import (
    PROTOCOL_TYPE,
    assigned_partitions,
    has_user_data,
    read_subscription,
)
from goqueue.groups.messages import ClassicProtocols
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    GroupNotFoundError,
    RebalanceInProgressError,
)

if TYPE_CHECKING:
    from goqueue.groups.describe import Group
    from goqueue.groups.effects import Effects
    from goqueue.groups.topics import TopicCatalogue
    from goqueue.model.topic_partition import TopicIdPartition

_KNOWN_ASSIGNORS: Final = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""The client-side assignors whose own data in assignments nobody misses."""


def hand_over(group: Group, out: Effects) -> int:
    """Make place for a group of another kind where one has no members; returns its last epoch."""
    if isinstance(group, ClassicGroup):
        return group.generation
    out.persist.extend(group.forget())
    return group.epoch


def upgrade(
    group: ClassicGroup, catalogue: TopicCatalogue, now_ms: int, out: Effects
) -> ConsumerGroup:
    """A KIP-848 group with the members of a classic one, which is left as it is.

    Members that have never been answered are left out: they join again, like everyone who waits.

    Raises:
        GroupNotFoundError: the group cannot be converted, or may not be.
    """
    if not group.settings.migration_policy.may_upgrade:
        raise _refused(group, "group.consumer.migration.policy does not let it be converted")
    if group.roster.protocol_type != PROTOCOL_TYPE:
        raise _refused(group, f"they are of type {group.roster.protocol_type!r}")
    successor = ConsumerGroup(group.group_id, group.settings, group.stats, epoch=group.generation)
    taken: set[TopicIdPartition] = set()
    for member in group.roster.members.values():
        if member.member_id not in group.roster.new:
            adopted = _to_consumer(group, member, catalogue, frozenset(taken))
            taken |= adopted.assigned
            successor.adopt(adopted, now_ms)
    converted = f"group {group.group_id!r} was converted: join again"
    for token in group.roster.joining.values():
        # Kafka says REBALANCE_IN_PROGRESS, which aiokafka does not expect here: it gives up.
        out.reply(token, CoordinatorUnavailableError(converted))
    for token in group.roster.syncing.values():
        out.reply(token, RebalanceInProgressError(converted))
    return successor


def _to_consumer(
    group: ClassicGroup,
    member: ClassicMember,
    catalogue: TopicCatalogue,
    taken: frozenset[TopicIdPartition],
) -> ConsumerMember:
    subscription = read_subscription(member.metadata(group.protocol_name))
    assigned = assigned_partitions(member.assignment)
    if subscription is None or assigned is None:
        raise _refused(group, f"the subscription or assignment of {member.member_id!r} is garbled")
    if has_user_data(member.assignment) and group.protocol_name not in _KNOWN_ASSIGNORS:
        raise _refused(group, f"the assignor {group.protocol_name!r} keeps data in assignments")
    epoch = group.generation
    if member.carried_generation is not None:
        epoch = member.carried_generation
    parts = by_topic_id(assigned, catalogue) - taken
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        subscribed_names=subscription.topics,
        epoch=epoch,
        previous_epoch=epoch,
        assigned=parts,
        target=parts,
        classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
    )


def _refused(group: ClassicGroup, reason: str) -> GroupNotFoundError:
    return GroupNotFoundError(
        f"group {group.group_id!r} has members of the classic protocol, and {reason}: set "
        "group.protocol=classic, or stop them first"
    )


def may_downgrade(group: ConsumerGroup) -> bool:
    """Whether only classic members are left, and they may become a classic group again."""
    return group.settings.migration_policy.may_downgrade and group.has_only_classic_members


def downgrade(group: ConsumerGroup, now_ms: int, out: Effects) -> ClassicGroup:
    """A classic group with the members of a KIP-848 one, which rebalances at once."""
    successor = ClassicGroup(group.group_id, group.settings, group.stats)
    out.persist.extend(group.forget())
    members = [
        ClassicMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.classic.session_timeout_ms,
            member.rebalance_timeout_ms,
            member.classic.protocols,
            group.classic_assignment(member, member.owned),
            member.epoch,
        )
        for member in group.roster.members.values()
        if member.classic is not None
    ]
    successor.take_over(members, group.epoch, now_ms, out)
    return successor
