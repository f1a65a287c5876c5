"""Thousands of partitions: no sync on the event loop, no timer and no checkpoint file for each."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from goqueue.model.topic_partition import TopicPartition
from goqueue.records import Record, encode
from goqueue.records.batch import peek
from goqueue.storage.flushing.schedule import MANY, FlushSchedule
from support.brokers import read_all, running_broker
from support.disks import FaultyDisk, HastyDisk
from support.logs import disk_log

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.partitions.partition import Placed

COUNT = 60


def append(broker: Broker, topic: str, number: int) -> Placed:
    batch = encode([Record(0, broker.clock.now_ms(), None, b"%d" % number)])
    return broker.partitions.partition(TopicPartition(topic, number)).append(batch, peek(batch))


async def flushed(broker: Broker) -> None:
    for partition in broker.partitions:
        await disk_log(partition).flusher.flush_to(partition.log_end)


@pytest.mark.parametrize("fsync", ["always", "interval", "never"])
def test_nothing_is_synced_on_the_thread_of_the_event_loop(tmp_path: Path, fsync: str) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(tmp_path / "topics")
        async with running_broker(tmp_path, disk=disk) as broker:
            await broker.create_topic("t", COUNT, {"goqueue.fsync": fsync})
            disk.sync_threads.clear()
            for number in range(COUNT):
                append(broker, "t", number)
            assert disk.sync_threads == set()
            await flushed(broker)
            await broker.maintenance().checkpoint()
        assert disk.sync_threads
        assert threading.current_thread().name not in disk.sync_threads

    asyncio.run(scenario())


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_logs_that_are_flushed_together_outlive_a_power_cut(
    tmp_path: Path, seed: int, refused: bool
) -> None:
    """All files at once, or one by one where that is refused."""

    async def scenario() -> None:
        disk = FaultyDisk(tmp_path / "topics", seed=seed)
        async with running_broker(tmp_path, disk=disk, clean=False) as broker:
            await broker.create_topic("t", MANY, {"goqueue.fsync": "never"})
            for number in range(MANY):
                append(broker, "t", number)
            if refused:
                disk.fail_next("sync_all")
            disk.counts.clear()
            flushers = [
                disk_log(each).flusher for each in broker.partitions if each.id.topic == "t"
            ]
            await FlushSchedule(sync_all=lambda: disk.sync_all(tmp_path)).flush(flushers)
            assert disk.counts["sync_all"] == 1
            assert disk.counts["sync .log"] == (MANY if refused else 0)
        disk.crash()
        async with running_broker(tmp_path, disk=disk) as broker:
            found = [each for each in broker.partitions if each.id.topic == "t"]
            assert [each.log_end for each in found] == [1] * MANY

    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(10))
def test_an_acknowledged_first_append_outlives_a_power_cut_with_its_new_folders(
    tmp_path: Path, seed: int
) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(tmp_path / "topics", seed=seed)
        async with running_broker(tmp_path, disk=disk, clean=False) as broker:
            for topic in ("t", "u"):
                await broker.create_topic(topic, 5, {"goqueue.fsync": "always"})
            for topic in ("t", "u"):
                for number in range(3):
                    placed = append(broker, topic, number)
                    await broker.partitions.partition(TopicPartition(topic, number)).committed(
                        placed.end_offset
                    )
        disk.crash()
        async with running_broker(tmp_path, disk=disk) as broker:
            ends = {
                topic: [each.log_end for each in broker.partitions if each.id.topic == topic]
                for topic in ("t", "u")
            }
            assert ends == {"t": [1, 1, 1, 0, 0], "u": [1, 1, 1, 0, 0]}

    asyncio.run(scenario())


def test_partitions_that_wait_to_be_flushed_share_one_timer(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, disk=HastyDisk()) as broker:
            await broker.create_topic("t", COUNT, {"goqueue.fsync": "interval"})
            loop = asyncio.get_running_loop()
            before = timers(loop)
            for number in range(COUNT):
                append(broker, "t", number)
            assert timers(loop) <= before + 1

    asyncio.run(scenario())


def timers(loop: asyncio.AbstractEventLoop) -> int:
    return sum(not handle.cancelled() for handle in loop._scheduled)  # type: ignore[attr-defined]


def files_of(folder: Path, topic: str) -> list[Path]:
    return list(folder.glob(f"topics/{topic}/*/*/*"))


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
def test_a_checkpoint_of_many_short_logs_is_one_file(tmp_path: Path, clean: bool) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, disk=HastyDisk(), clean=clean) as broker:
            await broker.create_topic("t", COUNT)
            for number in range(COUNT):
                append(broker, "t", number)
            if not clean:
                assert await broker.maintenance().checkpoint() == COUNT
                assert await broker.maintenance().checkpoint() == 0
        assert len(files_of(tmp_path, "t")) == COUNT
        async with running_broker(tmp_path, disk=HastyDisk()) as broker:
            found = [each for each in broker.partitions if each.id.topic == "t"]
            assert [each.log_end for each in found] == [1] * COUNT
            assert sum(each.recovery.scanned_bytes for each in found) == 0
            assert [record.value for record in await read_all(broker, "t")] == [b"0"]

    asyncio.run(scenario())


def test_a_topic_made_again_does_not_find_the_summaries_of_the_old_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, disk=HastyDisk()) as broker:
            await broker.create_topic("t", 2)
            append(broker, "t", 1)
            await broker.maintenance().checkpoint()
            await broker.delete_topic("t")
            await broker.create_topic("t", 2)
        async with running_broker(tmp_path, disk=HastyDisk()) as broker:
            assert [each.log_end for each in broker.partitions if each.id.topic == "t"] == [0, 0]

    asyncio.run(scenario())
