"""Fetching: how much is read, how long is waited, and what happens to damaged records."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from goqueue.model.errors import (
    OffsetOutOfRangeError,
    UnknownLeaderEpochError,
    UnknownPartitionError,
    UnknownTopicError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.partition import Isolation
from goqueue.publishing.requests import Acks, PublishRequest
from goqueue.reading.fetch import _MAX_HELD_REGIONS, FetchRequest, PartitionRead
from goqueue.records import Record, encode, walk
from support.brokers import publish, read_all, running_broker
from support.effort import examples
from support.logs import disk_log

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker

LONG_MS = 20_000


def _batch(size: int) -> bytearray:
    return encode([Record(0, 1000, None, b"x" * size)])


def _put(broker: Broker, topic: str, number: int, size: int) -> int:
    batch = _batch(size)
    place = TopicPartition(topic, number)
    broker.publisher.publish(PublishRequest(place, memoryview(batch), Acks.NONE))
    return len(batch)


def _read(topic, number=0, offset=0, max_bytes=1 << 20, **options):
    return PartitionRead(TopicPartition(topic, number), offset, max_bytes, **options)


def _sizes(fetched):
    return [len(item.data) for item in fetched]


def _run(folder, scenario):
    async def main():
        async with running_broker(folder) as broker:
            await broker.create_topic("t", 3)
            await asyncio.wait_for(scenario(broker), 30)

    asyncio.run(main())


# --- How much -------------------------------------------------------------------------------------


def _naive(batches, limits, max_bytes):
    """What a fetch may bring of each partition, written down the slow way."""
    brought, left, nothing_yet = [], max_bytes, True
    for sizes, limit in zip(batches, limits, strict=True):
        room = min(limit, left)
        count, total = 0, 0
        for size in sizes:
            if total + size > room and not (nothing_yet and count == 0):
                break
            count, total = count + 1, total + size
            if total > room:
                break
        if count:
            nothing_yet = False
            # The broker reserves what it may read, not what whole batches it then finds there.
            left -= max(total, min(room, sum(sizes)))
        brought.append(total)
    return brought


@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.lists(st.integers(1, 400), max_size=4), min_size=3, max_size=3),
    limits=st.lists(st.integers(0, 1200), min_size=3, max_size=3),
    max_bytes=st.integers(0, 2500),
)
def test_limits_hold_over_all_partitions_and_one_batch_always_comes(
    memory_path, batches, limits, max_bytes
):
    async def scenario(broker):
        sizes = [
            [_put(broker, "t", number, size) for size in values]
            for number, values in enumerate(batches)
        ]
        reads = [_read("t", number, max_bytes=limit) for number, limit in enumerate(limits)]
        fetched = await broker.fetcher.fetch(FetchRequest(reads, 0, max_bytes=max_bytes))
        assert _sizes(fetched) == _naive(sizes, limits, max_bytes)
        await broker.delete_topic("t")

    _run(memory_path, scenario)


def test_results_come_in_the_order_asked_with_the_watermarks_of_each(tmp_path):
    async def scenario(broker):
        _put(broker, "t", 2, 10)
        reads = [_read("t", number) for number in (2, 0, 1)]
        fetched = await broker.fetcher.fetch(FetchRequest(reads, 0))
        assert [item.read.partition.partition for item in fetched] == [2, 0, 1]
        assert [item.high_watermark for item in fetched] == [1, 0, 0]
        assert [item.next_offset for item in fetched] == [1, 0, 0]

    _run(tmp_path, scenario)


# --- How long -------------------------------------------------------------------------------------


async def _settle():
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize("isolation", Isolation)
def test_a_wait_ends_with_the_append_that_makes_it_enough(tmp_path, isolation):
    async def scenario(broker):
        size = len(_batch(100))
        reads = [_read("t", number) for number in range(3)]
        request = FetchRequest(reads, LONG_MS, min_bytes=3 * size, isolation=isolation)
        waiting = asyncio.create_task(broker.fetcher.fetch(request))
        for number in (2, 0):
            await _settle()
            _put(broker, "t", number, 100)
            await _settle()
            assert not waiting.done()
        _put(broker, "t", 2, 100)
        assert _sizes(await asyncio.wait_for(waiting, 60)) == [size, 0, 2 * size]
        assert not any(len(p.waiters) for p in broker.partitions)

    _run(tmp_path, scenario)


def test_a_wait_for_records_that_must_be_on_the_disk_counts_their_bytes(tmp_path):
    async def scenario(broker):
        await broker.create_topic("always", 1, {"goqueue.fsync": "always"})
        size = len(_batch(100))
        request = FetchRequest([_read("always")], LONG_MS, min_bytes=3 * size)
        waiting = asyncio.create_task(broker.fetcher.fetch(request))
        await _settle()
        for count in range(1, 4):
            assert not waiting.done()
            _put(broker, "always", 0, 100)
            partition = broker.partitions.partition(TopicPartition("always", 0))
            await disk_log(partition).flusher.durable(count)
            await _settle()
        assert _sizes(await asyncio.wait_for(waiting, 60)) == [3 * size]

    _run(tmp_path, scenario)


def test_a_wait_that_brings_nothing_ends_when_its_time_is_over(tmp_path):
    async def scenario(broker):
        started = time.monotonic()
        fetched = await broker.fetcher.fetch(FetchRequest([_read("t")], 50))
        assert time.monotonic() - started >= 0.049
        assert [(item.error, item.data) for item in fetched] == [(None, b"")]

    _run(tmp_path, scenario)


def test_what_there_is_comes_when_the_time_is_over_though_it_is_too_little(tmp_path):
    async def scenario(broker):
        size = _put(broker, "t", 0, 10)
        fetched = await broker.fetcher.fetch(FetchRequest([_read("t")], 50, min_bytes=10_000))
        assert _sizes(fetched) == [size]

    _run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("read", "error"),
    [
        (_read("absent"), UnknownTopicError),
        (_read("t", 9), UnknownPartitionError),
        (_read("t", offset=5), OffsetOutOfRangeError),
        (_read("t", leader_epoch=3), UnknownLeaderEpochError),
    ],
)
def test_an_error_is_told_at_once_and_only_for_its_own_partition(tmp_path, read, error):
    async def scenario(broker):
        fetched = await broker.fetcher.fetch(FetchRequest([_read("t", 1), read], LONG_MS))
        assert fetched[0].error is None
        assert isinstance(fetched[1].error, error)

    _run(tmp_path, scenario)


def test_deleting_the_topic_ends_a_wait(tmp_path):
    async def scenario(broker):
        waiting = asyncio.create_task(broker.fetcher.fetch(FetchRequest([_read("t")], LONG_MS)))
        await _settle()
        await broker.delete_topic("t")
        (fetched,) = await asyncio.wait_for(waiting, 60)
        assert isinstance(fetched.error, UnknownTopicError)

    _run(tmp_path, scenario)


def test_a_reader_that_gives_up_leaves_nothing_behind(tmp_path):
    async def scenario(broker):
        waiting = asyncio.create_task(broker.fetcher.fetch(FetchRequest([_read("t")], LONG_MS)))
        await _settle()
        waiting.cancel()
        await asyncio.wait((waiting,))
        assert not any(len(p.waiters) for p in broker.partitions)

    _run(tmp_path, scenario)


# --- Damage ---------------------------------------------------------------------------------------


def _damage(broker, topic, *offsets):
    """Flip a byte in the records of these batches, behind the broker's back."""
    partition = broker.partitions.partition(TopicPartition(topic, 0))
    (path,) = partition.folder.glob("*.log")
    data = bytearray(path.read_bytes())
    start = data.index(b"\x00" * 8)
    places = {info.base_offset: at + info.size_bytes for at, info in _batches(data, start)}
    for offset in offsets:
        data[places[offset] - 3] ^= 0xFF
    path.write_bytes(data)


def _batches(data, start):
    for skip in range(start, len(data)):
        try:
            found = list(walk(bytes(data[skip:])))
        except Exception:  # noqa: BLE001 - not where the batches begin
            continue
        if found:
            return [(skip + at, info) for at, info in found]
    raise AssertionError("no batches")


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damaged=st.sets(st.integers(0, 7)), start=st.integers(0, 7))
def test_damaged_batches_are_stepped_over_and_reported(memory_path, caplog, damaged, start):
    caplog.clear()

    async def scenario(broker):
        for number in range(8):
            publish(broker, "t", b"%d" % number)
        _damage(broker, "t", *damaged)
        found, offset = [], start
        for _ in range(20):
            (fetched,) = await broker.fetcher.fetch(FetchRequest([_read("t", offset=offset)], 0))
            assert fetched.error is None
            if not fetched.data:
                break
            found += [info.base_offset for _, info in walk(bytes(fetched.data))]
            offset = fetched.next_offset
        assert found == [number for number in range(start, 8) if number not in damaged]
        is_met = any(number >= start for number in damaged)
        assert bool(caplog.records) == is_met
        await broker.delete_topic("t")

    _run(memory_path, scenario)


def test_a_damaged_stretch_is_reported_once(tmp_path, caplog):
    async def scenario(broker):
        for number in range(4):
            publish(broker, "t", b"%d" % number)
        _damage(broker, "t", 1)
        for _ in range(3):
            for offset in range(4):
                await broker.fetcher.fetch(FetchRequest([_read("t", offset=offset)], 0))
        assert len(caplog.records) == 1
        assert [r.offset for r in await read_all(broker, "t")] == [0, 2, 3]

    _run(tmp_path, scenario)


# --- Files ----------------------------------------------------------------------------------------

MANY = 100
FEW = 8
OPEN = 4 * FEW
"""Files that may be open when nobody reads: twice as many are unsynced, others are being synced."""


def _run_with_few_files(folder, scenario):
    """A broker with many partitions, which have a message each, and few open segments."""

    async def main():
        async with running_broker(folder, max_open_segments=FEW) as broker:
            await broker.create_topic("many", MANY)
            for number in range(MANY):
                _put(broker, "many", number, 10)
            assert _open_logs(folder) <= OPEN
            await asyncio.wait_for(scenario(broker), 30)

    asyncio.run(main())


def _open_logs(folder):
    """How many files of batches below a folder this process has open."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that this folder is read with
            found.append(str(each.readlink()))
    return sum(path.startswith(str(folder)) and path.endswith(".log") for path in found)


def test_a_fetch_of_more_partitions_than_files_may_be_open_brings_all_and_holds_few(tmp_path):
    async def scenario(broker):
        opened = []

        def grant(size_bytes):
            opened.append(_open_logs(tmp_path))  # between finding and reading
            return size_bytes

        reads = [_read("many", number) for number in range(MANY)]
        fetched = await broker.fetcher.fetch(FetchRequest(reads, 0, grant=grant))
        assert {(item.error, item.count) for item in fetched} == {(None, 1)}
        assert opened[0] <= OPEN + _MAX_HELD_REGIONS
        assert _open_logs(tmp_path) <= OPEN

    _run_with_few_files(tmp_path, scenario)


def test_a_fetch_that_waits_for_more_holds_no_file(tmp_path):
    async def scenario(broker):
        reads = [_read("many", number) for number in range(MANY)]
        request = FetchRequest(reads, LONG_MS, min_bytes=100_000)
        waiting = [asyncio.create_task(broker.fetcher.fetch(request)) for _ in range(5)]
        await asyncio.sleep(0)
        assert _open_logs(tmp_path) <= OPEN
        _put(broker, "many", 0, 100_000)
        for fetched in await asyncio.gather(*waiting):
            assert sum(item.count for item in fetched) == MANY + 1

    _run_with_few_files(tmp_path, scenario)


def test_a_fetch_that_failed_in_part_holds_no_file_once_it_is_over(tmp_path):
    async def scenario(broker):
        reads = [_read("many", number) for number in range(MANY)]
        gc.disable()  # an error that keeps its frames alive would keep what they had open
        try:
            failing = [_read("many", 0, offset=9), *reads[1:], _read("many", MANY)]
            fetched = await broker.fetcher.fetch(FetchRequest(failing, 0))
            assert [item.count for item in fetched] == [0, *[1] * (MANY - 1), 0]
            assert _open_logs(tmp_path) <= OPEN
        finally:
            gc.enable()

    _run_with_few_files(tmp_path, scenario)
