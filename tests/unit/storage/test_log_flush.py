"""When appends reach the disk: group commit, the interval, never; and what a failure does."""

from __future__ import annotations

import asyncio
import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from goqueue.model.errors import DiskError, LogFailedError
from goqueue.storage.config import Fsync, LogConfig
from goqueue.storage.flushing.flusher import Flusher
from goqueue.storage.flushing.schedule import FlushSchedule
from goqueue.storage.log import Log
from support.batches import batch, fill
from support.disks import Fault, FaultyDisk, FaultyFile
from support.oracle import Oracle, readable

if TYPE_CHECKING:
    from pathlib import Path


class SlowSyncDisk(FaultyDisk):
    """Syncs wait until the test lets them go, in the thread where they happen."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.gate = threading.Event()
        self.entered = threading.Event()

    def strike(self, operation: str, path: Path) -> Fault | None:
        if operation == "sync" and path.suffix == ".log" and not self.gate.is_set():
            self.entered.set()
            self.lock.release()  # other operations go on meanwhile
            try:
                assert self.gate.wait(60)
            finally:
                self.lock.acquire()
        return super().strike(operation, path)


def open_log(disk: FaultyDisk, fsync: Fsync, **rest: int) -> Log:
    return Log(disk.root / "log", LogConfig(fsync=fsync, **rest), disk=disk)


async def append(log: Log, flusher: Flusher, data: bytearray | None = None) -> int:
    appended = log.append(batch() if data is None else data)
    await flusher.durable(appended.end_offset)
    return appended.first_offset


async def entered(disk: SlowSyncDisk) -> None:
    assert await asyncio.to_thread(disk.entered.wait, 60)


def test_always_many_waiting_appends_share_one_sync(memory_path: Path) -> None:
    async def scenario() -> None:
        disk = SlowSyncDisk(memory_path)
        log = open_log(disk, Fsync.ALWAYS)
        flusher = Flusher(log)
        first = asyncio.create_task(append(log, flusher))
        await entered(disk)
        others = [asyncio.create_task(append(log, flusher)) for _ in range(64)]
        await asyncio.sleep(0)
        assert log.end_offset == 65
        assert not any(task.done() for task in (first, *others))
        disk.gate.set()
        assert [await task for task in (first, *others)] == list(range(65))
        assert disk.counts["sync .log"] == 2, "one for the first, one for all that came meanwhile"
        assert log.flushed_offset == 65

    asyncio.run(scenario())


class Appenders:
    """Eight tasks that append and wait, until some acknowledgements have come."""

    def __init__(self, log: Log) -> None:
        self.oracle = Oracle()
        self.acknowledged = 0
        self._log = log
        self._flusher = Flusher(log)
        self._count = 0
        self._enough = asyncio.Event()

    async def run(self) -> None:
        tasks = [asyncio.create_task(self._append()) for _ in range(8)]
        await self._enough.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._flusher.stop()

    async def _append(self) -> None:
        while True:
            data = batch(2, value=b"x" * 50)
            end = self._log.append(data).end_offset
            self.oracle.appended(data)
            await self._flusher.durable(end)
            self.acknowledged = max(self.acknowledged, end)
            self._count += 1
            if self._count == 25:
                self._enough.set()


@pytest.mark.parametrize("seed", range(10))
def test_always_an_acknowledged_append_survives_a_power_cut(memory_path: Path, seed: int) -> None:
    disk = FaultyDisk(memory_path, seed=seed)

    async def scenario() -> Appenders:
        appenders = Appenders(open_log(disk, Fsync.ALWAYS, segment_bytes=700))
        await appenders.run()
        return appenders

    appenders = asyncio.run(scenario())
    disk.crash()
    log = open_log(disk, Fsync.ALWAYS, segment_bytes=700)
    assert appenders.acknowledged >= 16
    appenders.oracle.judge(log, promised_end=appenders.acknowledged)


def test_always_a_cancelled_waiter_does_not_take_the_flush_along(memory_path: Path) -> None:
    async def scenario() -> None:
        disk = SlowSyncDisk(memory_path)
        log = open_log(disk, Fsync.ALWAYS)
        flusher = Flusher(log)
        tasks = [asyncio.create_task(append(log, flusher)) for _ in range(3)]
        await entered(disk)
        tasks[0].cancel()
        disk.gate.set()
        assert await asyncio.gather(*tasks[1:]) == [1, 2]
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]

    asyncio.run(scenario())


def test_always_a_cancelled_stop_does_not_take_the_flush_along(memory_path: Path) -> None:
    async def scenario() -> None:
        disk = SlowSyncDisk(memory_path)
        log = open_log(disk, Fsync.ALWAYS)
        flusher = Flusher(log)
        waiting = asyncio.create_task(append(log, flusher))
        await entered(disk)
        stopping = asyncio.create_task(flusher.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        await asyncio.wait([stopping])
        disk.gate.set()
        assert await waiting == 0
        assert log.flushed_offset == 1

    asyncio.run(scenario())


def test_always_nobody_is_told_of_success_when_the_sync_failed(memory_path: Path) -> None:
    async def scenario() -> None:
        disk = SlowSyncDisk(memory_path)
        log = open_log(disk, Fsync.ALWAYS)
        flusher = Flusher(log)
        first = asyncio.create_task(append(log, flusher))
        await entered(disk)
        late = asyncio.create_task(append(log, flusher))
        await asyncio.sleep(0)
        disk.fail_next("sync", ending=".log", drop=True)
        disk.gate.set()
        results = await asyncio.gather(first, late, return_exceptions=True)
        assert [type(result) for result in results] == [LogFailedError, LogFailedError]
        with pytest.raises(LogFailedError):
            log.append(batch())
        for _ in range(3):  # asking again does not help: the pages are gone
            with pytest.raises(LogFailedError):
                await flusher.durable(1)
        assert log.flushed_offset == 0

    asyncio.run(scenario())


def test_always_a_waiter_hears_of_the_failure_even_if_the_log_has_recovered_meanwhile(
    memory_path: Path,
) -> None:
    """Its offset now belongs to another record, and that one's durability is not its own."""

    async def scenario() -> None:
        disk = SlowSyncDisk(memory_path)
        log = open_log(disk, Fsync.ALWAYS)
        flusher = Flusher(log, on_flushed=lambda: None)
        waiter = asyncio.create_task(append(log, flusher, batch(value=b"first")))
        await entered(disk)
        disk.fail_next("sync", ending=".log", drop=True)
        running = flusher._running
        running.add_done_callback(lambda _: recover_and_append(log))
        disk.gate.set()
        with pytest.raises(LogFailedError):
            await waiter
        assert log.failure is None
        assert log.flushed_offset == log.end_offset == 1

    def recover_and_append(log: Log) -> None:
        log.recover()
        assert log.end_offset == 0
        log.append(batch(value=b"other"))
        log.flush()

    asyncio.run(scenario())


def test_always_an_append_that_was_flushed_is_acknowledged_though_a_later_one_failed(
    memory_path: Path,
) -> None:
    async def scenario() -> None:
        disk = SlowSyncDisk(memory_path)
        log = open_log(disk, Fsync.ALWAYS)
        flusher = Flusher(log)
        waiter = asyncio.create_task(append(log, flusher))
        await entered(disk)
        disk.fail_next("write", errno.ENOSPC, ending=".log")
        with pytest.raises(DiskError):
            log.append(batch())
        disk.gate.set()
        assert await waiter == 0

    asyncio.run(scenario())


def test_interval_appends_are_acknowledged_at_once_and_synced_once_an_interval(
    memory_path: Path,
) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(memory_path)
        flushed = asyncio.Event()
        log = open_log(disk, Fsync.INTERVAL, fsync_interval_ms=20)
        flusher = Flusher(log, on_flushed=flushed.set)
        for _ in range(50):
            await append(log, flusher)
        assert disk.counts["sync .log"] == 0
        assert log.flushed_offset == 0
        await asyncio.wait_for(flushed.wait(), 60)
        assert disk.counts["sync .log"] == 1
        assert log.flushed_offset == 50
        flushed.clear()
        await append(log, flusher)
        await asyncio.wait_for(flushed.wait(), 60)
        assert (disk.counts["sync .log"], log.flushed_offset) == (2, 51)
        await flusher.stop()

    asyncio.run(scenario())


def test_interval_an_append_during_the_flush_of_a_roll_is_synced_an_interval_later(
    memory_path: Path,
) -> None:
    async def scenario() -> None:
        disk = SlowSyncDisk(memory_path)
        all_flushed = asyncio.Event()
        log = open_log(disk, Fsync.INTERVAL, segment_bytes=400, fsync_interval_ms=10)

        def on_flushed() -> None:
            if log.flushed_offset == log.end_offset:
                all_flushed.set()

        schedule = FlushSchedule()
        flusher = Flusher(log, on_flushed=on_flushed, schedule=schedule)
        while len(log.segments) < 2:
            await append(log, flusher, batch(value=b"x" * 100))
        await entered(disk)
        schedule.discard(flusher)  # the interval of the appends before the roll ends meanwhile
        await schedule.flush([flusher])
        await append(log, flusher)
        disk.gate.set()
        await asyncio.wait_for(all_flushed.wait(), 60)
        await flusher.stop()

    asyncio.run(scenario())


def test_never_a_segment_sealed_during_the_flush_of_another_is_synced(memory_path: Path) -> None:
    async def scenario() -> None:
        disk = SlowSyncDisk(memory_path)
        log = open_log(disk, Fsync.NEVER, segment_bytes=400)
        flusher = Flusher(log)
        while len(log.segments) < 2:
            await append(log, flusher, batch(value=b"x" * 100))
        await entered(disk)
        while len(log.segments) < 3:
            await append(log, flusher, batch(value=b"x" * 100))
        disk.gate.set()
        await flusher.stop()
        assert not log.checkpoint_due

    asyncio.run(scenario())


def test_interval_an_idle_log_is_left_alone(memory_path: Path) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(memory_path)
        log = open_log(disk, Fsync.INTERVAL, fsync_interval_ms=1)
        flushed = asyncio.Event()
        schedule = FlushSchedule()
        flusher = Flusher(log, on_flushed=flushed.set, schedule=schedule)
        await append(log, flusher)
        await asyncio.wait_for(flushed.wait(), 60)
        assert len(schedule) == 0
        await flusher.stop()

    asyncio.run(scenario())


def test_interval_a_failed_sync_stops_the_log(memory_path: Path) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(memory_path)
        log = open_log(disk, Fsync.INTERVAL, fsync_interval_ms=60_000)
        flusher = Flusher(log)
        disk.fail_next("sync", ending=".log")
        await append(log, flusher)
        with pytest.raises(LogFailedError):
            await flusher.flush()
        with pytest.raises(LogFailedError):
            log.append(batch())
        await flusher.stop()

    asyncio.run(scenario())


def test_never_only_sealed_segments_are_synced(memory_path: Path) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(memory_path)
        log = open_log(disk, Fsync.NEVER, segment_bytes=1000)
        flusher = Flusher(log)
        await append(log, flusher)
        assert flusher._running is None
        assert disk.counts["sync .log"] == 0
        while len(log.segments) < 2:
            await append(log, flusher, batch(3, value=b"x" * 50))
        await flusher.stop()
        assert disk.counts["sync .log"] > 0
        assert not log.checkpoint_due
        disk.kill()
        again = open_log(disk, Fsync.NEVER, segment_bytes=1000)
        assert again.recovery.scanned_bytes < 1000, "the sealed segment is vouched for"

    asyncio.run(scenario())


@pytest.mark.parametrize("fsync", list(Fsync))
def test_every_policy_keeps_recovery_short_however_much_is_written(
    memory_path: Path, fsync: Fsync
) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(memory_path)
        log = open_log(disk, fsync, segment_bytes=2000)
        flusher = Flusher(log)
        for _ in range(100):
            await append(log, flusher, batch(2, value=b"x" * 100))
            await flusher.stop()
        size = log.size_bytes
        disk.kill()
        log = open_log(disk, fsync, segment_bytes=2000)
        assert log.recovery.scanned_bytes <= 2000 < size / 10
        assert log.end_offset == 200

    asyncio.run(scenario())


def test_a_flusher_uses_the_executor_it_was_given(memory_path: Path) -> None:
    seen = set()

    class Noting(FaultyDisk):
        def strike(self, operation: str, path: Path) -> Fault | None:
            if operation == "sync":
                seen.add(threading.current_thread().name.split("_")[0])
            return super().strike(operation, path)

    async def scenario() -> None:
        with ThreadPoolExecutor(1, thread_name_prefix="syncing") as executor:
            log = open_log(Noting(memory_path), Fsync.ALWAYS)
            await append(log, Flusher(log, executor))

    asyncio.run(scenario())
    assert "syncing" in seen


def test_a_flush_syncs_only_what_is_not_yet_on_the_disk(memory_path: Path) -> None:
    disk = FaultyDisk(memory_path)
    log = open_log(disk, Fsync.NEVER, segment_bytes=600)
    fill(log, 6)
    assert len(log.segments) == 3
    log.flush()
    assert disk.counts["sync .log"] == 3
    log.flush()
    assert disk.counts["sync .log"] == 3
    log.append(batch())
    log.flush()
    assert disk.counts["sync .log"] == 4
    assert isinstance(log.segments.active.file, FaultyFile)
    assert len(list(readable(log))) == 7


@pytest.mark.parametrize("fsync", [Fsync.INTERVAL, Fsync.NEVER])
def test_an_append_that_makes_flush_messages_unsynced_records_waits_for_the_disk(
    memory_path: Path, fsync: Fsync
) -> None:
    async def scenario() -> None:
        disk = SlowSyncDisk(memory_path)
        log = open_log(disk, fsync, flush_messages=3, fsync_interval_ms=3_600_000)
        flusher = Flusher(log)
        for _ in range(2):
            await append(log, flusher)
        assert log.flushed_offset == 0
        third = asyncio.create_task(append(log, flusher))
        await entered(disk)
        assert not third.done()
        disk.gate.set()
        assert await third == 2
        assert log.flushed_offset == 3
        await append(log, flusher)
        assert log.flushed_offset == 3, "counting starts again at what is on the disk"
        await flusher.stop()

    asyncio.run(scenario())
