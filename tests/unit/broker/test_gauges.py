"""What the broker tells of itself while it is read, whatever changes meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from goqueue.insight.gauges import BrokerGauges
from goqueue.metrics import names
from goqueue.metrics.registry import Samples
from goqueue.model.errors import DiskError
from goqueue.model.limits import MAX_METRIC_SERIES
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.requests import PublishRequest
from goqueue.records import Record, encode
from goqueue.runtime.disk import SystemDisk
from support.brokers import publish, running_broker

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.runtime.disk import DiskUsage


def test_a_reading_outlives_topics_and_groups_that_come_and_go(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, offsets_partitions=8) as broker:
            for number in range(3):
                await broker.create_topic(f"t{number}", 1)
                publish(broker, f"t{number}", b"x")
            members = [await broker.memberships.join(f"g{number}", ["t0"]) for number in range(4)]
            await broker.memberships.leave(members[2])
            samples = Samples(MAX_METRIC_SERIES, partition_label=False)
            for turn, _ in enumerate(BrokerGauges(broker)(samples)):
                if turn == 0:
                    await broker.delete_topic("t2")
                if names.GROUP_MEMBERS in samples.values and "g2" in broker_groups(broker):
                    await broker.group_administrator.delete("g2")
                    for number in range(20):  # in coordinators that nobody needed so far
                        broker.groups.coordinator(f"new{number}")
            values = samples.values
            assert ("t2",) not in values[names.TOPIC_PARTITIONS]
            assert {("t0",), ("t1",)} <= values[names.TOPIC_PARTITIONS].keys()
            assert {("g0",), ("g1",), ("g3",)} <= values[names.GROUP_MEMBERS].keys()
            assert values[names.ACTIVE_CONSUMERS] == {(): 3}
            assert names.SNAPSHOT_SIZE in values

    asyncio.run(scenario())


def test_offsets_without_a_message_are_not_counted_as_messages(tmp_path: Path) -> None:
    async def scenario() -> None:
        defaults = {"goqueue.kafka.headers": "true"}
        async with running_broker(tmp_path, topic_defaults=defaults) as broker:
            await broker.create_topic("t", 1)
            publish(broker, "t", b"now")
            headers = (("goqueue-deliver-at", b"2000000"),)
            batch = encode([Record(0, 0, None, b"later", headers)])
            broker.publisher.publish(PublishRequest(TopicPartition("t", 0), memoryview(batch)))
            (partition,) = broker.partitions.of_topic(broker.topics.catalogue.topic("t"))
            assert partition.log_end == 2
            assert broker.metrics.read().values[names.TOPIC_MESSAGES]["t",] == 1

    asyncio.run(scenario())


def test_a_disk_that_cannot_be_measured_costs_its_own_series_alone(tmp_path: Path) -> None:
    class Blind(SystemDisk):
        def usage(self, folder: Path) -> DiskUsage:
            raise DiskError(f"measuring {folder} failed")

    async def scenario() -> None:
        async with running_broker(tmp_path, disk=Blind()) as broker:
            await broker.memberships.join("g", ["t"])
            values = broker.metrics.read().values
            assert names.DISK_FREE not in values
            assert values[names.THREADS][()] >= 1
            assert values[names.GROUP_MEMBERS] == {("g",): 1}

    asyncio.run(scenario())


def broker_groups(broker: Broker) -> set[str]:
    return {
        group.group_id
        for coordinator in broker.groups.coordinators()
        for group in coordinator.list_groups()
    }
