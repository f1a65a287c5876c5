"""Old segments go: the files are removed in a thread, and the log goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import DiskError
from goqueue.model.topic_partition import TopicPartition
from goqueue.runtime.disk import SystemDisk
from goqueue.storage.naming import CHECKPOINT
from support.brokers import publish, read_all, running_broker
from support.clocks import ManualClock
from support.logs import disk_log

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.partitions.partition import Partition

DAY_MS = 24 * 3600 * 1000
SMALL_SEGMENTS = {"internal.segment.bytes": "1024"}
VALUE = b"." * 200


class WatchedDisk(SystemDisk):
    """Notes which threads wait for the disk while something is removed, and can hold them up."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: dict[str, int] = {}
        """The thread by what it did last of each kind."""
        self.reached = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def rename(self, source: Path, target: Path) -> None:
        if target.name == CHECKPOINT:
            self.waited["checkpoint"] = threading.get_ident()
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        if path.suffix == ".log":
            self.waited["removal"] = threading.get_ident()
            self.reached.set()
            assert self.may_go_on.wait(60)
        super().remove(path)


async def _full_topic(broker: Broker) -> Partition:
    await broker.create_topic("t", 1, {**SMALL_SEGMENTS, "retention.ms": str(DAY_MS)})
    for _ in range(20):
        publish(broker, "t", VALUE)
    partition = broker.partitions.partition(TopicPartition("t", 0))
    await partition.checkpoint()
    return partition


def _log_files(partition: Partition) -> int:
    return len(list(partition.folder.glob("*.log")))


@pytest.mark.parametrize("why", ["retention", "deletion"])
def test_files_are_removed_and_synced_in_a_thread(tmp_path: Path, why: str) -> None:
    """A large file takes tens of milliseconds to remove, and everybody else would wait."""

    async def scenario() -> None:
        clock, disk = ManualClock(now_ms=10 * DAY_MS), WatchedDisk()
        async with running_broker(tmp_path, clock=clock, disk=disk) as broker:
            partition = await _full_topic(broker)
            disk.waited.clear()
            if why == "retention":
                clock.advance(2 * DAY_MS)
                assert await broker.maintenance().expire() > 1
            else:
                assert await broker.delete_records(partition.id, None) == 20
            assert set(disk.waited) == {"checkpoint", "removal"}
            assert threading.get_ident() not in disk.waited.values()
            assert _log_files(partition) == len(disk_log(partition).segments) == 1

    asyncio.run(scenario())


def test_others_write_and_read_while_segments_are_removed(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = WatchedDisk()
        async with running_broker(tmp_path, disk=disk) as broker:
            partition = await _full_topic(broker)
            disk.may_go_on.clear()
            removing = asyncio.create_task(broker.delete_records(partition.id, 18))
            await asyncio.to_thread(disk.reached.wait)
            publish(broker, "t", VALUE)
            assert partition.log_start == 18
            assert len(await read_all(broker, "t")) == 3
            partition.check_invariants()
            disk.may_go_on.set()
            assert await removing == 18

    asyncio.run(scenario())


@pytest.mark.parametrize("end", ["deleted", "recovered"])
def test_a_log_is_neither_deleted_nor_recovered_while_segments_are_removed(
    tmp_path: Path, end: str
) -> None:
    async def scenario() -> None:
        disk = WatchedDisk()
        async with running_broker(tmp_path, disk=disk) as broker:
            partition = await _full_topic(broker)
            disk.may_go_on.clear()
            removing = asyncio.create_task(broker.delete_records(partition.id, None))
            await asyncio.to_thread(disk.reached.wait)
            disk_log(partition).flush_failed(DiskError("it refuses"))
            step = partition.recover() if end == "recovered" else partition.delete()
            ending = asyncio.create_task(step)
            for _ in range(10):
                await asyncio.sleep(0)
            assert not ending.done()
            disk.may_go_on.set()
            assert await removing == 20
            await ending
            assert partition.log_start == 20
            assert _log_files(partition) == (
                0 if end == "deleted" else len(disk_log(partition).segments)
            )

    asyncio.run(scenario())


def test_a_removal_that_is_called_off_half_way_is_finished_by_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = WatchedDisk()
        async with running_broker(tmp_path, disk=disk) as broker:
            partition = await _full_topic(broker)
            disk.may_go_on.clear()
            removing = asyncio.create_task(broker.delete_records(partition.id, 10))
            await asyncio.to_thread(disk.reached.wait)
            removing.cancel()
            next_one = asyncio.create_task(broker.delete_records(partition.id, 20))
            await asyncio.sleep(0)
            disk.may_go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await removing
            assert await next_one == 20
            assert _log_files(partition) == len(disk_log(partition).segments) == 1

    asyncio.run(scenario())
