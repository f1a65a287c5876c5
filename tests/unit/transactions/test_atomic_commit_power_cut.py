"""A power cut at any step of a batch of transactions: all of it is there, or nothing, and once."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest

from goqueue.broker.broker import Broker
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.configs.broker_settings import BrokerSettings
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.new_messages import NewMessage
from goqueue.runtime.disk import SystemDisk
from goqueue.transactions.messages import InitRequest
from goqueue.transactions.series import Member, TogetherRequest
from support.clocks import ManualClock
from support.disks import FaultyDisk, SimulatedCrash
from support.effort import sampled
from support.folders import memory_path

__all__ = ["memory_path"]

PLACES = (TopicPartition("t", 0), TopicPartition("t", 1))
BATCHES, TASKS = 4, 3


class Machine:
    """A machine whose power fails, and a job that writes batches on it."""

    def __init__(self, folder, seed):
        self.folder = folder
        self.clock = ManualClock()
        self.disk = FaultyDisk(folder / "topics", seed=seed)
        self.told = -1
        """The last batch of which the job knows that it is committed."""

    @contextlib.asynccontextmanager
    async def broker(self):
        mine = asyncio.all_tasks()
        store = await SqliteMetadataStore.open(
            self.folder / "metadata.db", disk=SystemDisk(), clock=self.clock
        )
        settings = BrokerSettings(
            self.folder, transactions_partitions=4, topic_defaults={"goqueue.fsync": "always"}
        )
        broker = Broker(settings, store, disk=self.disk, clock=self.clock)
        try:
            await broker.start()
            yield broker
        finally:
            others = [task for task in asyncio.all_tasks() if task not in mine]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            broker.executor.shutdown()
            await store.close()

    async def write(self, broker, name, value):
        request = InitRequest(transactional_id=name, timeout_ms=60_000)
        identity = await broker.transactions.init_producer(request)
        for place in PLACES:
            message = NewMessage(value, partition=place.partition)
            await broker.transaction_writer.publish(identity, place.topic, [message])
        return Member(name, identity)

    async def batch(self, broker, number, run):
        """As Spark does it: a task has a lost attempt, then the winners are committed."""
        await self.write(broker, f"job::{run}-{number}-lost", b"%d-0" % number)
        members = [
            await self.write(broker, f"job::{run}-{number}-{task}", b"%d-%d" % (number, task))
            for task in range(TASKS)
        ]
        request = TogetherRequest(
            series="job", number=number, members=tuple(members), keep_ms=60_000
        )
        await broker.transactions.commit_together(request)
        self.told = number

    async def live(self, broker):
        async def work():
            for number in range(BATCHES):
                await self.batch(broker, number, "first")

        working = asyncio.create_task(work())
        while not (working.done() or self.disk.crashing):
            await asyncio.wait((working,), timeout=0.01)
        working.cancel()
        with contextlib.suppress(SimulatedCrash, asyncio.CancelledError):
            await working

    async def values(self, broker, place):
        read = await broker.reader.read(place, 0, limit=1000)
        return sorted(message.record.value for message in read.messages)


def batches(count):
    return sorted(b"%d-%d" % (number, task) for number in range(count) for task in range(TASKS))


async def _play(folder, step):
    machine = Machine(folder, step)
    async with machine.broker() as broker:
        await broker.create_topic("t", 2)
        machine.disk.crash_after(step)
        await machine.live(broker)
    if machine.disk.crashing:
        machine.disk.crash()
    else:
        machine.disk.kill()
    async with machine.broker() as broker:
        # The job knows only what it was told, and does the next batch again.
        for number in range(machine.told + 1, machine.told + 3):
            await machine.batch(broker, number, "second")
        found = [await machine.values(broker, place) for place in PLACES]
        assert found == [batches(machine.told + 1)] * 2
        for place in PLACES:
            partition = broker.partitions.partition(place)
            partition.check_invariants()
            assert partition.last_stable == partition.log_end


@pytest.mark.parametrize("step", sampled([*range(0, 120, 4), *range(121, 240, 9), 10_000], 14))
def test_a_power_cut_at_any_step_leaves_whole_batches(memory_path, step):
    asyncio.run(_play(memory_path, step))
    gc.collect()  # tasks that the cut has ended are nobody's concern
