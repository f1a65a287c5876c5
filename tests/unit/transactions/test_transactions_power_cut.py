"""A power cut at any step of a transaction: all of it is there, or nothing, as it was told."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random

import pytest

from goqueue.broker.broker import Broker
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.configs.broker_settings import BrokerSettings
from goqueue.groups.messages import CommitRequest, OffsetToCommit
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.publishing.new_messages import NewMessage
from goqueue.runtime.disk import SystemDisk
from goqueue.transactions.messages import EndRequest, InitRequest
from support.clocks import ManualClock
from support.disks import FaultyDisk, SimulatedCrash
from support.effort import sampled
from support.folders import memory_path

__all__ = ["memory_path"]

PLACES = (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0))
TRANSACTIONS = 6


class Machine:
    """A machine whose power fails, and what was promised to those who used it."""

    def __init__(self, folder, seed, *, renews=False):
        self.folder = folder
        self.renews = renews
        """The producer takes the next epoch with each transaction (transaction.version 2)."""
        self.clock = ManualClock()
        self.disk = FaultyDisk(folder / "topics", seed=seed)
        self.rng = random.Random(seed)
        self.committed, self.aborted = [], []
        """The numbers of transactions whose end was told."""

    @contextlib.asynccontextmanager
    async def broker(self):
        mine = asyncio.all_tasks()
        store = await SqliteMetadataStore.open(
            self.folder / "metadata.db", disk=SystemDisk(), clock=self.clock
        )
        settings = BrokerSettings(
            self.folder,
            offsets_partitions=1,
            transactions_partitions=1,
            topic_defaults={"goqueue.fsync": "always"},
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

    async def start_producer(self, broker):
        request = InitRequest(transactional_id="tx", timeout_ms=60_000)
        return await broker.transactions.init_producer(request)

    async def transact(self, broker, identity, number):
        """The number goes to every partition, and one more is how far the group has read."""
        transactions = broker.transactions
        for place in PLACES:
            message = NewMessage(b"%d" % number, partition=place.partition)
            await broker.transaction_writer.publish(identity, place.topic, [message])
        offset = OffsetToCommit(topic="t", partition=0, offset=number + 1)
        await transactions.add_offsets("tx", identity, "g")
        commit = CommitRequest(group_id="g", offsets=(offset,))
        await transactions.stage_offsets("tx", identity, commit)
        marker = self.rng.choice(list(Marker))
        if self.renews:
            identity = await transactions.end_and_renew(EndRequest("tx", identity, marker))
        else:
            await transactions.end("tx", identity, marker)
        (self.committed if marker is Marker.COMMIT else self.aborted).append(number)
        return identity

    async def live(self, broker, identity):
        """Transactions until the power is cut: whoever waits then waits for nothing."""

        async def work():
            current = identity
            for number in range(TRANSACTIONS):
                current = await self.transact(broker, current, number)
                if self.rng.random() < 0.3:
                    await broker.partitions.partition(PLACES[0]).checkpoint()

        working = asyncio.create_task(work())
        while not (working.done() or self.disk.crashing):
            await asyncio.wait((working,), timeout=0.01)
        working.cancel()
        with contextlib.suppress(SimulatedCrash, asyncio.CancelledError):
            await working

    async def values(self, broker, place):
        found, offset = [], 0
        while True:
            read = await broker.reader.read(place, offset, limit=1000)
            found += [int(message.record.value) for message in read.messages]
            if read.next_offset == offset:
                return found
            offset = read.next_offset

    async def judge(self, broker):
        await self.start_producer(broker)  # ends what was left open
        first, *others = [await self.values(broker, place) for place in PLACES]
        assert all(other == first for other in others), "half a transaction"
        assert len(first) == len(set(first)), "twice"
        assert set(self.committed) <= set(first), "lost"
        assert not set(self.aborted) & set(first), "although aborted"
        committed = broker.groups.coordinator("g").fetch_offsets("g", [("t", 0)])["t", 0]
        assert (committed.offset if committed else 0) == max(first, default=-1) + 1
        for place in PLACES:
            partition = broker.partitions.partition(place)
            partition.check_invariants()
            assert partition.last_stable == partition.log_end


async def _play(folder, seed, step, *, renews=False):
    machine = Machine(folder, seed, renews=renews)
    async with machine.broker() as broker:
        await broker.create_topic("t", 2)
        await broker.create_topic("u", 1)
        identity = await machine.start_producer(broker)
        machine.disk.crash_after(step)
        await machine.live(broker, identity)
    if machine.disk.crashing:
        machine.disk.crash()
    else:
        machine.disk.kill()
    async with machine.broker() as broker:
        await machine.judge(broker)


@pytest.mark.parametrize("step", sampled([*range(0, 60, 3), *range(61, 200, 9), 10_000], 12))
def test_a_power_cut_at_any_step_leaves_whole_transactions(memory_path, step):
    asyncio.run(_play(memory_path, step, step))
    gc.collect()  # tasks that the cut has ended are nobody's concern


@pytest.mark.parametrize("step", sampled([*range(2, 60, 6), *range(65, 200, 27)], 6))
def test_a_power_cut_leaves_whole_transactions_of_an_epoch_each(memory_path, step):
    asyncio.run(_play(memory_path, step, step, renews=True))
    gc.collect()


@pytest.mark.slow
@pytest.mark.parametrize("renews", [False, True])
@pytest.mark.parametrize("seed", range(200))
def test_power_cuts_at_random_steps_leave_whole_transactions(memory_path, seed, renews):
    asyncio.run(_play(memory_path, seed, random.Random(seed).randrange(250), renews=renews))
    gc.collect()
