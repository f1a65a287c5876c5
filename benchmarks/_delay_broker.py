"""A broker with delayed messages, for benchmarks that measure inside and around one process."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from pathlib import Path
from typing import Final

from goqueue.broker.broker import Broker
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.configs.broker_settings import BrokerSettings
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.new_messages import NewMessage
from goqueue.records import decode_rows
from goqueue.records.batch import walk
from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import SystemDisk

TOPIC: Final = "t"
VALUE: Final = bytes(100)
DAY_MS: Final = 86_400_000
_UNBOUNDED: Final = {"goqueue.delay.max.pending": "0"}


async def make_broker(folder: Path) -> Broker:
    """A started broker with one topic of one partition."""
    SystemDisk().make_folder(folder)
    store = await SqliteMetadataStore.open(
        folder / "metadata.db", disk=SystemDisk(), clock=SystemClock()
    )
    broker = Broker(BrokerSettings(folder, offsets_partitions=1), store)
    await broker.start()
    if TOPIC not in broker.topics.catalogue.by_name:
        await broker.create_topic(TOPIC, 1, _UNBOUNDED)
    return broker


def new_messages(count: int, due_ms: int | None) -> list[NewMessage]:
    """Messages that are due one after the other, a millisecond apart, from `due_ms` on."""
    if due_ms is None:
        return [NewMessage(VALUE, None, (), 0) for _ in range(count)]
    return [NewMessage(VALUE, None, (), 0, None, due_ms + at) for at in range(count)]


async def publish_all(broker: Broker, count: int, batch: int, delay_ms: int | None) -> None:
    """Publish in requests of `batch`."""
    for _ in range(count // batch):
        due_ms = None if delay_ms is None else broker.clock.now_ms() + delay_ms
        results = await broker.writer.publish(TOPIC, new_messages(batch, due_ms))
        if any(result.error is not None for result in results):
            raise RuntimeError("a message was refused")
        await asyncio.sleep(0)


async def lateness_ms(broker: Broker, count: int) -> list[float]:
    """How late each of so many messages came that fell due within one second."""
    partition = broker.partitions.partition(TopicPartition(TOPIC, 0))
    first = partition.log_end
    base_ms = broker.clock.now_ms() + 6000
    for start in range(0, count, 100):
        due = [base_ms + (start + at) * 7919 % 1000 for at in range(100)]
        new = [NewMessage(VALUE, None, (), 0, None, due_ms) for due_ms in due]
        await broker.writer.publish(TOPIC, new)
        await asyncio.sleep(0)
    await asyncio.sleep((base_ms - broker.clock.now_ms()) / 1000 + 3)
    return [
        float(record.timestamp_ms - int(dict(record.headers)["goqueue-deliver-at"] or b""))
        for chunk in partition.chunks(first)
        for position, info in walk(chunk.data)
        if info.base_offset >= first
        for record in decode_rows(chunk.data, position)
    ]


def resident_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def measure_memory(folder: str, count: int, delay_ms: int) -> None:
    """Print how many bytes a message costs: allocated by Python, and by what the process grew."""

    async def main() -> None:
        broker = await make_broker(Path(folder))
        await publish_all(broker, 10_000, 1000, delay_ms)
        gc.collect()
        resident = resident_bytes()
        await publish_all(broker, count, 1000, delay_ms)
        gc.collect()
        grown = (resident_bytes() - resident) / count
        await broker.stop()
        tracemalloc.start()
        fresh = await make_broker(Path(folder + "-traced"))
        before, _ = tracemalloc.get_traced_memory()
        await publish_all(fresh, count // 5, 1000, delay_ms)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        await fresh.delays.halt()
        print((after - before) / (count // 5), grown)

    asyncio.run(main())


def publish_and_wait(folder: str, count: int, batch: int) -> None:
    """Publish, say so, and wait to be killed."""

    async def main() -> None:
        broker = await make_broker(Path(folder))
        await publish_all(broker, count, batch, 10 * 60_000)
        print("published", flush=True)
        await asyncio.sleep(600)

    asyncio.run(main())


def time_start(folder: str) -> None:
    """Print how long a broker takes to start, and how many messages wait."""

    async def main() -> None:
        started_s = time.perf_counter()
        broker = await make_broker(Path(folder))
        took_s = time.perf_counter() - started_s
        print(took_s, broker.delays.stats().pending)
        await broker.stop()

    asyncio.run(main())


async def write_far(folder: Path, count: int) -> None:
    """Leave behind what a broker leaves that has taken in so many messages for the next year."""
    broker = await make_broker(folder)
    now_ms, batch = broker.clock.now_ms(), 5000
    for start in range(0, count, batch):
        due_ms = now_ms + DAY_MS + start * 3000  # over most of a year
        new = [NewMessage(b"v", None, (), 0, None, due_ms + at) for at in range(batch)]
        await broker.writer.publish(TOPIC, new)
        await asyncio.sleep(0)
    await broker.stop()
