"""One partition: what is visible when, and what it knows of its producers after any end."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from goqueue.model.errors import DiskError, LogFailedError, OffsetOutOfRangeError
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.opening import open_on_disk
from goqueue.partitions.partition import Isolation, Partition
from goqueue.partitions.waiting import Waiter
from goqueue.records import Record, decode_rows, encode, walk
from goqueue.records.batch import peek
from goqueue.storage.config import Fsync, LogConfig
from goqueue.storage.disk_log import LogHost
from goqueue.storage.open_files import SharedFiles
from support.clocks import ManualClock
from support.disks import FaultyDisk, HastyDisk, HastyFile
from support.effort import examples
from support.logs import disk_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from goqueue.runtime.disk import Disk

ALWAYS = LogConfig(fsync=Fsync.ALWAYS)
NEVER = LogConfig(fsync=Fsync.NEVER)
_folders = count()


def _open(folder: Path, config: LogConfig, disk: Disk, pool: ThreadPoolExecutor) -> Partition:
    partition_id = TopicPartition("t", 0)
    clock = ManualClock()
    shared = SharedFiles(disk)
    opened_log = open_on_disk(folder / "0", config, LogHost(pool), shared=shared, clock=clock)
    return Partition(partition_id, opened_log, clock=clock)


@asynccontextmanager
async def opened(
    folder: Path, config: LogConfig, disk: Disk | None = None
) -> AsyncIterator[Partition]:
    pool = ThreadPoolExecutor(2)
    try:
        yield _open(folder, config, disk or HastyDisk(), pool)
    finally:
        pool.shutdown()


def _batch(*values: bytes, **producer: Any) -> bytearray:
    return encode([Record(n, 1000, b"k", value) for n, value in enumerate(values)], **producer)


def _append(partition: Partition, *values: bytes, **producer: Any):
    batch = _batch(*values, **producer)
    return partition.append(batch, peek(batch))


def _visible(partition: Partition) -> list[bytes]:
    """What a reader gets from the start of the partition."""
    found, offset = [], partition.log_start
    while True:
        region = partition.find(offset, 1 << 20, Isolation.READ_UNCOMMITTED)
        if region is None:
            return found
        chunk = region.load()
        for at, _ in walk(chunk.data):
            found += [r.value for r in decode_rows(chunk.data, at) if r.offset >= offset]
        offset = chunk.next_offset


# --- Watermarks -----------------------------------------------------------------------------------


class GatedFile(HastyFile):
    def sync(self) -> None:
        assert GatedDisk.gate.wait(60)


class GatedDisk(HastyDisk):
    """Nothing reaches the disk while the gate is shut."""

    gate = threading.Event()

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> HastyFile:
        real = super().open(path, create=create, write=write)
        real.__class__ = GatedFile
        return real


@pytest.fixture
def gate():
    GatedDisk.gate.set()
    yield GatedDisk.gate
    GatedDisk.gate.set()


@pytest.mark.parametrize("is_awaited", [True, False])
def test_readers_see_nothing_that_is_not_on_the_disk(tmp_path, gate, is_awaited):
    """Whether the publisher waits for its acknowledgement or not."""

    async def scenario():
        async with opened(tmp_path, ALWAYS, GatedDisk()) as partition:
            await partition.committed(_append(partition, b"a").end_offset)
            gate.clear()
            placed = _append(partition, b"b", b"c")
            waiter = Waiter(1)
            partition.waiters.add(waiter)
            assert (partition.log_end, partition.high_watermark) == (3, 1)
            assert not partition.is_committed(placed.end_offset)
            assert _visible(partition) == [b"a"]
            assert partition.find(2, 100, Isolation.READ_UNCOMMITTED) is None
            partition.check_invariants()
            gate.set()
            if is_awaited:
                await asyncio.wait_for(partition.committed(placed.end_offset), 60)
            assert await waiter.wait(60)
            assert (partition.high_watermark, _visible(partition)) == (3, [b"a", b"b", b"c"])

    asyncio.run(scenario())


def test_what_comes_during_a_flush_is_flushed_by_the_next_one(tmp_path, gate):
    async def scenario():
        async with opened(tmp_path, ALWAYS, GatedDisk()) as partition:
            await partition.committed(_append(partition, b"a").end_offset)
            gate.clear()
            _append(partition, b"b")
            await asyncio.sleep(0)  # the flush has its plan now, and waits at the gate
            _append(partition, b"c")
            gate.set()
            while partition.high_watermark < 3:
                waiter = Waiter(1)
                partition.waiters.add(waiter)
                assert await waiter.wait(60)
            assert _visible(partition) == [b"a", b"b", b"c"]

    asyncio.run(scenario())


@pytest.mark.parametrize("config", [NEVER, LogConfig(fsync=Fsync.INTERVAL)])
def test_without_that_promise_readers_see_an_append_at_once(tmp_path, config):
    async def scenario():
        async with opened(tmp_path, config) as partition:
            placed = _append(partition, b"a")
            assert partition.is_committed(placed.end_offset)
            assert (partition.high_watermark, _visible(partition)) == (1, [b"a"])
            await partition.close()

    asyncio.run(scenario())


def test_a_promise_made_later_holds_for_what_is_there_already(tmp_path):
    async def scenario():
        async with opened(tmp_path, NEVER) as partition:
            _append(partition, b"a")
            partition.configure(ALWAYS)
            assert partition.high_watermark == 0
            await asyncio.wait_for(disk_log(partition).flusher.settle(), 60)
            assert _visible(partition) == [b"a"]

    asyncio.run(scenario())


def test_what_a_killed_process_left_unsynced_is_synced_within_the_interval(tmp_path):
    config = LogConfig(fsync=Fsync.INTERVAL, fsync_interval_ms=1)

    async def scenario():
        async with opened(tmp_path, NEVER) as partition:
            _append(partition, b"a")
        async with opened(tmp_path, config) as partition:
            async with asyncio.timeout(60):
                while partition.synced_to == 0:  # noqa: ASYNC110 - nobody tells of it
                    await asyncio.sleep(0)
            assert _visible(partition) == [b"a"]
            await partition.close()

    asyncio.run(scenario())


def test_a_reader_waits_for_bytes_and_is_woken_by_the_append_that_completes_them(tmp_path):
    async def scenario():
        async with opened(tmp_path, NEVER) as partition:
            size = len(_batch(b"v"))
            waiter = Waiter(3 * size)
            partition.waiters.add(waiter)
            for _ in range(2):
                _append(partition, b"v")
                assert not waiter._future.done()
            _append(partition, b"v")
            assert await waiter.wait(0)

    asyncio.run(scenario())


def test_a_repeated_batch_wakes_nobody(tmp_path):
    async def scenario():
        async with opened(tmp_path, NEVER) as partition:
            producer = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
            _append(partition, b"v", **producer)
            waiter = Waiter(1)
            partition.waiters.add(waiter)
            assert _append(partition, b"v", **producer).duplicate
            assert not await waiter.wait(0)

    asyncio.run(scenario())


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from(["append", "append", "wait", "read", "turn"]), max_size=12),
    seed=st.integers(0, 1000),
)
def test_what_a_reader_has_seen_survives_a_power_cut(memory_path, steps, seed):
    folder = memory_path / str(next(_folders))
    disk = FaultyDisk(folder, seed=seed)
    disk.make_folder(folder)

    async def run():
        seen: list[bytes] = []
        async with opened(folder, ALWAYS, disk) as partition:
            for number, step in enumerate(steps):
                if step == "append":
                    placed = _append(partition, b"%d" % number)
                elif step == "wait" and partition.log_end:
                    await partition.committed(placed.end_offset)
                elif step == "read":
                    seen = _visible(partition)
                else:
                    await asyncio.sleep(0)
                partition.check_invariants()
            seen = _visible(partition)
            await disk_log(partition).flusher.stop()
            return max(seen, _visible(partition), key=len)

    seen = asyncio.run(run())
    disk.crash()

    async def judge():
        async with opened(folder, ALWAYS, disk) as partition:
            assert _visible(partition)[: len(seen)] == seen

    asyncio.run(judge())


def test_after_a_failed_sync_nothing_is_acknowledged_and_nothing_is_shown(tmp_path):
    async def scenario():
        disk = FaultyDisk(tmp_path)
        async with opened(tmp_path, ALWAYS, disk) as partition:
            await partition.committed(_append(partition, b"safe").end_offset)
            disk.fail_next("sync")
            placed = _append(partition, b"lost")
            with pytest.raises(LogFailedError):
                await partition.committed(placed.end_offset)
            assert _visible(partition) == [b"safe"]
            with pytest.raises((LogFailedError, DiskError)):
                _append(partition, b"refused")
            await partition.recover()
            assert partition.failure is None
            await partition.committed(_append(partition, b"after").end_offset)
            assert _visible(partition)[0] == b"safe"
            assert _visible(partition)[-1] == b"after"
            await partition.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("offset", [-1, 4])
def test_an_offset_that_the_log_does_not_have_is_refused(tmp_path, offset):
    async def scenario():
        async with opened(tmp_path, NEVER) as partition:
            _append(partition, b"a", b"b", b"c")
            with pytest.raises(OffsetOutOfRangeError):
                partition.find(offset, 100, Isolation.READ_COMMITTED)
            assert partition.find(3, 100, Isolation.READ_COMMITTED) is None

    asyncio.run(scenario())


# --- Producers ------------------------------------------------------------------------------------


class _Producer:
    def __init__(self, producer_id: int) -> None:
        self.fields = {"producer_id": producer_id, "producer_epoch": 0}
        self.next_sequence = 0
        self.sent: list[tuple[int, int, int]] = []
        """Sequence, count and offset of each batch."""


def _states(partition: Partition):
    return {
        producer_id: (state.epoch, state.last_timestamp_ms, list(state.batches))
        for producer_id, state in partition.sequences
    }


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.integers(0, 2), st.integers(1, 3)),
            st.sampled_from(["kill", "close", "checkpoint", "trim"]),
        ),
        max_size=20,
    )
)
def test_sequences_are_the_same_after_any_end(memory_path, steps):
    """Whatever comes of snapshots and replay, a producer never notices a restart."""
    folder = memory_path / str(next(_folders))
    disk = HastyDisk()
    producers = [_Producer(number) for number in range(3)]

    async def scenario():
        pool = ThreadPoolExecutor(2)
        partition = _open(folder, NEVER, disk, pool)
        for step in steps:
            before = _states(partition)
            if isinstance(step, tuple):
                _write(partition, producers[step[0]], step[1])
                continue
            if step == "checkpoint":
                await partition.checkpoint()
                continue
            if step == "trim":
                await partition.checkpoint()
                disk_log(partition).delete_before(partition.log_end)
                continue
            if step == "close":
                await partition.close()
            partition = _open(folder, NEVER, disk, pool)
            assert _states(partition) == before
            partition.check_invariants()
        for producer in producers:
            for sequence, size, offset in producer.sent[-5:]:
                values = [b"v"] * size
                again = _append(partition, *values, base_sequence=sequence, **producer.fields)
                assert (again.duplicate, again.first_offset) == (True, offset)
        await partition.delete()
        pool.shutdown()

    asyncio.run(scenario())


def _write(partition: Partition, producer: _Producer, count: int) -> None:
    sequence = producer.next_sequence
    placed = _append(partition, *[b"v"] * count, base_sequence=sequence, **producer.fields)
    assert not placed.duplicate
    producer.sent.append((sequence, count, placed.first_offset))
    producer.next_sequence += count
