"""Where a group begins while a partition of its topic has no leader."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.cluster.records import PartitionKey, PartitionRecord
from goqueue.model.errors import CoordinatorUnavailableError, LeaderUnavailableError
from goqueue.model.internal_topics import CONSUMER_OFFSETS
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.queues.shards import QUEUE_TOPIC
from support.brokers import publish
from support.cluster_brokers import one_of_three, place_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from goqueue.queues.members import QueueMember
    from goqueue.topics.catalogue import Topic
    from support.cluster_brokers import OneOfThree

ALL = (1, 2, 3)


@asynccontextmanager
async def keeping(folder: Path) -> AsyncIterator[OneOfThree]:
    """A node that keeps all groups and waits for no leader longer than a moment."""
    async with AsyncExitStack() as last, one_of_three(folder) as made:
        leaders: Any = made.broker.leaders
        leaders._sleep = lambda _seconds: asyncio.sleep(0)
        count = made.broker.groups.shard_count
        await made.offsets_topic(*[1] * count)
        await made.internal_topic(QUEUE_TOPIC, *[1] * count)
        await last.enter_async_context(made.committing(QUEUE_TOPIC, CONSUMER_OFFSETS))
        yield made  # what is stored at the stop is committed too


async def lose_leader(made: OneOfThree, topic: Topic, number: int) -> None:
    record = PartitionRecord(ALL, ALL, None, 1)
    await made.put(str(PartitionKey(topic.topic_id, number)), record)


async def joined(made: OneOfThree, settings: QueueSettings) -> QueueMember:
    async with asyncio.timeout(60):
        while True:
            with suppress(CoordinatorUnavailableError):  # it loads what is there
                return await made.broker.queue_members.join("g", ["t"], settings)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("at_latest", [False, True])
def test_a_partition_without_a_leader_holds_up_none_of_the_others(
    tmp_path: Path, at_latest: bool
) -> None:
    async def scenario() -> None:
        async with keeping(tmp_path) as made:
            broker = made.broker
            topic = await made.topic("t", ALL, (2, 1, 3))
            await lose_leader(made, topic, 1)
            member = await joined(made, QueueSettings(start_at_latest=at_latest))
            group = broker.queues.group("g")
            assert [number for _, number in group.queues] == [0]
            publish(broker, "t", b"one")
            made.commit_all("t")
            (first,) = await broker.deliverer.poll(member, limit=1, max_wait_ms=60_000)
            assert first.record.value == b"one"

            await made.place(topic, 1, PartitionRecord(ALL, ALL, 1, 2))
            async with asyncio.timeout(60):
                while len(group.queues) < 2:
                    assert not await broker.deliverer.poll(member, limit=1, max_wait_ms=1)
            assert not group.absent
            partition = broker.partitions.partition(place_of(topic, 1))
            assert group.queues[topic.topic_id, 1].start == partition.high_watermark

    asyncio.run(scenario())


def test_a_group_none_of_whose_partitions_has_a_leader_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with keeping(tmp_path) as made:
            topic = await made.topic("t", (2, 1, 3), (3, 1, 2))
            for number in range(2):
                await lose_leader(made, topic, number)
            with pytest.raises(LeaderUnavailableError):
                await joined(made, QueueSettings())
            assert not made.broker.queues.group("g").queues

    asyncio.run(scenario())
