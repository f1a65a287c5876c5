"""What a broker does by itself, now and then: retention, compaction, checkpoints, the disk, repair.

Each pass can be called on its own; `start` runs them all at their intervals. What is long happens
in a thread, what changes a log happens here on the loop, and other work has its turn in between.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from goqueue.broker.history import STEP_S
from goqueue.broker.upkeep import (
    DiskState,
    MaintenanceSettings,
    RetrySchedule,
    checkpoint_due,
    compaction_due,
    disk_state,
)
from goqueue.metrics import names
from goqueue.model.errors import GoQueueError, LogFailedError
from goqueue.runtime.tasks import PeriodicTasks, in_thread
from goqueue.storage.compaction import Compaction

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.broker.broker import Broker
    from goqueue.broker.partition import Partition, PartitionId
    from goqueue.broker.settings import TopicSettings
    from goqueue.storage.compaction import CompactionStats

logger = logging.getLogger(__name__)


class Maintenance:
    """Looks after the partitions of one broker."""

    def __init__(
        self,
        broker: Broker,
        settings: MaintenanceSettings | None = None,
        tasks: PeriodicTasks | None = None,
    ) -> None:
        self._broker = broker
        self._settings = settings or MaintenanceSettings()
        self._tasks = tasks or PeriodicTasks()
        self._retries = RetrySchedule(self._settings.recovery_s, self._settings.recovery_max_s)
        self._disk = DiskState.ROOMY

    async def start(self) -> None:
        """Look at the disk once, then run every pass at its interval."""
        await self.check_disk()
        settings = self._settings
        self._tasks.start("retention", settings.retention_s, self.expire)
        self._tasks.start("compaction", settings.compaction_s, self.compact_due)
        self._tasks.start("checkpoints", settings.checkpoint_s, self.checkpoint)
        self._tasks.start("disk monitor", settings.disk_s, self.check_disk)
        self._tasks.start("recovery", settings.recovery_s, self.recover)
        self._tasks.start("backlogs", settings.backlogs_s, self._broker.backlogs.look)
        self._tasks.start("history", STEP_S, self._broker.history.sample)

    async def stop(self) -> None:
        """End every pass; one that works in a thread is waited for."""
        await self._tasks.stop()

    def _partitions(self) -> Iterator[tuple[Partition, TopicSettings]]:
        """Every partition that is still there when its turn comes."""
        for partition in self._broker.partitions:
            topic = self._broker.topics.catalogue.by_name.get(partition.id.topic)
            if topic is not None and not partition.is_closed:
                yield partition, topic.settings

    # --- Retention -------------------------------------------------------------------------------

    async def expire(self) -> int:
        """Drop what has outlived its limits, roll old segments; returns how many segments went.

        Producers of which nothing was heard for long are forgotten too.
        """
        dropped = 0
        idle_before_ms = self._broker.clock.now_ms() - self._settings.producer_idle_ms
        for partition, settings in self._partitions():
            partition.state.forget_idle(idle_before_ms)
            try:
                dropped += partition.expire(
                    retention_ms=settings.retention_ms if settings.deletes else None,
                    retention_bytes=settings.retention_bytes if settings.deletes else None,
                )
            except GoQueueError as error:
                logger.warning("%s: retention failed: %s", partition.id, error)
            await asyncio.sleep(0)
        if dropped:
            logger.info("retention removed %d segments", dropped)
        return dropped

    # --- Compaction ------------------------------------------------------------------------------

    async def compact_due(self) -> int:
        """Compact every log that is dirty enough, one after the other; returns how many."""
        count = 0
        for partition, settings in self._partitions():
            if compaction_due(partition.log, settings):
                try:
                    await self.compact(partition.id)
                    count += 1
                except GoQueueError as error:
                    logger.warning("%s: compaction failed: %s", partition.id, error)
        return count

    async def compact(self, partition_id: PartitionId) -> CompactionStats | None:
        """Compact one log now, however dirty it is; None when it was deleted meanwhile.

        Raises:
            TopicError: there is no such partition.
            DiskError, LogFailedError: the disk refused.
        """
        topic, partition = self._broker.partitions.resolve(partition_id)
        async with partition.upkeep:
            if partition.is_closed:
                return None
            compaction = Compaction(
                partition.log,
                self._broker.clock.now_ms(),
                until=partition.last_stable,
                tombstone_ms=topic.settings.number("delete.retention.ms"),
                aborted=partition.transactions.frozen(),
            )
            await in_thread(self._broker.executor, compaction.build, compaction.cancel)
            with suppress(LogFailedError):  # the first step speaks of it
                await partition.flusher.checkpoint()  # or that step would, and stop everyone
            await partition.flusher.settle()
            with closing(compaction.steps()) as steps:
                for _ in steps:
                    await asyncio.sleep(0)
                    await partition.flusher.settle()
        self._report_compaction(partition_id, compaction.stats)
        return compaction.stats

    def _report_compaction(self, partition_id: PartitionId, stats: CompactionStats) -> None:
        metrics = self._broker.metrics
        reclaimed = max(stats.bytes_before - stats.bytes_after, 0)
        metrics.counter(names.COMPACTION_RUNS, partition_id.topic).add()
        metrics.counter(names.COMPACTION_BYTES_RECLAIMED, partition_id.topic).add(reclaimed)
        metrics.histogram(names.COMPACTION_LATENCY).observe(stats.duration_s)
        logger.info(
            "%s: compacted %d records to %d, %d bytes to %d, in %.1f s",
            partition_id,
            stats.records_before,
            stats.records_after,
            stats.bytes_before,
            stats.bytes_after,
            stats.duration_s,
        )

    # --- Checkpoints -----------------------------------------------------------------------------

    async def checkpoint(self) -> int:
        """Checkpoint every log that was appended to since its last one; returns how many."""
        count = 0
        for partition, _ in self._partitions():
            if checkpoint_due(partition.log):
                try:
                    await partition.checkpoint()
                    count += 1
                except GoQueueError as error:
                    logger.warning("%s: no checkpoint: %s", partition.id, error)
        return count

    # --- The disk --------------------------------------------------------------------------------

    async def check_disk(self) -> DiskState:
        """Refuse publishing while the disk is too full; say so when that changes."""
        settings = self._settings
        folder = self._broker.settings.data_dir
        usage = self._broker.disk.usage(folder)
        used = 100 * (1 - usage.free_bytes / usage.total_bytes) if usage.total_bytes else 0.0
        state = disk_state(used, settings.disk_limit_percent, settings.disk_warning_points)
        said = (
            f"the disk of {folder} is {used:.1f} % full, and publishing is refused from "
            f"{settings.disk_limit_percent:g} % on"
        )
        full = state is DiskState.FULL
        self._broker.publisher.disk_full = (
            f"{said}: free some space or lower the retention" if full else None
        )
        if state is not self._disk:
            level = logging.INFO if state is DiskState.ROOMY else logging.WARNING
            logger.log(logging.ERROR if full else level, said)
        self._disk = state
        return state

    # --- Repair ----------------------------------------------------------------------------------

    async def recover(self) -> int:
        """Try to bring failed logs back; returns how many accept appends again."""
        failing = [p for p, _ in self._partitions() if p.log.failure is not None]
        count = 0
        now_s = self._broker.clock.monotonic_s()
        for partition in self._retries.due(failing, now_s):
            try:
                await partition.recover()
                count += 1
                logger.warning("%s: recovered, appends are taken again", partition.id)
            except GoQueueError as error:
                delay_s = self._retries.failed(partition.id, now_s)
                logger.warning("%s: still failed, again in %g s: %s", partition.id, delay_s, error)
        return count
