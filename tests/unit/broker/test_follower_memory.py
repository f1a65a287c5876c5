"""A node that follows the partition of a coordinator holds its log and index, and no state."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

import goqueue
from goqueue.model.internal_topics import CONSUMER_OFFSETS, QUEUE_STATE
from goqueue.model.topic_partition import TopicPartition
from support.alone import alone
from support.brokers import publish, running_broker
from support.clocks import ManualClock
from support.cluster_brokers import one_of_three
from support.waiting import WAIT_S
from unit.broker.test_coordinator_leadership import (
    SETTINGS,
    Delays,
    Family,
    Groups,
    Transactions,
    places_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from goqueue.broker.broker import Broker

REQUESTS: Final = 600
LEFT_BYTES: Final = 64 * 1024
"""What lookups and buffers of a size that does not grow with the state may keep."""
ROOT: Final = Path(goqueue.__file__).parent
STATE: Final = ("groups", "transactions", "queues", "delays", "pipelines", "state")
"""The packages in which the state of coordinators is made."""


def state_bytes() -> int:
    gc.collect()
    wanted = [tracemalloc.Filter(True, f"{ROOT}/{each}/*") for each in STATE]
    taken = tracemalloc.take_snapshot().filter_traces(wanted)
    return sum(trace.size for trace in taken.traces)


async def expect_nothing(nothing: int, full: int) -> None:
    """Until what was led has ended, and no longer than that takes."""
    assert full - nothing > 2 * LEFT_BYTES, f"{full - nothing} bytes are too few to judge"
    deadline_s = time.monotonic() + WAIT_S
    while (left := state_bytes() - nothing) >= LEFT_BYTES:
        assert time.monotonic() < deadline_s, f"{left} of {full - nothing} bytes are left"
        await asyncio.sleep(0.1)


async def follow(broker: Broker, family: Family, epoch: int) -> None:
    for place in places_of(broker, family):
        await broker.partitions.follow(place, 2, epoch)


def in_a_folder(scenario: Callable[[Path], Coroutine[object, object, None]]) -> None:
    tracemalloc.start()
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(scenario(Path(made)))


def measured(family: Family) -> None:
    """Runs in a process of its own."""

    async def scenario(folder: Path) -> None:
        async with running_broker(folder, clock=ManualClock(1_700_000_000_000)) as broker:
            await broker.create_topic("t", 1)
            await family.prepare(broker)
            await family.act(broker, 1)  # what is made once is there
            await follow(broker, family, 1)
            await asyncio.sleep(0.2)
            nothing = state_bytes()
            for place in places_of(broker, family):
                await broker.partitions.lead(place, 2)
            for number in range(2, REQUESTS):
                await family.act(broker, number)
            full = state_bytes()
            await follow(broker, family, 3)
            await expect_nothing(nothing, full)

    in_a_folder(scenario)


def measure_groups() -> None:
    measured(Groups())


def measure_transactions() -> None:
    measured(Transactions())


async def held_messages(folder: Path) -> None:
    """Of a cluster: members are with the group, and both on the node that coordinates it."""
    async with one_of_three(folder) as node:
        broker = node.broker
        for topic in (CONSUMER_OFFSETS, QUEUE_STATE):
            await node.internal_topic(topic, 1)
        # Traces stay with the node up to a bound of their own, with receipts and offsets in them.
        await node.topic("t", (1, 2, 3), **{"goqueue.trace": "0"})
        async with node.committing("t", CONSUMER_OFFSETS, QUEUE_STATE):
            publish(broker, "t", *(b"%d" % number for number in range(REQUESTS * 20)))
            await node.loaded("workers")
            member = await broker.queue_members.join("workers", ["t"], SETTINGS)
            nothing = state_bytes()
            for _ in range(REQUESTS):
                assert await broker.deliverer.poll(member, limit=1, max_wait_ms=60_000)
            full = state_bytes()
        del member
        for topic in (CONSUMER_OFFSETS, QUEUE_STATE):
            await broker.partitions.follow(TopicPartition(topic, 0), 2, 5)
        await expect_nothing(nothing, full)


def measure_held_messages() -> None:
    in_a_folder(held_messages)


def measure_delays() -> None:
    measured(Delays())


@pytest.mark.parametrize(
    "measure",
    [
        measure_groups,
        pytest.param(measure_transactions, marks=pytest.mark.slow),
        pytest.param(measure_held_messages, marks=pytest.mark.slow),
        pytest.param(measure_delays, marks=pytest.mark.slow),
    ],
)
def test_a_follower_holds_no_state_of_what_it_led_before(measure: Callable[[], None]) -> None:
    alone(measure)
