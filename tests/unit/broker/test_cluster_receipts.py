"""Receipts at a node that does not know that another one keeps the group."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING

from goqueue.cluster.records import PartitionKey, PartitionRecord
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    MetadataUnavailableError,
    UnknownReceiptError,
)
from goqueue.model.internal_topics import CONSUMER_OFFSETS
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.receipts import Receipt
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.queues.shards import QUEUE_TOPIC
from support.brokers import publish
from support.cluster_brokers import one_of_three

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from goqueue.queues.acquired_batch import Delivery
    from support.cluster_brokers import OneOfThree

ACK = Acknowledgement(Verdict.ACK)


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


def _elsewhere(made: OneOfThree) -> Receipt:
    """Of a delivery of the second message that this node knows nothing of."""
    return Receipt("t", 0, 1, 1, 0xABC, made.broker.queues.shard_number("g"))


async def _move(made: OneOfThree, leader: int | None, epoch: int) -> None:
    """The store says who leads; the node has not acted on it yet."""
    topic = made.broker.topics.catalogue.topic(QUEUE_TOPIC)
    record = PartitionRecord((1, 2, 3), (1, 2, 3), leader, epoch)
    await made.put(str(PartitionKey(topic.topic_id, made.broker.queues.shard_number("g"))), record)


def test_the_node_that_keeps_a_group_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _keeping(tmp_path) as (made, first):
            settle = made.broker.acknowledger.settle_here
            async with made.committing(QUEUE_TOPIC):
                counts, unknown = await settle([first.receipt, _elsewhere(made)], ACK)
            assert counts is None
            assert isinstance(unknown, UnknownReceiptError)

    asyncio.run(scenario())


def test_a_node_that_has_not_heard_that_another_one_keeps_the_group_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with _keeping(tmp_path) as (made, _):
            settle = made.broker.acknowledger.settle_here
            shard = made.broker.queues.readable_shard(made.broker.queues.shard_number("g"))
            # Another one leads, this one leads anew and has not loaded, nobody does.
            for leader, epoch in ((2, 4), (1, 5), (None, 6)):
                await _move(made, leader, epoch)
                assert shard.state.is_led, "it has not given it up yet"
                (told,) = await settle([_elsewhere(made)], ACK)
                assert isinstance(told, CoordinatorUnavailableError), (leader, told)

            async def cut_off() -> None:
                raise MetadataUnavailableError("no member of etcd answers")

            monkeypatch.setattr(made.keeper, "catch_up", cut_off)
            (told,) = await settle([_elsewhere(made)], ACK)
            assert isinstance(told, CoordinatorUnavailableError)

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
