"""Dead letters of the last hour, against a broker whose clock the test holds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from goqueue.insight.new_dead_letters import DeadLetterCount
from goqueue.insight.overview import take_inventory
from goqueue.model.pipeline_reports import PipelineFields, QueryReport
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.http.operations.attention import attention
from goqueue.queues.dead_letters.redrive_engine import RedriveRequest
from support.brokers import publish, running_broker
from support.clocks import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker

MINUTE_MS = 60_000


async def make(broker: Broker, *topics: str) -> None:
    for each in topics:
        await broker.create_topic(each, 2)


async def titles(broker: Broker) -> list[str]:
    inventory = await take_inventory(broker, connections=0)
    return [each.title for each in attention(broker, inventory, broker.history.lately(), None)]


def test_letters_that_somebody_publishes_need_attention_for_an_hour(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            await make(broker, "orders", "orders.dlq")
            assert await broker.new_dead_letters.all() == []
            publish(broker, "orders.dlq", b"a", b"b")
            assert await titles(broker) == ["2 dead letters of orders"]
            clock.advance(50 * MINUTE_MS)
            publish(broker, "orders.dlq", b"c")
            assert await titles(broker) == ["3 dead letters of orders"]
            clock.advance(11 * MINUTE_MS)
            assert await titles(broker) == ["1 dead letter of orders"]
            clock.advance(60 * MINUTE_MS)
            assert await titles(broker) == []
            assert await broker.letters.count("orders") == 3

    asyncio.run(scenario())


def test_a_new_start_knows_the_letters_of_the_last_hour(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            await make(broker, "orders", "orders.dlq")
            publish(broker, "orders.dlq", b"old")
            clock.advance(61 * MINUTE_MS)
            publish(broker, "orders.dlq", b"new")
        async with running_broker(tmp_path, clock=clock) as broker:
            assert await broker.new_dead_letters.all() == [
                DeadLetterCount(1, "orders.dlq", "orders")
            ]

    asyncio.run(scenario())


def test_letters_that_went_back_or_were_purged_need_nobody(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await make(broker, "orders", "orders.dlq", "bills", "bills.dlq")
            publish(broker, "orders.dlq", b"a")
            publish(broker, "bills.dlq", b"b", b"c")
            assert await titles(broker) == ["2 dead letters of bills", "1 dead letter of orders"]
            redrive = broker.redrives.begin(RedriveRequest("orders"))
            assert redrive.task is not None
            await redrive.task
            assert await titles(broker) == ["2 dead letters of bills"]
            await broker.partitions.partition(TopicPartition("bills.dlq", 0)).delete_before(2)
            assert await titles(broker) == []

    asyncio.run(scenario())


def test_letters_of_a_pipeline_are_found_where_it_says_that_it_puts_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await make(broker, "rejected", "orders.dlq")
            queries = (
                QueryReport(name="letters", dead_letters="rejected"),
                QueryReport(name="more-letters", dead_letters="orders.dlq"),
                QueryReport(name="gone", dead_letters="no-such-topic"),
                QueryReport(name="totals", sink="topic revenue"),
            )
            said = PipelineFields(state="running", queries=queries)
            await broker.pipelines.put("revenue", said)
            assert await titles(broker) == []
            publish(broker, "rejected", b"a", b"b")
            publish(broker, "orders.dlq", b"c")
            assert await broker.new_dead_letters.all() == [
                DeadLetterCount(2, "rejected", pipeline="revenue"),
                DeadLetterCount(1, "orders.dlq", source="orders"),
            ]

    asyncio.run(scenario())
