"""A partition is the same over any log: the one on the disk, and one in memory.

The one in memory is a single file, `support/memory_log.py`; nothing else knows of it.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from goqueue.model.delivery import PRIORITY_HEADER
from goqueue.model.errors import (
    DiskError,
    LogFailedError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.partitions.opening import open_on_disk, opened as opened_log
from goqueue.partitions.partition import Isolation, Partition
from goqueue.records import Record, decode_rows, encode, peek, walk
from goqueue.records.batch import DELIVERY, TRANSACTIONAL
from goqueue.storage.config import Fsync, LogConfig
from goqueue.storage.disk_log import DiskLog, LogHost
from goqueue.storage.open_files import SharedFiles
from support.clocks import ManualClock
from support.disks import HastyDisk
from support.memory_log import MemoryLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from goqueue.partitions.partition import Placed
    from goqueue.partitions.partition_log import PartitionLog

_folders = count()
POLICIES = [Fsync.ALWAYS, Fsync.NEVER]


class Shelf:
    """Opens the log of one partition, and opens it again."""

    def __init__(self, folder: Path, fsync: Fsync) -> None:
        self.folder = folder / str(next(_folders))
        self.config = LogConfig(fsync=fsync)
        self.clock, self.disk = ManualClock(), HastyDisk()
        self.pool = ThreadPoolExecutor(2)

    def open(self) -> Partition:
        shared, host = SharedFiles(self.disk), LogHost(self.pool)
        opened = open_on_disk(self.folder, self.config, host, shared=shared, clock=self.clock)
        return Partition(TopicPartition("t", 0), opened, clock=self.clock)

    async def leave(self, partition: Partition) -> None:
        """As a killed process leaves it."""
        log = partition._log
        assert isinstance(log, DiskLog)
        await log.flusher.stop()

    def fail(self, partition: Partition) -> None:
        log = partition._log
        assert isinstance(log, DiskLog)
        log.flush_failed(DiskError("the disk refuses"))


class MemoryShelf(Shelf):
    """The same in memory."""

    log: MemoryLog | None = None

    def open(self) -> Partition:
        self.log = MemoryLog(self.config) if self.log is None else self.log.reopened()
        log: PartitionLog = self.log
        return Partition(TopicPartition("t", 0), opened_log(log, self.clock), clock=self.clock)

    async def leave(self, partition: Partition) -> None:
        del partition

    def fail(self, partition: Partition) -> None:
        del partition
        assert self.log is not None
        self.log.fail(DiskError("it refuses"))


@pytest.fixture(params=[Shelf, MemoryShelf], ids=["disk", "memory"])
def kind(request: pytest.FixtureRequest) -> type[Shelf]:
    found: type[Shelf] = request.param
    return found


@pytest.fixture(params=POLICIES)
def shelf(request: pytest.FixtureRequest, kind: type[Shelf], memory_path: Path) -> Iterator[Shelf]:
    found = kind(memory_path, request.param)
    yield found
    found.pool.shutdown()


def _append(partition: Partition, *values: bytes, **fields: Any) -> Placed:
    records = [Record(at, 1000 + at, b"k", value) for at, value in enumerate(values)]
    batch = encode(records, **fields)
    return partition.append(batch, peek(batch))


def _seen(partition: Partition, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> list[bytes]:
    """The values that a reader gets from the start of the partition, a few bytes at a time."""
    found: list[bytes] = []
    offset = partition.log_start
    while (region := partition.find(offset, 1, isolation)) is not None:
        chunk = region.load()
        for at, info in walk(chunk.data):
            if not info.is_control:
                rows = decode_rows(chunk.data, at)
                found += [each.value or b"" for each in rows if each.offset >= offset]
        offset = chunk.next_offset
    return found


def _run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario()

    asyncio.run(main())


def test_what_was_committed_is_seen_and_found(shelf: Shelf) -> None:
    async def scenario() -> None:
        partition = shelf.open()
        placed = _append(partition, b"a", b"b")
        assert (placed.first_offset, placed.end_offset) == (0, 2)
        is_slow = shelf.config.fsync is Fsync.ALWAYS
        assert partition.is_committed(2) is not is_slow
        assert (partition.high_watermark, partition.log_end) == (0 if is_slow else 2, 2)
        await partition.committed(2)
        _append(partition, b"c")
        await partition.committed(3)
        assert partition.high_watermark == 3
        assert _seen(partition) == [b"a", b"b", b"c"]
        with pytest.raises(OffsetOutOfRangeError):
            partition.find(4, 1, Isolation.READ_UNCOMMITTED)
        hit, latest = partition.find_time(1001), partition.find_latest_time()
        assert (hit and hit.offset, latest and latest.offset) == (1, 1)
        assert partition.find_time(5000) is None
        partition.check_invariants()

    _run(scenario)


def test_a_batch_of_an_idempotent_producer_is_stored_once_across_a_restart(shelf: Shelf) -> None:
    async def scenario() -> None:
        partition = shelf.open()
        first = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        _append(partition, b"a", b"b", **first)
        await partition.checkpoint()
        _append(partition, b"c", **{**first, "base_sequence": 2})
        await partition.synced(3)
        await shelf.leave(partition)
        partition = shelf.open()
        assert _append(partition, b"a", b"b", **first).duplicate
        assert _append(partition, b"c", **{**first, "base_sequence": 2}).first_offset == 2
        with pytest.raises(OutOfOrderSequenceError):
            _append(partition, b"e", **{**first, "base_sequence": 9})
        assert partition.log_end == 3

    _run(scenario)


@pytest.mark.parametrize("marker", list(Marker))
def test_a_transaction_is_hidden_until_its_marker(shelf: Shelf, marker: Marker) -> None:
    async def scenario() -> None:
        partition = shelf.open()
        _append(partition, b"before")
        producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
        _append(partition, b"inside", attributes=TRANSACTIONAL, **producer)
        _append(partition, b"after")
        await partition.synced(3)
        assert partition.last_stable == 1
        assert _seen(partition, Isolation.READ_COMMITTED) == [b"before"]
        await shelf.leave(partition)
        partition = shelf.open()
        assert partition.last_stable == 1
        placed = partition.append_marker(marker, 7, 0, 0)
        assert placed is not None
        await partition.committed(placed.end_offset)
        assert partition.last_stable == partition.high_watermark == 4
        assert partition.append_marker(marker, 7, 0, 0) is None
        region = partition.find(1, 1, Isolation.READ_COMMITTED)
        assert region is not None
        _, info = next(iter(walk(region.load().data)))
        assert partition.transactions.is_aborted(info) is (marker is Marker.ABORT)

    _run(scenario)


def test_lanes_follow_from_the_log(shelf: Shelf) -> None:
    async def scenario() -> None:
        partition = shelf.open()
        headers = ((PRIORITY_HEADER, b"high"),)
        records = [Record(0, 1000, None, b"n", ()), Record(1, 1000, None, b"h", headers)]
        batch = encode(records, attributes=DELIVERY)
        partition.append(batch, peek(batch))
        await partition.synced(2)
        lanes = [partition.lanes.lane_of(offset) for offset in range(2)]
        assert lanes[0] != lanes[1]
        await shelf.leave(partition)
        partition = shelf.open()
        assert [partition.lanes.lane_of(offset) for offset in range(2)] == lanes

    _run(scenario)


def test_records_before_the_start_are_gone(shelf: Shelf) -> None:
    async def scenario() -> None:
        partition = shelf.open()
        for value in (b"a", b"b", b"c"):
            _append(partition, value)
        await partition.synced(3)
        assert await partition.delete_before(2) == 2
        assert (partition.log_start, partition.message_count) == (2, 1)
        assert _seen(partition) == [b"c"]
        with pytest.raises(OffsetOutOfRangeError):
            partition.find(1, 1, Isolation.READ_UNCOMMITTED)
        assert await partition.delete_before(9) == 3
        await partition.close()
        partition = shelf.open()
        assert (partition.log_start, partition.log_end) == (3, 3)

    _run(scenario)


def test_a_failed_log_refuses_until_it_has_recovered(shelf: Shelf) -> None:
    async def scenario() -> None:
        partition = shelf.open()
        producer = {"producer_id": 7, "producer_epoch": 0}
        _append(partition, b"a", base_sequence=0, **producer)
        await partition.synced(1)
        before = partition.recovery
        shelf.fail(partition)
        with pytest.raises(LogFailedError):
            _append(partition, b"b", base_sequence=1, **producer)
        assert partition.failure is not None
        await partition.recover()
        assert partition.failure is None
        assert partition.recovery is not before
        assert _append(partition, b"a", base_sequence=0, **producer).duplicate
        placed = _append(partition, b"b", base_sequence=1, **producer)
        await partition.committed(placed.end_offset)
        assert _seen(partition) == [b"a", b"b"]

    _run(scenario)


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("trim"), st.floats(0, 1)),
        st.tuples(st.sampled_from(["commit", "kill", "close", "checkpoint", "fail"]), st.none()),
    ),
    max_size=15,
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_STEPS, fsync=st.sampled_from(POLICIES))
def test_a_partition_holds_what_a_list_would(
    kind: type[Shelf],
    memory_path: Path,
    steps: list[tuple[str, float | None]],
    fsync: Fsync,
) -> None:
    shelf = kind(memory_path, fsync)
    twin: list[bytes] = []
    start = 0

    async def scenario() -> None:
        nonlocal start
        partition = shelf.open()
        for step, argument in steps:
            if step == "append":
                values = [b"%d" % (len(twin) + at) for at in range(int(argument or 1))]
                assert _append(partition, *values).first_offset == len(twin)
                twin.extend(values)
            elif step == "trim":
                start += int((len(twin) - start) * (argument or 0))
                assert await partition.delete_before(start) == start
            elif step == "checkpoint":
                await partition.checkpoint()
            elif step == "fail":
                await partition.synced(len(twin))
                shelf.fail(partition)
                await partition.recover()
            elif step == "commit":
                await partition.committed(partition.log_end)
                assert partition.high_watermark == len(twin)
            else:
                await (partition.close() if step == "close" else shelf.leave(partition))
                partition = shelf.open()
            partition.check_invariants()
            assert (partition.log_start, partition.log_end) == (start, len(twin))
            seen = _seen(partition)
            assert seen == twin[start : partition.high_watermark]
        await partition.synced(len(twin))
        assert [r for c in partition.chunks(start) for r in _values(c.data, start)] == twin[start:]
        await partition.delete()

    asyncio.run(scenario())
    shelf.pool.shutdown()


def _values(data: bytes | bytearray, start: int) -> list[bytes]:
    rows = [row for at, _ in walk(data) for row in decode_rows(data, at)]
    return [row.value or b"" for row in rows if row.offset >= start]
