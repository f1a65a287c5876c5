"""Receipts on a partition that many groups read: whose they are, and what it costs to find out."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from goqueue.model.errors import ReceiptError, UnknownReceiptError
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.receipts import Receipt
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.queues.shards import QUEUE_TOPIC
from support.brokers import publish, running_broker

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.queues.acquired_batch import Delivery

ACK = Acknowledgement(Verdict.ACK)
REJECT = Acknowledgement(Verdict.REJECT, "never")


async def handed_to(broker: Broker, group_id: str) -> list[Delivery]:
    member = await broker.queue_members.join(group_id, ["t"], QueueSettings())
    return await broker.deliverer.poll(member, limit=100, max_wait_ms=0)


def test_each_receipt_finds_its_group_among_hundreds(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1, {})
            publish(broker, "t", b"one", b"two")
            handed = {f"g{number}": await handed_to(broker, f"g{number}") for number in range(200)}
            receipts = [each.receipt for taken in handed.values() for each in taken]
            receipts.reverse()
            assert await broker.acknowledger.settle(receipts, ACK) == [None] * 400
            assert all(
                queue.start == 2 for group in broker.queues for queue in group.queues.values()
            )

    asyncio.run(scenario())


def test_others_have_their_turn_while_receipts_of_nobody_are_looked_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1, {})
            publish(broker, "t", b"one")
            for number in range(100):
                await handed_to(broker, f"g{number}")
            turns = 0

            async def others() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            task = asyncio.create_task(others())
            forged = [Receipt("t", 0, 0, 1, number) for number in range(200)]
            outcomes = await broker.acknowledger.settle(forged, ACK)
            task.cancel()
            assert all(isinstance(each, UnknownReceiptError) for each in outcomes)
            assert turns >= 5

    asyncio.run(scenario())


def test_whether_the_message_of_a_used_receipt_is_done_is_for_its_group_to_say(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1, {})
            publish(broker, "t", b"one")
            groups = [f"g{number}" for number in range(3)]
            handed = {group_id: (await handed_to(broker, group_id))[0] for group_id in groups}
            used = handed["g1"].receipt
            assert await broker.acknowledger.settle([used], ACK) == [None]
            for group_id, is_done in {"g0": 0, "g1": 1, "g2": 0, None: 0}.items():
                (error,) = await broker.acknowledger.settle([used], ACK, group_id=group_id)
                assert isinstance(error, UnknownReceiptError)
                assert error.is_done == is_done

    asyncio.run(scenario())


def test_a_message_is_settled_once_however_many_groups_a_request_speaks_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            settings = {"cleanup.policy": "delete", "goqueue.fsync": "always"}
            made = await broker.topics.create(QUEUE_TOPIC, 8, settings, internal=True)
            await broker.partitions.open_topic(made)
            await broker.create_topic("t", 1, {})
            publish(broker, "t", b"one")
            (mine,), (other,) = await handed_to(broker, "g"), await handed_to(broker, "h")
            both = broker.acknowledger.settle([mine.receipt, other.receipt], REJECT)
            first = asyncio.create_task(both)
            await asyncio.sleep(0)  # now its first store is on the way to the disk
            (late,) = await broker.acknowledger.settle([other.receipt], ACK)
            assert await first == [None, None]
            assert isinstance(late, ReceiptError)

    asyncio.run(scenario())
