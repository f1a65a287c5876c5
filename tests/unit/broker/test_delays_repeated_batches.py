"""An idempotent batch of which a part is delayed, a power cut, and the batch once more."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random

import pytest

from goqueue.broker.broker import Broker
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.configs.broker_settings import BrokerSettings
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.requests import PublishRequest
from goqueue.records import Record, encode
from goqueue.runtime.disk import SystemDisk
from support.brokers import read_all
from support.clocks import ManualClock
from support.disks import FaultyDisk, SimulatedCrash
from support.effort import sampled
from support.logs import disk_log

START_MS = 1_700_000_000_000
DELAY_MS = 2000
PLACE = TopicPartition("t", 0)


@contextlib.asynccontextmanager
async def broker_on(folder, disk, clock):
    """A broker that is left as a power cut leaves it."""
    mine = asyncio.all_tasks()
    store = await SqliteMetadataStore.open(folder / "metadata.db", disk=SystemDisk(), clock=clock)
    settings = BrokerSettings(folder, offsets_partitions=1)
    broker = Broker(settings, store, disk=disk, clock=clock)
    try:
        await broker.start()
        yield broker
    finally:
        broker.delays.shard()._is_stopping = True  # nobody is left to wake it
        others = [task for task in asyncio.all_tasks() if task not in mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        broker.executor.shutdown()
        await store.close()


def batch(number, due_ms):
    """Four records of an idempotent producer, two of which are due later."""
    records = [
        Record(
            at,
            START_MS,
            None,
            b"%d.%d" % (number, at),
            (("goqueue-deliver-at", b"%d" % due_ms),) if at % 2 else (),
        )
        for at in range(4)
    ]
    producer = {"producer_id": 77, "producer_epoch": 0, "base_sequence": 4 * number}
    return memoryview(encode(records, **producer))


async def send(broker, number, due_ms):
    published = broker.publisher.publish(PublishRequest(PLACE, batch(number, due_ms)))
    if published.durable is not None:
        await published.durable


async def judge(broker, clock, count):
    """Every record is there once, and none waits any more."""
    for _ in range(3):
        clock.advance(DELAY_MS)
        await broker.delays.deliver_due()
    await disk_log(broker.partitions.partition(PLACE)).flusher.checkpoint()
    came = sorted(record.value for record in await read_all(broker, "t"))
    assert came == sorted(b"%d.%d" % (number, at) for number in range(count) for at in range(4))
    broker.delays.shard().parts.book.check_invariants()


async def _create(broker, policy):
    await broker.create_topic("t", 1, {"goqueue.fsync": policy, "goqueue.kafka.headers": "true"})


async def _cut_between_the_syncs(folder, policy, *, is_late):
    clock, disk = ManualClock(START_MS), FaultyDisk(folder / "topics", seed=1)
    due_ms = START_MS + DELAY_MS
    async with broker_on(folder, disk, clock) as broker:
        await _create(broker, policy)
        await send(broker, 0, due_ms)
        for partition in broker.partitions:
            disk_log(partition).flush()
        published = broker.publisher.publish(PublishRequest(PLACE, batch(1, due_ms)))
        # and that of the delay log comes too late
        disk_log(broker.partitions.partition(PLACE)).flush()
        del published
    for path, inode in disk._names.items():
        if "__delayed" in str(path):
            inode.pending.clear()
    disk.crash()
    if is_late:
        clock.advance(10 * DELAY_MS)
    async with broker_on(folder, disk, clock) as broker:
        await send(broker, 1, due_ms)  # there was no answer
        await send(broker, 1, due_ms)
        await send(broker, 2, clock.now_ms() + DELAY_MS)
        await send(broker, 1, due_ms)
        await judge(broker, clock, 3)


@pytest.mark.parametrize("is_late", [False, True], ids=["in-time", "when-it-was-due"])
@pytest.mark.parametrize("policy", ["always", "interval"])
@pytest.mark.filterwarnings("ignore:coroutine")
def test_the_delayed_part_that_a_power_cut_took_is_stored_when_the_batch_is_repeated(
    memory_path, policy, is_late
):
    asyncio.run(_cut_between_the_syncs(memory_path, policy, is_late=is_late))
    gc.collect()


async def _play(folder, seed, policy):
    clock, disk = ManualClock(START_MS), FaultyDisk(folder / "topics", seed=seed)
    due_ms = START_MS + DELAY_MS
    acknowledged = 0
    async with broker_on(folder, disk, clock) as broker:
        await _create(broker, policy)
        disk.crash_after(random.Random(seed).randrange(14))
        with contextlib.suppress(SimulatedCrash):
            for number in range(4):
                await send(broker, number, due_ms)
                acknowledged += 1
    disk.crash()
    first = acknowledged if policy == "always" else 0  # whoever had an answer does not repeat it
    async with broker_on(folder, disk, clock) as broker:
        for number in range(first, 4):
            await send(broker, number, due_ms)
        await judge(broker, clock, 4)


@pytest.mark.parametrize("seed", sampled(range(60), 12))
@pytest.mark.filterwarnings("ignore:coroutine")
def test_a_batch_that_is_repeated_after_a_power_cut_is_stored_once_and_whole(memory_path, seed):
    asyncio.run(_play(memory_path, seed, "always" if seed % 3 else "interval"))
    gc.collect()


def test_a_batch_that_is_repeated_after_a_kill_is_not_stored_again(memory_path):
    async def scenario():
        clock, disk = ManualClock(START_MS), FaultyDisk(memory_path / "topics")
        due_ms = START_MS + DELAY_MS
        async with broker_on(memory_path, disk, clock) as broker:
            await _create(broker, "always")
            for number in range(3):
                await send(broker, number, due_ms)
        disk.kill()
        async with broker_on(memory_path, disk, clock) as broker:
            broker.delays.shard().parts.repeats._seen.clear()  # as though they were further back
            for number in range(3):
                await send(broker, number, due_ms)
            await judge(broker, clock, 3)

    asyncio.run(scenario())
