"""Leaders change, connections break, nodes are cut off and started again: nothing committed goes.

Everything is drawn from a seed. A publisher waits for each of its batches; what it was told to be
committed is looked for on every replica at the end, when all logs must be the same, byte for byte.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import GoQueueError
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.replication.replicas import ReplicaSettings
from goqueue.records import decode_rows, walk
from support.replicating import TOPIC, ReplicaCluster, replicating, until
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.cluster.records import PartitionKey

ACTIONS = ("publish", "publish", "publish", "elect", "hang up", "cut", "heal", "restart", "pause")


class World:
    """What happens to a cluster, and what was promised meanwhile."""

    def __init__(self, cluster: ReplicaCluster, key: PartitionKey, seed: int) -> None:
        self.cluster = cluster
        self.key = key
        self.rng = random.Random(seed)
        self.count = 0
        self.promised: dict[int, bytes] = {}
        """What was committed, by its offset."""
        self.waiting: set[asyncio.Task[None]] = set()

    async def leader(self) -> int | None:
        record, _ = await self.cluster.record(self.key)
        return record.leader

    async def act(self, action: str) -> None:
        node_id = self.rng.choice((1, 2, 3))
        cluster = self.cluster
        if action == "publish":
            await self.publish()
        elif action == "elect":
            await self.elect()
        elif action == "hang up":
            for node in cluster.nodes.values():
                node.hang_up(node_id)
        elif action == "cut":
            cluster.cut(node_id)
        elif action == "heal":
            for each in cluster.nodes:
                cluster.heal(each)
        elif action == "restart":
            await cluster.stop(node_id)
            await self.elect(without=node_id)
            await cluster.add(node_id)
        else:
            await asyncio.sleep(self.rng.random() / 20)

    async def publish(self) -> None:
        node_id = await self.leader()
        if node_id is None or node_id not in self.cluster.nodes:
            return
        node = self.cluster[node_id]
        partition = node.partitions.replica(TopicPartition(TOPIC, 0))
        if partition is None:
            return
        self.count += 1
        value = b"%d" % self.count
        try:
            placed = node.publish(value, size=self.rng.choice((0, 0, 2000, 300_000)))
            committed = partition.acknowledged(placed.end_offset)
        except GoQueueError:
            return

        async def wait() -> None:
            try:
                await committed
            except GoQueueError:
                return
            self.promised[placed.first_offset] = value

        task = asyncio.ensure_future(wait())
        self.waiting.add(task)
        task.add_done_callback(self.waiting.discard)

    async def elect(self, without: int | None = None) -> None:
        """As the controller does: somebody in sync."""
        record, _ = await self.cluster.record(self.key)
        alive = [each for each in record.isr if each in self.cluster.nodes and each != without]
        if not alive or (without is not None and record.leader != without):
            return
        try:
            await self.cluster.elect(self.key, self.rng.choice(alive), record.isr)
        except AssertionError:
            return  # the leader has changed the record first

    async def settle(self) -> None:
        cluster = self.cluster
        for each in cluster.nodes:
            cluster.heal(each)
        await self.elect_if_none()
        await cluster.isr(self.key, 1, 2, 3)
        leader = await self.leader()
        assert leader is not None
        await cluster.led(self.key, leader)
        end = cluster[leader].publish(b"the end").end_offset
        await cluster.committed(end)
        await until(lambda: not self.waiting)

    async def elect_if_none(self) -> None:
        record, _ = await self.cluster.record(self.key)
        if record.leader is None:
            await self.cluster.elect(self.key, record.isr[0], record.isr)

    def judge(self) -> None:
        logs = [self.cluster[each].stored() for each in (1, 2, 3)]
        assert logs[0] == logs[1] == logs[2]
        found = {
            record.offset: bytes(record.value or b"").rstrip(b".")
            for position, _ in walk(logs[0])
            for record in decode_rows(logs[0], position)
        }
        lost = {at: value for at, value in self.promised.items() if found.get(at) != value}
        assert lost == {}
        cuts = [self.cluster[each].replicas.followed.cut_below_hw_count for each in (1, 2, 3)]
        assert cuts == [0, 0, 0]


async def run(folder: Path, seed: int, steps: int) -> None:
    settings = ReplicaSettings(lag_s=0.8, failure_wait_s=0.1)
    async with replicating(folder, settings=settings) as cluster:
        key = await cluster.create(min_insync_replicas="2")
        await cluster.led(key, 1)
        world = World(cluster, key, seed)
        for _ in range(steps):
            await world.act(world.rng.choice(ACTIONS))
            await asyncio.sleep(world.rng.choice((0.0, 0.002, 0.03)))
        await world.settle()
        world.judge()
        assert world.promised or world.count < steps // 10


@pytest.mark.parametrize("seed", range(3))
@scenario
async def test_nothing_committed_is_lost_and_replicas_agree(folder: Path, seed: int):
    await run(folder, seed, 40)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
@scenario
async def test_nothing_committed_is_lost_and_replicas_agree_for_longer(folder: Path, seed: int):
    await run(folder, seed, 100)
