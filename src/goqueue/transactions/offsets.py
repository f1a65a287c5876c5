"""Offsets in a transaction, for protocols whose members are kept by the broker.

What a member may commit it may stage, no more: only its own partitions, and only while it is in
its place. Groups without members are staged for by whoever reads for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.groups.messages import NO_GENERATION, CommitRequest, OffsetToCommit, PartitionOutcomes
from goqueue.model.errors import GroupModeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.groups.polling.memberships import Memberships
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.queues.service import Queues
    from goqueue.topics.catalogue import Topics
    from goqueue.transactions.messages import Identity
    from goqueue.transactions.service import Transactions


class TransactionOffsets:
    """Stages the offsets of groups in transactions."""

    def __init__(
        self,
        topics: Topics,
        queues: Queues,
        memberships: Memberships,
        transactions: Transactions,
    ) -> None:
        self._topics = topics
        self._queues = queues
        self._memberships = memberships
        self._transactions = transactions

    async def stage(
        self,
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
            self._topics.catalogue.require(place)
        queue_group = self._queues.find(group_id)
        if queue_group is not None and not queue_group.is_dormant:
            raise GroupModeError(
                f"group {group_id!r} is a queue group: no transaction can set its offsets"
            )
        epoch = NO_GENERATION
        if member_id:
            member = self._memberships.member(group_id, member_id, generation)
            self._memberships.check_owner(member, offsets)
            epoch = member.epoch
        transactional_id = self._transactions.transactional_id_of(identity.producer_id)
        await self._transactions.add_offsets(transactional_id, identity, group_id)
        request = CommitRequest(
            group_id=group_id,
            member_id=member_id or "",
            generation_or_epoch=epoch,
            offsets=tuple(
                OffsetToCommit(topic=place.topic, partition=place.partition, offset=offset)
                for place, offset in offsets.items()
            ),
        )
        return await self._transactions.stage_offsets(transactional_id, identity, request)
