"""A power cut at any step of a delayed message's way: none lost, none twice, none uncancelled."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random

import pytest

from goqueue.broker.broker import Broker
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.configs.broker_settings import BrokerSettings
from goqueue.model.errors import DelayedNotPendingError
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.new_messages import NewMessage
from goqueue.runtime.disk import SystemDisk
from support.brokers import read_all
from support.clocks import ManualClock
from support.disks import FaultyDisk, SimulatedCrash
from support.effort import sampled
from support.logs import disk_log

START_MS = 1_700_000_000_000


class Machine:
    """A machine whose power fails, and what was promised to those who used it."""

    def __init__(self, folder, seed, policy):
        self.folder, self.policy = folder, policy
        self.clock = ManualClock(START_MS)
        self.disk = FaultyDisk(folder / "topics", seed=seed)
        self.rng = random.Random(seed)
        self.acknowledged, self.cancelled, self.attempted = {}, set(), set()
        self.doubtful = set()
        """What somebody has tried to cancel."""

    @contextlib.asynccontextmanager
    async def broker(self):
        self.mine = asyncio.all_tasks()
        store = await SqliteMetadataStore.open(
            self.folder / "metadata.db", disk=SystemDisk(), clock=self.clock
        )
        settings = BrokerSettings(self.folder, offsets_partitions=1)
        broker = Broker(settings, store, disk=self.disk, clock=self.clock)
        try:
            await broker.start()
            yield broker
        finally:
            broker.delays.shard()._is_stopping = True  # nobody is left to wake it
            others = [task for task in asyncio.all_tasks() if task not in self.mine]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            broker.executor.shutdown()
            await store.close()

    async def publish(self, broker, count):
        """Messages that are due at different times, some of them soon after."""
        names = [b"%d" % (len(self.attempted) + at) for at in range(count)]
        due = [self.clock.now_ms() + self.rng.choice([20, 500, 3000]) for _ in names]
        self.attempted.update(names)
        new = [
            NewMessage(name, partition=0, deliver_at_ms=due_ms)
            for name, due_ms in zip(names, due, strict=True)
        ]
        for name, result in zip(names, await broker.writer.publish("t", new), strict=True):
            if result.error is None:
                self.acknowledged[name] = result.delayed_id

    async def cancel(self, broker):
        waiting = sorted(self.acknowledged.keys() - self.doubtful)
        name = self.rng.choice(waiting)
        self.doubtful.add(name)
        try:
            await broker.delays.cancel("t", 0, self.acknowledged[name])
            self.cancelled.add(name)
        except DelayedNotPendingError:
            self.doubtful.remove(name)  # it is delivered, then, and must be there

    async def live(self, broker):
        """A few rounds of everything."""
        for _ in range(4):
            await self.publish(broker, 3)
            await self.cancel(broker)
            self.clock.advance(self.rng.choice([20, 600]))
            await broker.delays.deliver_due()
            await broker.delays.deliver_due()
            if self.rng.random() < 0.3:
                await broker.delays.shard().parts.keeper.save()

    async def judge(self, broker, *, cut):
        self.clock.advance(60_000)
        for _ in range(3):
            await broker.delays.deliver_due()
            self.clock.advance(2000)
        await disk_log(broker.partitions.partition(TopicPartition("t", 0))).flusher.checkpoint()
        await broker.delays.deliver_due()
        broker.delays.shard().parts.book.check_invariants()
        records = await read_all(broker, "t")
        came = [record.value for record in records]
        assert len(came) == len(set(came)), "twice"
        assert not self.cancelled & set(came), "although cancelled"
        assert set(came) <= self.attempted
        for record in records:
            headers = dict(record.headers)
            assert record.timestamp_ms >= int(headers["goqueue-deliver-at"]), "early"
        if self.policy == "always" or not cut:
            assert set(came) >= self.acknowledged.keys() - self.doubtful, "lost"
        assert broker.delays.stats().pending == 0
        assert broker.delays.shard().parts.book.intents == {}


async def _play(folder, seed, policy, step):
    machine = Machine(folder, seed, policy)
    async with machine.broker() as broker:
        await broker.create_topic("t", 1, {"goqueue.fsync": policy})
        await machine.publish(broker, 4)
        await broker.delays.deliver_due()
        machine.disk.crash_after(step)
        with contextlib.suppress(SimulatedCrash):
            await machine.live(broker)
    cut = machine.disk.crashing
    if cut:
        machine.disk.crash()
    else:
        machine.disk.kill()
    async with machine.broker() as broker:
        await machine.judge(broker, cut=cut)


@pytest.mark.parametrize("policy", ["always", "interval"])
@pytest.mark.parametrize("step", sampled([*range(24), 27, 31, 36, 42, 50, 60, 75, 10_000], 12))
def test_a_power_cut_at_any_step_loses_nothing_and_repeats_nothing(memory_path, policy, step):
    asyncio.run(_play(memory_path, step * 7 + len(policy), policy, step))
    gc.collect()  # tasks that the cut has ended are nobody's concern


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_power_cuts_at_random_steps(memory_path, seed):
    rng = random.Random(seed)
    policy = rng.choice(["always", "interval"])
    asyncio.run(_play(memory_path, seed, policy, rng.randrange(90)))
    gc.collect()
