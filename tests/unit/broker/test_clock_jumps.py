"""A wall clock that is set: nothing is deleted by its age, and delayed messages follow it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from goqueue.insight.overview import take_inventory
from goqueue.metrics import names
from goqueue.model.errors import InvalidTimestampError
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.http.operations.attention import attention
from goqueue.publishing.new_messages import NewMessage
from goqueue.queues.delivery.settings import QueueSettings
from support.brokers import publish, read_all, running_broker
from support.clocks import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS
NOW_MS = 1_700_000_000_000


async def _topic(broker: Broker) -> None:
    await broker.create_topic(
        "t", 1, {"internal.segment.bytes": "1024", "retention.ms": str(DAY_MS)}
    )
    for _ in range(20):
        publish(broker, "t", b"." * 200)


def _start(broker: Broker) -> int:
    return broker.partitions.partition(TopicPartition("t", 0)).log_start


# --- Retention -----------------------------------------------------------------------------------


def test_a_jump_of_ten_days_deletes_nothing_until_somebody_accepts_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        clock = ManualClock(NOW_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            await _topic(broker)
            maintenance = broker.maintenance()
            clock.jump(10 * DAY_MS)
            assert await maintenance.expire() == 0
            with caplog.at_level(logging.WARNING):
                await maintenance.watch_clock()
                await maintenance.watch_clock()
            (line,) = [each for each in caplog.messages if "jumped" in each]
            assert "forward by 10.0 days" in line
            assert "goqueue maintenance resume" in line
            assert broker.metrics.read().values[names.CLOCK_JUMP] == {(): 10 * DAY_MS / 1000}
            clock.advance(HOUR_MS)
            assert await maintenance.expire() == 0
            assert _start(broker) == 0
            broker.clock_guard.resume()
            assert await maintenance.expire() > 1
            assert _start(broker) == 20
            assert broker.metrics.read().values[names.CLOCK_JUMP] == {(): 0}

    asyncio.run(scenario())


def test_a_clock_that_comes_back_lets_retention_go_on_by_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        clock = ManualClock(NOW_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            await _topic(broker)
            maintenance = broker.maintenance()
            clock.jump(10 * DAY_MS)
            await maintenance.watch_clock()
            clock.jump(-10 * DAY_MS)
            await maintenance.watch_clock()
            assert "the wall clock is correct again" in caplog.text
            clock.advance(DAY_MS // 2)
            assert await maintenance.expire() == 0
            clock.advance(DAY_MS)
            assert await maintenance.expire() > 1

    asyncio.run(scenario())


def test_a_suspended_machine_is_no_jump(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(NOW_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            await _topic(broker)
            clock.suspend(10 * DAY_MS)
            assert await broker.maintenance().expire() > 1

    asyncio.run(scenario())


def test_a_machine_that_was_off_is_no_jump(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(NOW_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            await _topic(broker)
        async with running_broker(tmp_path, clock=ManualClock(NOW_MS + 10 * DAY_MS)) as broker:
            assert await broker.maintenance().expire() > 1

    asyncio.run(scenario())


def test_tombstones_stay_for_their_time_also_when_the_clock_has_jumped(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(NOW_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            policy = {"cleanup.policy": "compact", "internal.segment.bytes": "1024"}
            await broker.create_topic("t", 1, policy)
            publish(broker, "t", None, key=b"gone")
            for number in range(10):
                publish(broker, "t", b"." * 200, key=b"%d" % number)
            maintenance = broker.maintenance()
            await maintenance.compact(TopicPartition("t", 0))
            clock.jump(10 * DAY_MS)
            await maintenance.compact(TopicPartition("t", 0))
            assert (await read_all(broker, "t"))[0].key == b"gone"
            clock.advance(2 * DAY_MS)
            await maintenance.compact(TopicPartition("t", 0))
            assert (await read_all(broker, "t"))[0].key == b"0"

    asyncio.run(scenario())


def test_a_jump_is_the_first_thing_that_needs_attention(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(NOW_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            clock.jump(-2 * HOUR_MS)
            inventory = await take_inventory(broker, 0)
            (line,) = attention(broker, inventory, broker.history.lately(), None)
            assert line.severity == "critical"
            assert line.title == "The wall clock jumped back by 2.0 h"
            assert "goqueue maintenance resume" in line.detail

    asyncio.run(scenario())


# --- TTL -----------------------------------------------------------------------------------------


def test_no_ttl_expires_by_a_jump(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(NOW_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            await broker.create_topic("t", 1, {"message.ttl.ms": str(HOUR_MS)})
            publish(broker, "t", b"kept")
            member = await broker.queue_members.join("g", ["t"], QueueSettings())
            clock.jump(10 * DAY_MS)
            (taken,) = await broker.deliverer.poll(member, limit=10, max_wait_ms=0)
            assert taken.record.value == b"kept"
            other = await broker.queue_members.join("h", ["t"], QueueSettings())
            broker.clock_guard.resume()
            assert await broker.deliverer.poll(other, limit=10, max_wait_ms=0) == []

    asyncio.run(scenario())


# --- Delay ---------------------------------------------------------------------------------------


async def _delayed(broker: Broker, delay_ms: int) -> None:
    due_ms = broker.clock.now_ms() + delay_ms
    await broker.writer.publish("t", [NewMessage(b"v", partition=0, deliver_at_ms=due_ms)])


async def _fired(broker: Broker, count: int) -> None:
    """Wait for the broker's own rounds; nobody calls them here."""
    async with asyncio.timeout(60):
        while broker.metrics.total(names.DELAYED_FIRED) < count:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)


def test_delayed_messages_are_delivered_when_the_clock_jumps_past_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(NOW_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            await broker.create_topic("t", 1)
            maintenance = broker.maintenance()
            await _delayed(broker, HOUR_MS // 2)
            await asyncio.sleep(0)
            clock.jump(HOUR_MS)
            await maintenance.watch_clock()
            await _fired(broker, 1)

    asyncio.run(scenario())


def test_delayed_messages_are_neither_early_nor_lost_when_the_clock_goes_back_and_forth(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        clock = ManualClock(NOW_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            await broker.create_topic("t", 1)
            maintenance = broker.maintenance()
            await _delayed(broker, 5 * HOUR_MS)
            await _delayed(broker, 60_000)
            for jumped_ms in (-2 * HOUR_MS, 4 * HOUR_MS, -3 * HOUR_MS, HOUR_MS):
                clock.jump(jumped_ms)
                await maintenance.watch_clock()
                await broker.delays.deliver_due()
                due = [each for each in await read_all(broker, "t") if each.timestamp_ms]
                assert all(each.timestamp_ms <= NOW_MS + 2 * HOUR_MS for each in due)
            assert broker.metrics.total(names.DELAYED_FIRED) == 1
            await _delayed(broker, 2000)
            clock.jump(-HOUR_MS)
            await maintenance.watch_clock()
            await broker.delays.deliver_due()
            clock.jump(HOUR_MS + 2000)
            await maintenance.watch_clock()
            await _fired(broker, 2)
            clock.jump(5 * HOUR_MS)
            await maintenance.watch_clock()
            await _fired(broker, 3)

    asyncio.run(scenario())


def test_snapshots_of_delayed_messages_are_due_by_time_that_passes(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(NOW_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            await broker.create_topic("t", 1)
            clock.jump(-10 * DAY_MS)
            await _delayed(broker, DAY_MS)
            clock.advance(61_000)
            keeper = broker.delays.shard().parts.keeper
            assert keeper.due_in_ms() == 0

    asyncio.run(scenario())


# --- Publishing ----------------------------------------------------------------------------------


def test_a_clock_set_back_does_not_refuse_what_is_dated_right(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(NOW_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            await broker.create_topic("t", 1)
            clock.jump(-5 * HOUR_MS)
            publish(broker, "t", b"right", timestamp_ms=NOW_MS)
            with pytest.raises(InvalidTimestampError):
                publish(broker, "t", b"ahead", timestamp_ms=NOW_MS + 2 * HOUR_MS)

    asyncio.run(scenario())
