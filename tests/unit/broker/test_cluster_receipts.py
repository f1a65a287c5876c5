"""Acknowledgements at a node that does not know that another one keeps the group.

`WAYS` are those in which they arrive: receipts, the offsets of a share consumer, the nonces of our
own client, and the numbers of a gRPC stream.
"""

from __future__ import annotations

import asyncio
from array import array
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import msgspec
import pytest

from goqueue.cluster.records import PartitionKey, PartitionRecord
from goqueue.groups.stats import LeaveReason
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    ForeignReceiptError,
    GoQueueError,
    GroupNotFoundError,
    MetadataUnavailableError,
    UnknownMemberError,
    UnknownReceiptError,
)
from goqueue.model.internal_topics import CONSUMER_OFFSETS
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.grpc.queue_subscription import QueueSubscription, Wishes
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.receipts import Receipt
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.queues.runs import Run
from goqueue.queues.shards import QUEUE_TOPIC
from goqueue.queues.share.acknowledging import AcknowledgedOffsets, ShareAcks
from goqueue.queues.share.settlements import Settlement
from goqueue.queues.share.turns import ShareTurn, ShareTurns
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from support.brokers import publish
from support.cluster_brokers import one_of_three

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.queues.acquired_batch import Delivery
    from support.cluster_brokers import OneOfThree

ACK = Acknowledgement(Verdict.ACK)
NONCE = 0xABC
"""Of a delivery of the second message that this node knows nothing of."""


async def _by_receipt(broker: Broker) -> GoQueueError | None:
    receipt = Receipt("t", 0, 1, 1, NONCE, broker.queues.shard_number("g"))
    (told,) = await broker.acknowledger.settle_here([receipt], ACK)
    return told


async def _by_offset(broker: Broker) -> GoQueueError | None:
    place = TopicPartition("t", 0)
    said = {place: [AcknowledgedOffsets(1, 1, Verdict.ACK)]}
    return (await ShareAcks(broker).acknowledge("g", "somebody", said))[place]


async def _by_nonce(broker: Broker) -> GoQueueError | None:
    key = broker.queues.key(TopicPartition("t", 0))
    said = {key: [Settlement(ACK, [(1, 2)], array("Q", [NONCE]).tobytes())]}
    told = (await ShareAcks(broker).settle("g", said))[key]
    assert isinstance(told, list)
    return told[0].error if told else None


async def _by_number(broker: Broker) -> GoQueueError | None:
    key = broker.queues.key(TopicPartition("t", 0))
    run = Run("t", 0, key, 0, 99, broker.queues.group("g").queues[key], 0)
    run = msgspec.structs.replace(
        run, offsets=[1], counts=bytearray([1]), nonces=array("Q", [NONCE])
    )
    ((_, _, told),) = await broker.acknowledger.settle_runs("g", [(run, [0])], ACK)
    return told


WAYS = (_by_receipt, _by_offset, _by_nonce, _by_number)


async def _told(asking: Awaitable[GoQueueError | None]) -> GoQueueError | None:
    """Why it does not count, whether that is an answer or an error."""
    try:
        return await asking
    except GoQueueError as error:
        return error


async def _delivered(made: OneOfThree) -> list[Delivery]:
    """This node keeps the group, and has delivered the first message of two."""
    count = made.broker.groups.shard_count
    await made.offsets_topic(*[1] * count)
    await made.internal_topic(QUEUE_TOPIC, *[1] * count)
    await made.topic("t", (1, 2, 3))
    publish(made.broker, "t", b"one", b"two")
    made.commit_all("t")
    async with made.committing(QUEUE_TOPIC, CONSUMER_OFFSETS):
        while True:
            with suppress(CoordinatorUnavailableError):  # it loads what is there
                member = await made.broker.queue_members.join("g", ["t"], QueueSettings())
                return await made.broker.deliverer.poll(member, limit=1, max_wait_ms=1000)
            await asyncio.sleep(0.01)


@asynccontextmanager
async def _keeping(folder: Path) -> AsyncIterator[tuple[OneOfThree, Delivery]]:
    """A node that keeps a group and has delivered a message; nothing more is committed."""
    async with AsyncExitStack() as last, one_of_three(folder) as made:
        (first,) = await _delivered(made)
        try:
            yield made, first
        finally:  # what is stored at the stop
            await last.enter_async_context(made.committing(QUEUE_TOPIC, CONSUMER_OFFSETS))


async def _move(made: OneOfThree, leader: int | None, epoch: int) -> None:
    """The store says who leads; the node has not acted on it yet."""
    topic = made.broker.topics.catalogue.topic(QUEUE_TOPIC)
    record = PartitionRecord((1, 2, 3), (1, 2, 3), leader, epoch)
    await made.put(str(PartitionKey(topic.topic_id, made.broker.queues.shard_number("g"))), record)


@pytest.mark.parametrize("say", WAYS)
def test_the_node_that_keeps_a_group_refuses_what_it_does_not_know(
    tmp_path: Path, say: Callable[[Broker], Awaitable[GoQueueError | None]]
) -> None:
    async def scenario() -> None:
        async with _keeping(tmp_path) as (made, first):
            async with made.committing(QUEUE_TOPIC):
                assert await made.broker.acknowledger.settle_here([first.receipt], ACK) == [None]
                told = await _told(say(made.broker))
            assert isinstance(told, UnknownReceiptError | ForeignReceiptError)

    asyncio.run(scenario())


@pytest.mark.parametrize("say", WAYS)
def test_a_node_that_has_not_heard_that_another_one_keeps_the_group_refuses_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    say: Callable[[Broker], Awaitable[GoQueueError | None]],
) -> None:
    async def scenario() -> None:
        async with _keeping(tmp_path) as (made, _):
            shard = made.broker.queues.readable_shard(made.broker.queues.shard_number("g"))
            # Another one leads, this one leads anew and has not loaded, nobody does.
            for leader, epoch in ((2, 4), (1, 5), (None, 6)):
                await _move(made, leader, epoch)
                assert shard.state.is_led, "it has not given it up yet"
                told = await _told(say(made.broker))
                assert isinstance(told, CoordinatorUnavailableError), (leader, told)

            async def cut_off() -> None:
                raise MetadataUnavailableError("no member of etcd answers")

            monkeypatch.setattr(made.keeper, "catch_up", cut_off)
            told = await _told(say(made.broker))
            assert isinstance(told, CoordinatorUnavailableError)

    asyncio.run(scenario())


def test_a_group_is_said_to_be_absent_only_by_the_node_that_keeps_its_shard(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _keeping(tmp_path) as (made, _):
            number = made.broker.queues.shard_number
            absent = next(f"g{n}" for n in range(100) if number(f"g{n}") == number("g"))
            turns, acks = ShareTurns(made.broker), ShareAcks(made.broker)

            async def ask() -> list[GoQueueError | None]:
                closing = ShareTurn(absent, "m", must_exist=True)
                return [
                    await _told(asking)  # type: ignore[arg-type] # they answer, or raise
                    for asking in (
                        turns.take(closing, lambda wanted: wanted),
                        acks.acknowledge(absent, "m", {}),
                        acks.settle(absent, {}),
                    )
                ]

            async with made.committing(QUEUE_TOPIC):
                assert {type(each) for each in await ask()} == {GroupNotFoundError}
            await _move(made, 2, 4)
            assert all(isinstance(each, CoordinatorUnavailableError) for each in await ask())

    asyncio.run(scenario())


def test_a_receipt_is_not_called_used_before_its_use_is_committed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _keeping(tmp_path) as (made, first):
            settle = made.broker.acknowledger.settle_here
            once = asyncio.ensure_future(settle([first.receipt], ACK))
            await asyncio.sleep(0.05)
            again = asyncio.ensure_future(settle([first.receipt], ACK))
            await asyncio.sleep(0.2)
            assert not once.done()
            assert not again.done()
            async with made.committing(QUEUE_TOPIC):
                assert await once == [None]
                (told,) = await again
            assert isinstance(told, UnknownReceiptError)
            assert told.is_done

    asyncio.run(scenario())


def test_what_is_read_of_a_queue_group_is_told_once_it_is_committed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _keeping(tmp_path) as (made, first):
            broker = made.broker

            def in_flight() -> int:
                return sum(broker.queues.group("g").unacked.values())

            once = asyncio.ensure_future(broker.acknowledger.settle_here([first.receipt], ACK))
            await asyncio.sleep(0.05)
            told = asyncio.ensure_future(broker.groups.told(in_flight, "g"))
            asked = asyncio.ensure_future(
                made.ask(
                    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
                    0,
                    groups=[{"group_id": "g", "topics": None}],
                )
            )
            await asyncio.sleep(0.2)
            assert not any(each.done() for each in (once, told, asked))
            async with made.committing(QUEUE_TOPIC):
                assert await once == [None]
                assert await told == 0
                assert (await asked).groups[0].error_code == ErrorCode.none

    asyncio.run(scenario())


def test_a_stream_is_told_that_its_member_is_gone_only_by_the_node_that_keeps_the_group(
    tmp_path: Path,
) -> None:
    async def ended(made: OneOfThree) -> GoQueueError | None:
        """A member opens a stream, and its session times out."""
        broker, over = made.broker, asyncio.Event()
        async with made.committing(QUEUE_TOPIC):
            member = await broker.queue_members.join("g", ["t"], QueueSettings())

        async def write(_: object) -> None:
            over.set()

        async def requests() -> AsyncIterator[pb.SubscribeRequest]:
            await asyncio.Event().wait()
            yield pb.SubscribeRequest()

        wishes = Wishes(limit=1, window=1, visibility_ms=None, columns=False)
        stream = QueueSubscription(broker, member, write, wishes, lambda: False)
        running = asyncio.ensure_future(_told(stream.run(requests())))
        await over.wait()
        group = broker.queues.group("g")
        broker.queues.shard_of(group).end_member(
            group, member.member_id, LeaveReason.SESSION_TIMEOUT
        )
        async with made.committing(QUEUE_TOPIC):
            return await running

    async def scenario() -> None:
        async with _keeping(tmp_path) as (made, _):
            assert isinstance(await ended(made), UnknownMemberError)
            await _move(made, 2, 4)
            assert isinstance(await ended(made), CoordinatorUnavailableError)

    asyncio.run(scenario())
