"""What the broker does by itself, pass by pass, with a clock and a disk that the test holds."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.metrics import names
from goqueue.model.errors import DiskFullError, LogFailedError
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.upkeep import DiskState, MaintenanceSettings
from goqueue.runtime.disk import DiskUsage, SystemDisk, SystemFile
from goqueue.runtime.tasks import PeriodicTasks
from support.brokers import publish, read_all, running_broker
from support.clocks import ManualClock
from support.disks import FaultyDisk
from support.logs import disk_log

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.partitions.partition import Partition

DAY_MS = 24 * 3600 * 1000
SMALL_SEGMENTS = {"internal.segment.bytes": "1024"}
VALUE = b"." * 200


def partition_of(broker: Broker, topic: str) -> Partition:
    return broker.partitions.partition(TopicPartition(topic, 0))


class SizedDisk(SystemDisk):
    """A disk as full as the test says."""

    used_percent = 0.0

    def usage(self, folder: Path) -> DiskUsage:
        return DiskUsage(10_000, round(10_000 - 100 * self.used_percent))


# --- Retention -----------------------------------------------------------------------------------


def test_segments_older_than_the_topics_retention_are_dropped(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(now_ms=10 * DAY_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            await broker.create_topic("short", 1, {**SMALL_SEGMENTS, "retention.ms": str(DAY_MS)})
            await broker.create_topic("long", 1, SMALL_SEGMENTS)
            for topic in ("short", "long"):
                for _ in range(20):
                    publish(broker, topic, VALUE)
            maintenance = broker.maintenance()
            assert await maintenance.expire() == 0
            clock.advance(2 * DAY_MS)
            dropped = await maintenance.expire()
            assert dropped == disk_log(partition_of(broker, "short")).stats.segments_deleted > 1
            assert partition_of(broker, "short").log_start == 20
            assert partition_of(broker, "long").log_start == 0

    asyncio.run(scenario())


def test_a_compacted_topic_keeps_its_old_segments_and_rolls_its_open_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(now_ms=10 * DAY_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            policy = {"cleanup.policy": "compact", "segment.ms": "1000", "retention.ms": "1"}
            await broker.create_topic("table", 1, policy)
            publish(broker, "table", VALUE, key=b"k")
            clock.advance(DAY_MS)
            assert await broker.maintenance().expire() == 0
            log = disk_log(partition_of(broker, "table"))
            assert [segment.end_offset for segment in log.segments.sealed] == [1]
            assert len(await read_all(broker, "table")) == 1

    asyncio.run(scenario())


def test_a_producer_that_is_silent_for_a_week_is_forgotten(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(now_ms=100 * DAY_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            await broker.create_topic("t", 1)
            ids: dict[str, Any] = {"producer_epoch": 0, "base_sequence": 0}
            publish(broker, "t", VALUE, producer_id=1, **ids)
            clock.advance(6 * DAY_MS)
            # Its records are old, but it sends them now.
            publish(broker, "t", VALUE, producer_id=2, timestamp_ms=1, **ids)
            clock.advance(2 * DAY_MS)
            await broker.maintenance().expire()
            assert [producer for producer, _ in partition_of(broker, "t").sequences] == [2]

    asyncio.run(scenario())


def test_a_pass_looks_only_at_partitions_that_were_appended_to_or_whose_time_has_come(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        clock = ManualClock(now_ms=10 * DAY_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            await broker.create_topic("t", 5, {"retention.ms": str(DAY_MS)})
            maintenance = broker.maintenance()
            await maintenance.expire()
            assert list(broker.marks.retention.take(clock.now_ms())) == []
            publish(broker, "t", VALUE)
            publish(broker, "t", VALUE)
            assert len(broker.marks.retention) == 1
            assert await maintenance.expire() == 0
            assert list(broker.marks.retention.take(clock.now_ms() + DAY_MS)) == []
            clock.advance(DAY_MS + 1)
            assert await maintenance.expire() == 1
            assert partition_of(broker, "t").log_start == 2
            publish(broker, "t", VALUE)
            await maintenance.expire()
            await broker.configure_topic("t", {"retention.ms": "1"})
            clock.advance(2)
            assert await maintenance.expire() == 1
            await broker.delete_topic("t")
            assert list(broker.marks.retention.take(1 << 62)) == []

    asyncio.run(scenario())


def test_marks_of_what_a_broker_finds_at_start_are_set(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock(now_ms=10 * DAY_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            await broker.create_topic("t", 2, {"retention.ms": str(DAY_MS)})
            publish(broker, "t", VALUE)
        clock.advance(2 * DAY_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            assert await broker.maintenance().expire() == 1

    asyncio.run(scenario())


# --- Compaction ----------------------------------------------------------------------------------


def test_a_record_is_compacted_no_earlier_than_its_lag_and_then_without_an_append(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        clock = ManualClock(now_ms=10 * DAY_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            policy = {
                **SMALL_SEGMENTS,
                "cleanup.policy": "compact",
                "min.compaction.lag.ms": "60000",
            }
            await broker.create_topic("t", 1, policy)
            for _ in range(30):
                publish(broker, "t", VALUE, key=b"k")
            maintenance = broker.maintenance()
            assert await maintenance.compact_due() == 0
            clock.advance(60_000)
            assert await maintenance.compact_due() == 1
            assert len(await read_all(broker, "t")) < 10

    asyncio.run(scenario())


def test_the_longest_lag_compacts_what_is_not_dirty_enough_and_seals_what_is_open(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        clock = ManualClock(now_ms=10 * DAY_MS)
        async with running_broker(tmp_path, clock=clock) as broker:
            policy = {
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "1",
                "max.compaction.lag.ms": "60000",
            }
            await broker.create_topic("t", 1, policy)
            maintenance = broker.maintenance()
            publish(broker, "t", VALUE, key=b"k")
            clock.advance(60_001)
            await maintenance.expire()
            assert await maintenance.compact_due() == 1
            for _ in range(3):
                publish(broker, "t", VALUE, key=b"k")
            await maintenance.expire()
            assert await maintenance.compact_due() == 0
            clock.advance(60_001)
            await maintenance.expire()
            assert await maintenance.compact_due() == 1
            assert len(await read_all(broker, "t")) == 1

    asyncio.run(scenario())


def test_a_log_is_compacted_when_it_is_dirty_enough(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            policy = {**SMALL_SEGMENTS, "cleanup.policy": "compact"}
            await broker.create_topic("dirty", 1, policy)
            for number in range(30):
                publish(broker, "dirty", b"%d" % number + VALUE, key=b"k")
            maintenance = broker.maintenance()
            assert await maintenance.compact_due() == 1
            assert await maintenance.compact_due() == 0
            records = await read_all(broker, "dirty")
            assert len(records) < 10
            assert records[-1].offset == 29
            reading = broker.metrics.read()
            assert reading.values[names.COMPACTION_RUNS] == {("dirty",): 1}
            assert reading.values[names.COMPACTION_BYTES_RECLAIMED]["dirty",] > 20 * len(VALUE)

    asyncio.run(scenario())


def test_a_log_that_is_clean_enough_is_left_alone_until_it_is_asked_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            policy = {
                **SMALL_SEGMENTS,
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "0.9",
            }
            await broker.create_topic("t", 1, policy)
            maintenance = broker.maintenance()
            for number in range(20):
                publish(broker, "t", VALUE, key=b"%d" % number)
            assert await maintenance.compact_due() == 1
            for _ in range(20):
                publish(broker, "t", VALUE, key=b"k")
            assert await maintenance.compact_due() == 0
            stats = await maintenance.compact(TopicPartition("t", 0))
            assert stats is not None
            assert stats.records_before > stats.records_after

    asyncio.run(scenario())


def test_topics_that_delete_are_never_compacted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1, SMALL_SEGMENTS)
            for _ in range(30):
                publish(broker, "t", VALUE, key=b"k")
            assert await broker.maintenance().compact_due() == 0
            assert len(await read_all(broker, "t")) == 30

    asyncio.run(scenario())


# --- Checkpoints ---------------------------------------------------------------------------------


def test_a_killed_broker_scans_nothing_that_was_checkpointed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, clean=False) as broker:
            await broker.create_topic("t", 1)
            producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}
            first = publish(broker, "t", VALUE, base_sequence=0, **producer)
            maintenance = broker.maintenance()
            assert await maintenance.checkpoint() == 1
            assert await maintenance.checkpoint() == 0
            scanned_later = publish(broker, "t", VALUE, base_sequence=1, **producer)
        async with running_broker(tmp_path) as broker:
            partition = partition_of(broker, "t")
            assert 0 < partition.recovery.scanned_bytes < 2 * partition.size_bytes / 3
            again = publish(broker, "t", VALUE, base_sequence=0, **producer)
            assert again.placed.duplicate
            assert again.placed.first_offset == first.placed.first_offset
            again = publish(broker, "t", VALUE, base_sequence=1, **producer)
            assert again.placed.first_offset == scanned_later.placed.first_offset

    asyncio.run(scenario())


def test_sequences_are_kept_only_once_their_batches_are_on_the_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(tmp_path)
        async with running_broker(tmp_path, disk=disk) as broker:
            await broker.create_topic("t", 1)
            publish(broker, "t", VALUE)
            disk.trace.clear()
            await broker.maintenance().checkpoint()
            synced = disk.trace.index("sync 00000000000000000000.log")
            kept = next(n for n, told in enumerate(disk.trace) if "rename log-summaries" in told)
            assert synced < kept

    asyncio.run(scenario())


def test_appends_go_on_while_a_checkpoint_is_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, topic_defaults={"goqueue.fsync": "always"}) as broker:
            await broker.create_topic("t", 1)
            published = publish(broker, "t", VALUE)
            making = asyncio.create_task(broker.maintenance().checkpoint())
            later = publish(broker, "t", VALUE)
            for each in (published, later):
                assert each.durable is not None
                await each.durable
            assert await making == 1
            assert partition_of(broker, "t").synced_to == 2

    asyncio.run(scenario())


def test_a_topic_deleted_during_a_checkpoint_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            publish(broker, "t", VALUE)
            folder = partition_of(broker, "t").folder
            making = asyncio.create_task(broker.maintenance().checkpoint())
            await asyncio.sleep(0)
            await broker.delete_topic("t")
            await making
            assert not folder.exists()

    asyncio.run(scenario())


# --- The disk ------------------------------------------------------------------------------------


def test_publishing_is_refused_on_a_full_disk_and_taken_up_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        disk = SizedDisk()
        async with running_broker(tmp_path, disk=disk) as broker:
            await broker.create_topic("t", 1)
            maintenance = broker.maintenance()
            assert await maintenance.check_disk() is DiskState.ROOMY
            disk.used_percent = 85
            assert await maintenance.check_disk() is DiskState.TIGHT
            publish(broker, "t", VALUE)
            disk.used_percent = 90
            assert await maintenance.check_disk() is DiskState.FULL
            assert await maintenance.check_disk() is DiskState.FULL
            with pytest.raises(DiskFullError, match=r"90\.0 % full.*free some space"):
                publish(broker, "t", VALUE)
            disk.used_percent = 84.9
            assert await maintenance.check_disk() is DiskState.ROOMY
            publish(broker, "t", VALUE)

    with caplog.at_level(logging.INFO, logger="goqueue.partitions.maintenance"):
        asyncio.run(scenario())
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR", "INFO"]


# --- Repair --------------------------------------------------------------------------------------


def test_a_failed_log_is_recovered_and_takes_appends_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FaultyDisk(tmp_path)
        async with running_broker(tmp_path, disk=disk) as broker:
            await broker.create_topic("t", 1)
            publish(broker, "t", b"kept")
            disk.fail_next("write", ending=".log")
            with pytest.raises(Exception, match="failed"):
                publish(broker, "t", b"refused")
            with pytest.raises(LogFailedError):
                publish(broker, "t", b"refused")
            maintenance = broker.maintenance()
            assert await maintenance.recover() == 1
            assert await maintenance.recover() == 0
            publish(broker, "t", b"taken")
            assert [r.value for r in await read_all(broker, "t")] == [b"kept", b"taken"]

    asyncio.run(scenario())


def test_recovery_is_tried_less_and_less_often_while_the_disk_refuses(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        disk = FaultyDisk(tmp_path)
        async with running_broker(tmp_path, disk=disk, clock=clock) as broker:
            await broker.create_topic("t", 1)
            publish(broker, "t", b"kept")
            fault = disk.fail_next("sync", times=1000)
            with pytest.raises(LogFailedError):
                await disk_log(partition_of(broker, "t")).flusher.flush()
            maintenance = broker.maintenance(MaintenanceSettings(recovery_max_s=4.0))
            attempts = []
            for second in range(16):
                left = fault.times
                assert await maintenance.recover() == 0
                if fault.times < left:
                    attempts.append(second)
                clock.advance(1000)
            assert attempts == [0, 1, 3, 7, 11, 15]
            fault.times = 0
            clock.advance(4000)
            assert await maintenance.recover() == 1
            assert [r.value for r in await read_all(broker, "t")] == [b"kept"]

    asyncio.run(scenario())


# --- All of them ---------------------------------------------------------------------------------


def test_every_pass_is_started_and_all_of_them_stop(tmp_path: Path) -> None:
    async def scenario() -> None:
        asked: list[float] = []

        async def sleep(seconds: float) -> None:
            asked.append(seconds)
            await asyncio.Event().wait()

        async with running_broker(tmp_path) as broker:
            maintenance = broker.maintenance(tasks=PeriodicTasks(sleep))
            await maintenance.start()
            maintenance.add(*broker.passes(MaintenanceSettings()))
            await asyncio.sleep(0)
            assert sorted(asked) == [
                1.0,
                1.0,
                1.0,
                1.0,
                5.0,
                5.0,
                10.0,
                15.0,
                30.0,
                60.0,
                60.0,
                120.0,
            ]
            await maintenance.stop()

    asyncio.run(scenario())


class SlowDisk(SystemDisk):
    """Holds up whoever begins a cleaned copy, until the test lets go."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.may_go_on = threading.Event()

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> SystemFile:
        if create and ".cleaned" in path.name:
            self.reached.set()
            self.may_go_on.wait(60)
        return super().open(path, create=create, write=write)


def test_stopping_calls_off_a_compaction_and_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = SlowDisk()
        async with running_broker(tmp_path, disk=disk) as broker:
            await broker.create_topic("t", 1, {**SMALL_SEGMENTS, "cleanup.policy": "compact"})
            for _ in range(30):
                publish(broker, "t", VALUE, key=b"k")
            compacting = asyncio.create_task(broker.maintenance().compact_due())
            await asyncio.to_thread(disk.reached.wait)
            compacting.cancel()
            await asyncio.sleep(0)
            assert disk_log(partition_of(broker, "t"))._upkeep.locked()
            disk.may_go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await compacting
            assert len(await read_all(broker, "t")) == 30
            folder = partition_of(broker, "t").folder
            assert not list(folder.glob("*.cleaned"))

    asyncio.run(scenario())
