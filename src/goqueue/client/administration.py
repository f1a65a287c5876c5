"""Topics, groups, offsets and transactions, as an administrator sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.client.errors import from_wire, raise_first
from goqueue.client.outgoing import to_ms
from goqueue.client.reading import start_fields, to_offsets, to_places
from goqueue.client.types import (
    Group,
    GroupOffset,
    Member,
    OffsetChange,
    Partition,
    Start,
    Time,
    Topic,
    TransactionInfo,
)
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from goqueue.client.channels import Channels
    from goqueue.model.errors import GoQueueError
    from goqueue.model.topic_partition import TopicPartition


class AsyncTopics:
    """`client.topics`."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    async def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Topic:
        """Make a topic, with the broker's number of partitions unless told otherwise."""
        request = pb.CreateTopicRequest(name=name, partitions=partitions, settings=settings or {})
        ask = self._channels.ask
        return _topic(await ask(lambda s: s.admin.CreateTopic, request, pb.Topic, again=False))

    async def list(self, *, include_internal: bool = False) -> list[Topic]:
        """Every topic, by name."""
        request = pb.ListTopicsRequest(include_internal=include_internal)
        answer = await self._channels.ask(
            lambda s: s.admin.ListTopics, request, pb.ListTopicsResponse
        )
        return [_topic(each) for each in answer.topics]

    async def describe(self, name: str) -> Topic:
        """One topic."""
        request = pb.TopicRequest(name=name)
        return _topic(await self._channels.ask(lambda s: s.admin.DescribeTopic, request, pb.Topic))

    async def configure(
        self,
        name: str,
        settings: Mapping[str, str] | None = None,
        *,
        unset: Iterable[str] = (),
    ) -> Topic:
        """Set some settings and take others back; those not named stay."""
        request = pb.ConfigureTopicRequest(name=name, set=settings or {}, unset=unset)
        return _topic(await self._channels.ask(lambda s: s.admin.ConfigureTopic, request, pb.Topic))

    async def grow(self, name: str, partitions: int) -> Topic:
        """Give a topic more partitions, so many in all."""
        request = pb.GrowTopicRequest(name=name, partitions=partitions)
        ask = self._channels.ask
        return _topic(await ask(lambda s: s.admin.GrowTopic, request, pb.Topic, again=False))

    async def delete(self, name: str) -> None:
        """Forget a topic and its messages."""
        request = pb.TopicRequest(name=name)
        await self._channels.ask(
            lambda s: s.admin.DeleteTopic, request, pb.DeleteTopicResponse, again=False
        )


class AsyncGroups:
    """`client.groups`."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    async def list(self) -> list[Group]:
        """Every group, by name, without members and offsets."""
        answer = await self._channels.ask(
            lambda s: s.admin.ListGroups, pb.ListGroupsRequest(), pb.ListGroupsResponse
        )
        return [_group(each) for each in answer.groups]

    async def describe(self, name: str) -> Group:
        """One group."""
        request = pb.GroupRequest(name=name)
        return _group(await self._channels.ask(lambda s: s.admin.DescribeGroup, request, pb.Group))

    async def delete(self, name: str) -> None:
        """Delete a group without members, with its offsets."""
        request = pb.GroupRequest(name=name)
        await self._channels.ask(
            lambda s: s.admin.DeleteGroup, request, pb.DeleteGroupResponse, again=False
        )


class AsyncOffsets:
    """`client.offsets`: of groups whose members are elsewhere, or gone."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    async def fetch(
        self, group: str, partitions: Sequence[TopicPartition] = ()
    ) -> list[GroupOffset]:
        """How far a group has read; without partitions, all that it has committed."""
        request = pb.FetchOffsetsRequest(
            group=group,
            partitions=(pb.TopicPartition(topic=t, partition=p) for t, p in partitions),
        )
        answer = await self._channels.ask(
            lambda s: s.offsets.FetchOffsets, request, pb.FetchOffsetsResponse
        )
        return [_group_offset(each) for each in answer.offsets]

    async def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Say where a group goes on reading.

        Raises:
            GoQueueError: of the first partition that was refused; others may have been committed.
        """
        request = pb.CommitOffsetsRequest(
            group=group,
            offsets=to_offsets(offsets),
        )
        answer = await self._channels.ask(
            lambda s: s.offsets.CommitOffsets, request, pb.CommitOffsetsResponse
        )
        raise_first(answer.outcomes)

    async def reset(
        self,
        group: str,
        topic: str,
        to: Start,
        *,
        partitions: Sequence[int] = (),
        dry_run: bool = False,
    ) -> list[OffsetChange]:
        """Let a group go on reading elsewhere; with `dry_run`, only say what would change."""
        fields = start_fields(to)
        request = pb.ResetOffsetsRequest(
            group=group,
            topic=topic,
            partitions=partitions,
            dry_run=dry_run,
            to=fields.pop("start"),
            **fields,
        )
        answer = await self._channels.ask(
            lambda s: s.offsets.ResetOffsets, request, pb.ResetOffsetsResponse
        )
        return [
            OffsetChange(
                each.topic,
                each.partition,
                each.before if each.HasField("before") else None,
                each.after,
            )
            for each in answer.changes
        ]


class AsyncTransactions:
    """`client.transactions`: what an administrator sees."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    async def list(self, *states: str) -> list[TransactionInfo]:
        """The transactional ids in any of the states, by name; without states, all."""
        answer = await self._channels.ask(
            lambda s: s.transactions.ListTransactions,
            pb.ListTransactionsRequest(states=states),
            pb.ListTransactionsResponse,
        )
        return [_transaction(each) for each in answer.transactions]

    async def describe(self, transactional_id: str) -> TransactionInfo:
        """One transactional id."""
        request = pb.DescribeTransactionRequest(transactional_id=transactional_id)
        return _transaction(
            await self._channels.ask(
                lambda s: s.transactions.DescribeTransaction, request, pb.Transaction
            )
        )

    async def abort(self, transactional_id: str) -> TransactionInfo:
        """End a transaction that hangs; its producer is fenced."""
        request = pb.AbortTransactionRequest(transactional_id=transactional_id)
        return _transaction(
            await self._channels.ask(
                lambda s: s.transactions.AbortTransaction, request, pb.Transaction, again=False
            )
        )


def _topic(topic: pb.Topic) -> Topic:
    return Topic(
        topic.name,
        topic.topic_id,
        topic.is_internal,
        dict(topic.settings),
        tuple(
            Partition(each.partition, each.log_start, each.log_end, each.size_bytes)
            for each in topic.partitions
        ),
    )


def _group(group: pb.Group) -> Group:
    members = tuple(
        Member(
            each.member_id,
            each.client_id,
            each.client_host,
            tuple(to_places(each.partitions)),
        )
        for each in group.members
    )
    return Group(
        group.name,
        group.protocol,
        group.state,
        group.generation,
        group.member_count,
        members,
        tuple(map(_group_offset, group.offsets)),
    )


def _group_offset(offset: pb.CommittedOffset) -> GroupOffset:
    return GroupOffset(
        offset.topic,
        offset.partition,
        offset.offset if offset.HasField("offset") else None,
        offset.log_end,
        offset.lag,
    )


def _transaction(transaction: pb.Transaction) -> TransactionInfo:
    return TransactionInfo(
        transaction.transactional_id,
        transaction.transaction_id,
        transaction.state,
        transaction.producer_id,
        transaction.epoch,
        transaction.transaction_timeout_ms,
        transaction.started_at_ms or None,
        transaction.updated_at_ms,
        tuple(to_places(transaction.partitions)),
    )


class AsyncReceipts:
    """`client.receipts`: whoever has a receipt may acknowledge its message.

    All of them raise `UnknownReceiptError` for a receipt that was used, was never given or expired
    before a restart of the broker, and `ExpiredReceiptError` for one whose time is over.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    async def ack(self, receipt_handle: str) -> None:
        """It is processed."""
        request = pb.AckRequest(receipt_handle=receipt_handle)
        await self._channels.ask(lambda s: s.acks.Ack, request, pb.AckResponse, again=False)

    async def nack(
        self, receipt_handle: str, *, delay: Time | None = None, reason: str = ""
    ) -> None:
        """It failed for now. It is redelivered after a delay (seconds), or the group's back-off."""
        request = pb.NackRequest(
            receipt_handle=receipt_handle, reason=reason, delay_ms=to_ms(delay)
        )
        await self._channels.ask(lambda s: s.acks.Nack, request, pb.NackResponse, again=False)

    async def reject(self, receipt_handle: str, reason: str) -> None:
        """It will never succeed: it is dead-lettered."""
        request = pb.RejectRequest(receipt_handle=receipt_handle, reason=reason)
        await self._channels.ask(lambda s: s.acks.Reject, request, pb.RejectResponse, again=False)

    async def extend(self, receipt_handle: str, seconds: Time) -> None:
        """It takes so much longer from now on."""
        request = pb.ExtendVisibilityRequest(
            receipt_handle=receipt_handle, extend_ms=to_ms(seconds) or 0
        )
        await self._channels.ask(
            lambda s: s.acks.ExtendVisibility, request, pb.ExtendVisibilityResponse
        )

    async def ack_all(self, receipt_handles: Sequence[str]) -> list[GoQueueError | None]:
        """All of them are processed; for each, why that does not count, or None."""
        request = pb.BatchAckRequest(receipt_handles=receipt_handles)
        response = await self._channels.ask(
            lambda s: s.acks.BatchAck, request, pb.BatchAckResponse, again=False
        )
        return [
            from_wire(each.error) if each.HasField("error") else None for each in response.outcomes
        ]
