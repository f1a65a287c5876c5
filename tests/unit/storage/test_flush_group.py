"""Replicas that are flushed together: one thread, one turn, and what happens to one of them."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import LogFailedError
from goqueue.storage.config import Fsync, LogConfig
from goqueue.storage.flushing.flusher import Flusher
from goqueue.storage.flushing.schedule import FlushSchedule
from goqueue.storage.log import Log
from support.batches import batch
from support.disks import Fault, FaultyDisk

if TYPE_CHECKING:
    from pathlib import Path


COUNT = 5


class ThreadNotingDisk(FaultyDisk):
    """Knows the threads in which files were synced."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.threads: list[int] = []

    def strike(self, operation: str, path: Path) -> Fault | None:
        if operation == "sync" and path.suffix == ".log":
            self.threads.append(threading.get_ident())
        return super().strike(operation, path)


def open_replicas(disk: FaultyDisk, schedule: FlushSchedule) -> list[tuple[Log, Flusher]]:
    logs = [
        Log(disk.root / f"log-{number}", LogConfig(fsync=Fsync.ALWAYS), disk=disk, is_replica=True)
        for number in range(COUNT)
    ]
    return [(log, Flusher(log, schedule=schedule)) for log in logs]


def appended(log: Log, flusher: Flusher) -> asyncio.Future[None]:
    return flusher.durable(log.append(batch()).end_offset)


def test_replicas_appended_in_one_turn_are_flushed_in_one_thread(memory_path: Path) -> None:
    async def scenario() -> None:
        disk = ThreadNotingDisk(memory_path)
        replicas = open_replicas(disk, FlushSchedule())
        for _ in range(3):
            await asyncio.gather(*(appended(*each) for each in replicas))
            assert all(log.flushed_offset == log.end_offset for log, _ in replicas)
            assert len(disk.threads) == COUNT
            assert len(set(disk.threads)) == 1
            disk.threads.clear()

    asyncio.run(scenario())


def test_what_is_appended_during_a_flush_is_flushed_by_the_next_one(memory_path: Path) -> None:
    async def scenario() -> None:
        replicas = open_replicas(FaultyDisk(memory_path), FlushSchedule())
        log, flusher = replicas[0]
        first = appended(log, flusher)
        await asyncio.sleep(0)
        rest = [appended(*each) for each in replicas]
        await asyncio.wait_for(asyncio.gather(first, *rest), 60)
        assert all(log.flushed_offset == log.end_offset for log, _ in replicas)

    asyncio.run(scenario())


def test_a_disk_that_refuses_one_replica_keeps_the_others(memory_path: Path) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(memory_path)
        replicas = open_replicas(disk, FlushSchedule())
        disk.fail_next("sync", ending=".log")
        done = await asyncio.gather(*(appended(*each) for each in replicas), return_exceptions=True)
        assert [type(each) for each in done if each is not None] == [LogFailedError]
        assert sum(log.failure is None for log, _ in replicas) == COUNT - 1
        failed, flusher = next(each for each in replicas if each[0].failure is not None)
        with pytest.raises(LogFailedError):
            await asyncio.wait_for(flusher.flush_to(failed.end_offset), 60)

    asyncio.run(scenario())


def test_stopping_a_replica_flushes_what_somebody_waits_for(memory_path: Path) -> None:
    async def scenario() -> None:
        log, flusher = open_replicas(FaultyDisk(memory_path), FlushSchedule())[0]
        waiting = appended(log, flusher)
        await flusher.stop()
        await asyncio.wait_for(waiting, 60)
        assert log.flushed_offset == log.end_offset

    asyncio.run(scenario())
