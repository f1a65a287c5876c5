"""Who leads a partition appends to it, and whoever depends on that is told of each change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import (
    InvariantError,
    NotLeaderError,
    UnknownPartitionError,
    UnknownTopicError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.partitions.partition import Isolation
from goqueue.partitions.replica import Following, Leading
from goqueue.partitions.waiting import Waiter
from goqueue.records import Record, encode, peek
from support.brokers import publish, running_broker

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.partitions.partition import Partition
    from goqueue.records.batch import BatchInfo

PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def _batch() -> tuple[bytes, BatchInfo]:
    batch = bytes(encode([Record(0, 1000, None, b"v", ())]))
    return batch, peek(batch)


def test_a_node_alone_leads_every_partition_in_epoch_0(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 2)
            roles = [broker.partitions.local(place).role for place in (PLACE, OTHER)]
            assert roles == [Leading(0), Leading(0)]

    asyncio.run(scenario())


def test_a_follower_refuses_appends_and_reads_and_names_the_leader(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            publish(broker, "t", b"one")
            partition = broker.partitions.partition(PLACE)
            await broker.partitions.follow(PLACE, 7, 3)
            assert broker.partitions.local(PLACE).role == Following(7, 3)
            asked = (
                lambda: partition.append(*_batch()),
                lambda: partition.append_marker(Marker.COMMIT, 1, 0, 0),
                lambda: partition.find(0, 1000, Isolation.READ_UNCOMMITTED),
                lambda: broker.partitions.resolve(PLACE),
                lambda: publish(broker, "t", b"two"),
            )
            for ask in asked:
                with pytest.raises(NotLeaderError) as refused:
                    ask()
                assert (refused.value.leader, refused.value.epoch) == (7, 3)
                assert refused.value.retriable
            assert partition.log_end == 1
            await broker.partitions.lead(PLACE, 4)
            publish(broker, "t", b"two")
            assert (partition.log_end, partition.leader_epoch) == (2, 4)

    asyncio.run(scenario())


def test_a_partition_that_exists_elsewhere_is_told_from_one_that_does_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.topics.create("t", 2)  # and nothing is opened here
            with pytest.raises(NotLeaderError):
                broker.partitions.resolve(PLACE)
            with pytest.raises(UnknownPartitionError):
                broker.partitions.resolve(TopicPartition("t", 2))
            with pytest.raises(UnknownTopicError):
                broker.partitions.resolve(TopicPartition("u", 0))

    asyncio.run(scenario())


def test_a_reader_that_waits_is_woken_when_the_leader_changes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            partition = broker.partitions.partition(PLACE)
            waiter = Waiter(1)
            partition.waiters_for(Isolation.READ_COMMITTED).add(waiter)
            await broker.partitions.follow(PLACE, None, 1)
            assert waiter._future.done()

    asyncio.run(scenario())


def test_an_epoch_that_is_over_does_not_return(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            await broker.partitions.lead(PLACE, 5)
            with pytest.raises(InvariantError):
                await broker.partitions.follow(PLACE, 1, 4)
            assert broker.partitions.local(PLACE).role == Leading(5)

    asyncio.run(scenario())


def test_whoever_watches_a_topic_hears_of_every_change(tmp_path: Path) -> None:
    heard: list[tuple[str, str, int]] = []

    async def leading(partition: Partition, epoch: int) -> None:
        await asyncio.sleep(0)
        assert partition.is_leading
        heard.append(("leading", str(partition.id), epoch))

    async def left(partition: Partition) -> None:
        await asyncio.sleep(0)
        heard.append(("left", str(partition.id), partition.leader_epoch))

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            partitions = broker.partitions
            await broker.create_topic("t", 1)
            await broker.create_topic("other", 1)
            await partitions.watch("t", leading, left)
            await partitions.watch("new", leading, left)
            assert heard == [("leading", "t-0", 0)]
            await broker.grow_topic("t", 2)
            await broker.create_topic("new", 1)
            await partitions.follow(PLACE, 2, 1)
            await partitions.follow(PLACE, 3, 2)  # it did not lead: there is nothing to leave
            await partitions.follow(TopicPartition("other", 0), 3, 2)
            await partitions.lead(PLACE, 3)
            await broker.delete_topic("new")
            assert heard[1:] == [
                ("leading", "t-1", 0),
                ("leading", "new-0", 0),
                ("left", "t-0", 1),
                ("leading", "t-0", 3),
                ("left", "new-0", 0),
            ]

    asyncio.run(scenario())
