"""Messages and offsets in a transaction, for HTTP and gRPC.

Their clients do not make batches themselves: the broker adds the partitions to the transaction and
numbers the messages, unless the producer numbers them itself and so may send them twice. Their
members are kept by the broker: what a member may commit it may stage, no more, only its own
partitions, and only while it is in its place. Groups without members are staged for by whoever
reads for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.groups.messages import NO_GENERATION, CommitRequest, OffsetToCommit, PartitionOutcomes
from goqueue.model.errors import GroupModeError, InvalidTransactionRequestError
from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.publishing.messages import ProducerSequence, misfits_among
from goqueue.publishing.requests import Acks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goqueue.groups.polling.memberships import Memberships
    from goqueue.partitions.partitions import Partitions
    from goqueue.publishing.messages import MessageWriter, Misfits
    from goqueue.publishing.new_messages import MessageResult, NewMessage
    from goqueue.queues.service import Queues
    from goqueue.topics.catalogue import Topics
    from goqueue.transactions.messages import Identity
    from goqueue.transactions.service import Transactions


class TransactionPublished(NamedTuple):
    """What became of messages that were published in a transaction."""

    results: list[MessageResult]
    """One for each message, in their order."""
    duplicate: bool
    """They were there already, as the producer's own numbers told."""


class TransactionMessages(NamedTuple):
    """Messages of one topic that are to be published in a transaction."""

    transactional_id: str
    identity: Identity
    topic_name: str
    messages: Sequence[NewMessage]
    portions: dict[int, list[int]]
    """Partitions, and which of the messages go there."""
    misfits: Misfits | None


class TransactionWriter:
    """Publishes messages as part of a producer's open transaction."""

    def __init__(
        self,
        topics: Topics,
        partitions: Partitions,
        writer: MessageWriter,
        transactions: Transactions,
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._writer = writer
        self._transactions = transactions

    async def publish(
        self,
        identity: Identity,
        topic_name: str,
        messages: Sequence[NewMessage],
        first_sequence: int | None = None,
    ) -> TransactionPublished:
        """Publish messages to one topic; those for one partition are stored all or none.

        With `first_sequence`, the producer's own number of the first, all must go to the same
        partition.

        Raises:
            TopicError: there is no such topic or partition; nothing was published.
            TransactionError, FencedProducerError: the producer may not; nothing was published.
        """
        topic = self._topics.catalogue.topic(topic_name)
        portions: dict[int, list[int]] = {}
        misfits = await self._writer.checked(topic_name, messages)
        for index, message in enumerate(messages):
            portions.setdefault(self._writer.partition_of(topic, message), []).append(index)
        if first_sequence is not None and len(portions) > 1:
            raise InvalidTransactionRequestError(
                "messages with a sequence go to one partition: name it, or give them the same key"
            )
        places = [TopicPartition(topic_name, number) for number in portions]
        for place in places:
            self._topics.catalogue.require(place)
        transactional_id = await self._transactions.find_id(identity.producer_id)
        await self._transactions.add_partitions(transactional_id, identity, places)
        known = None if first_sequence is None else dict.fromkeys(portions, first_sequence)
        asked = TransactionMessages(
            transactional_id, identity, topic_name, messages, portions, misfits
        )
        return await self._numbered(asked, known)

    async def _numbered(
        self, asked: TransactionMessages, sequences: dict[int, int] | None
    ) -> TransactionPublished:
        """Store messages under their numbers; without any, they continue what is there."""
        if sequences is None:
            sequences = {
                number: self._next_sequence(
                    TopicPartition(asked.topic_name, number), asked.identity
                )
                for number in asked.portions
            }
        return await self._store(asked, sequences)

    async def _store(
        self, asked: TransactionMessages, sequences: dict[int, int]
    ) -> TransactionPublished:
        """Append everything before anything is awaited, so that the numbers are in order."""
        transactional_id, identity, topic_name, messages, portions, misfits = asked
        under_way = []
        for number, indexes in portions.items():
            chosen = [messages[index]._replace(partition=number) for index in indexes]
            producer = ProducerSequence(
                *identity,
                sequences[number],
                is_transactional=True,
                transactional_id=transactional_id,
            )
            checked = None if misfits is None else misfits_among(misfits, indexes)
            publishing = self._writer.begin(topic_name, chosen, Acks.ALL, producer, checked=checked)
            under_way.append((indexes, publishing))
        found: dict[int, MessageResult] = {}
        for indexes, publishing in under_way:
            found.update(zip(indexes, await publishing.settled(), strict=True))
        return TransactionPublished(
            [found[index] for index in range(len(messages))],
            all(publishing.is_duplicate for _, publishing in under_way),
        )

    def _next_sequence(self, place: TopicPartition, identity: Identity) -> int:
        sequences = self._partitions.partition(place).sequences
        return (sequences.last_sequence(*identity) + 1) % (1 << 31)


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
        transactional_id = await self._transactions.find_id(identity.producer_id)
        request = CommitRequest(
            group_id=group_id,
            member_id=member_id or "",
            generation_or_epoch=epoch,
            offsets=tuple(
                OffsetToCommit(topic=place.topic, partition=place.partition, offset=offset)
                for place, offset in offsets.items()
            ),
        )
        return await self._transactions.stage_offsets(
            transactional_id, identity, request, adds=True
        )
