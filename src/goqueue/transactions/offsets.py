"""Offsets in a transaction, for protocols whose members are kept by the broker.

What a member may commit it may stage, no more: only its own partitions, and only while it is in
its place. Groups without members are staged for by whoever reads for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from goqueue.groups.messages import NO_GENERATION, CommitRequest, OffsetToCommit
from goqueue.model.errors import GroupModeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.groups.messages import PartitionOutcomes
    from goqueue.groups.polling.memberships import Memberships
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.queues.service import Queues
    from goqueue.topics.catalogue import Topics
    from goqueue.transactions.messages import Identity
    from goqueue.transactions.service import Transactions


class TransactionOffsetServices(Protocol):
    """What offsets in a transaction need."""

    topics: Topics
    queues: Queues
    memberships: Memberships
    transactions: Transactions


async def stage_offsets(
    services: TransactionOffsetServices,
    identity: Identity,
    group_id: str,
    offsets: Mapping[TopicPartition, int],
    *,
    member_id: str | None = None,
    generation: int | None = None,
) -> PartitionOutcomes:
    """Note how far a group has read; it counts with the commit of the producer's transaction.

    Raises:
        TopicError: there is no such partition.
        GroupError: the member may not, or the group's messages are acknowledged one by one.
        TransactionError: the producer may not.
    """
    for place in offsets:
        services.topics.catalogue.require(place)
    queue_group = services.queues.find(group_id)
    if queue_group is not None and not queue_group.is_dormant:
        raise GroupModeError(
            f"group {group_id!r} is a queue group: it has no offsets that a transaction could set"
        )
    epoch = NO_GENERATION
    if member_id:
        member = services.memberships.member(group_id, member_id, generation)
        services.memberships.check_owner(member, offsets)
        epoch = member.epoch
    transactional_id = services.transactions.transactional_id_of(identity.producer_id)
    await services.transactions.add_offsets(transactional_id, identity, group_id)
    request = CommitRequest(
        group_id=group_id,
        member_id=member_id or "",
        generation_or_epoch=epoch,
        offsets=tuple(
            OffsetToCommit(topic=place.topic, partition=place.partition, offset=offset)
            for place, offset in offsets.items()
        ),
    )
    return await services.transactions.stage_offsets(transactional_id, identity, request)
