"""A broker inside the test's own loop, with a clock and a disk that the test holds."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from goqueue.broker.broker import Broker
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.configs.broker_settings import BrokerSettings
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.requests import Published, PublishRequest
from goqueue.reading.fetch import FetchRequest, PartitionRead
from goqueue.records import Record, decode_rows, encode, walk
from goqueue.runtime.disk import SystemDisk
from support.clocks import ManualClock
from support.logs import disk_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk


@asynccontextmanager
async def running_broker(
    folder: Path,
    *,
    clock: Clock | None = None,
    disk: Disk | None = None,
    clean: bool = True,
    **settings: Any,
) -> AsyncIterator[Broker]:
    """A started broker; without `clean` it is left as a killed process leaves its files."""
    clock = clock or ManualClock()
    settings = {"offsets_partitions": 1, **settings}
    store = await SqliteMetadataStore.open(folder / "metadata.db", disk=SystemDisk(), clock=clock)
    broker = Broker(BrokerSettings(folder, **settings), store, disk=disk, clock=clock)
    try:
        await broker.start()
        yield broker
        if clean:
            await broker.stop()
        else:
            await broker.delays.halt()
            for partition in broker.partitions:
                await disk_log(partition).flusher.stop()
    finally:
        broker.executor.shutdown()
        await store.close()


def publish(
    broker: Broker,
    topic: str,
    *values: bytes | None,
    key: bytes | None = None,
    timestamp_ms: int | None = None,
    **producer: Any,
) -> Published:
    """One batch of these values into partition 0 of a topic."""
    records = _records(broker, values, key, timestamp_ms)
    published = broker.publisher.publish(_request(topic, records, producer))
    assert isinstance(published, Published)
    return published


async def publish_checked(
    broker: Broker, topic: str, *values: bytes | None, key: bytes | None = None, **producer: Any
) -> Published:
    """The same into a topic that holds messages against schemas."""
    request = _request(topic, _records(broker, values, key, None), producer)
    published = broker.publisher.publish(await broker.publisher.checked(request))
    assert isinstance(published, Published)
    return published


def _records(
    broker: Broker, values: Sequence[bytes | None], key: bytes | None, timestamp_ms: int | None
) -> list[Record]:
    at = broker.clock.now_ms() if timestamp_ms is None else timestamp_ms
    return [Record(number, at, key, value, ()) for number, value in enumerate(values)]


def _request(topic: str, records: list[Record], producer: Mapping[str, Any]) -> PublishRequest:
    return PublishRequest(TopicPartition(topic, 0), memoryview(encode(records, **producer)))


async def read_all(broker: Broker, topic: str) -> list[Record]:
    """Every record of partition 0 of a topic."""
    partition = broker.partitions.partition(TopicPartition(topic, 0))
    offset = partition.log_start
    records: list[Record] = []
    while offset < partition.high_watermark:
        read = PartitionRead(partition.id, offset, 1 << 20)
        (fetched,) = await broker.fetcher.fetch(FetchRequest([read], max_wait_ms=0))
        if fetched.error is not None:
            raise fetched.error
        records += [
            record
            for position, _ in walk(fetched.data)
            for record in decode_rows(fetched.data, position)
            if record.offset >= offset
        ]
        offset = fetched.next_offset
    return records
