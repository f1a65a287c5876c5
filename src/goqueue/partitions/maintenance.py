"""What a broker does by itself, now and then: retention, compaction, checkpoints, the disk, repair.

Each pass can be called on its own; `start` runs them all at their intervals. A pass looks only at
partitions that are marked (`goqueue.partitions.due_marks`), so idle ones cost nothing. What is long
happens in a thread, what changes a log happens here on the loop, and other work has its turn in
between.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from goqueue.metrics import names
from goqueue.model.errors import DiskFullError, GoQueueError
from goqueue.model.internal_topics import is_internal_topic
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.upkeep import (
    DiskState,
    MaintenanceSettings,
    RetrySchedule,
    disk_state,
)
from goqueue.runtime.free_memory import LOOK_S, FreeMemory
from goqueue.runtime.tasks import PeriodicTasks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from concurrent.futures import Executor
    from pathlib import Path

    from goqueue.metrics.registry import Metrics
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.clock_guard import ClockGuard
    from goqueue.partitions.due_marks import DueMarks, MaintenanceMarks
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk
    from goqueue.storage.compaction.cleanable import CompactionLimits, CompactionStats
    from goqueue.topics.catalogue import Topics
    from goqueue.topics.settings import TopicSettings

logger = logging.getLogger(__name__)

_NEW_ROOM_BYTES: Final = 64 * 1024
"""So much more room on a disk that was full is worth another attempt at once."""
_COMPACT_AGAIN_MS: Final = 60_000
"""Before another attempt at a log whose compaction failed."""

_MAX_DIRTY_STATE_RECORDS: Final = 100_000
"""Of the state of a coordinator in a cluster. Each replica is compacted at about so many that are
not yet, however little that is of the whole."""


class Pass(NamedTuple):
    """Work of others that is done at an interval, too."""

    name: str
    interval_s: float
    run: Callable[[], Awaitable[object]]


class MaintainedNode(NamedTuple):
    """What maintenance is told of the node, and tells it."""

    data_dir: Path
    disk: Disk
    clock: Clock
    executor: Executor
    metrics: Metrics
    refuse_publishing: Callable[[str | None], None]
    """Told why the disk is too full for anything to be published, or None when it is not."""
    producer_idle_ms: Callable[[], int | None]
    """After so long without a word a producer is forgotten; None is what the settings say."""
    compaction_ms: Callable[[], int | None]
    """The interval of compaction; None is what the settings say."""


class Maintenance:
    """Retention, compaction, checkpoints and recovery of the partitions of one broker."""

    def __init__(
        self,
        partitions: Partitions,
        topics: Topics,
        marks: MaintenanceMarks,
        clock_guard: ClockGuard,
        *,
        node: MaintainedNode,
        settings: MaintenanceSettings | None = None,
        tasks: PeriodicTasks | None = None,
    ) -> None:
        self._partitions = partitions
        self._topics = topics
        self._marks = marks
        self._clock_guard = clock_guard
        self._node = node
        self._settings = settings or MaintenanceSettings()
        self._tasks = tasks or PeriodicTasks()
        self._retries = RetrySchedule(self._settings.recovery_s, self._settings.recovery_max_s)
        self._disk = DiskState.ROOMY
        self.on_disk_use: Callable[[float, DiskState], None] | None = None
        """Told after each look at the disk how many per cent of it are used."""
        self._least_free_bytes = 0
        """The least room that was seen since logs were last tried because there was more."""

    async def start(self) -> None:
        """Look at the disk once, then run every pass at its interval."""
        await self.check_disk()
        settings = self._settings
        self._tasks.start("retention", settings.retention_s, self.expire)
        self._tasks.start("compaction", self._compaction_s, self.compact_due)
        self._tasks.start("checkpoints", settings.checkpoint_s, self.checkpoint)
        self._tasks.start("clock", settings.clock_s, self.watch_clock)
        self._tasks.start("disk monitor", settings.disk_s, self.check_disk)
        self._tasks.start("recovery", settings.recovery_s, self.recover)
        self._tasks.start("free memory", LOOK_S, FreeMemory().look)

    def add(self, *passes: Pass) -> None:
        """Run passes of others, too, until `stop`."""
        for each in passes:
            self._tasks.start(*each)

    async def stop(self) -> None:
        """End every pass; one that works in a thread is waited for."""
        await self._tasks.stop()

    def _marked(self, marks: DueMarks) -> Iterator[tuple[Partition, TopicSettings]]:
        """Every partition that a pass has to look at, if it is still there when its turn comes."""
        for partition_id in marks.take(self._clock_guard.steady_ms()):
            found = self._find(partition_id)
            if found is not None:
                found[0].unmark()
                yield found

    def _find(self, partition_id: TopicPartition) -> tuple[Partition, TopicSettings] | None:
        partition = self._partitions.find(partition_id)
        topic = self._topics.catalogue.by_name.get(partition_id.topic)
        if partition is None or partition.is_closed or topic is None:
            return None
        return partition, topic.settings

    # --- The clock -------------------------------------------------------------------------------

    async def watch_clock(self) -> None:
        """Notice a wall clock that was set."""
        self._clock_guard.look()

    # --- Retention -------------------------------------------------------------------------------

    async def expire(self) -> int:
        """Delete expired segments and roll old ones; returns how many were deleted.

        Producers of which nothing was heard for long are forgotten too. After a jump of the wall
        clock nothing of this happens: everything might seem old.
        """
        if self._clock_guard.jump() is not None:
            return 0
        dropped = 0
        for partition, settings in self._marked(self._marks.retention):
            if self._clock_guard.jump() is not None:
                self._marks.retention.touch(partition.id)
                break
            try:
                dropped += await self._expire(partition, settings)
            except GoQueueError as error:
                self._marks.retention.touch(partition.id)
                logger.warning("%s: retention failed: %s", partition.id, error)
            await asyncio.sleep(0)
        if dropped:
            logger.info("retention removed %d segments", dropped)
        return dropped

    async def _expire(self, partition: Partition, settings: TopicSettings) -> int:
        """Apply retention to one partition, and note when it needs the next look."""
        now_ms = self._node.clock.now_ms()
        changed_ms = self._node.producer_idle_ms()
        idle_ms = self._settings.producer_idle_ms if changed_ms is None else changed_ms
        partition.forget_idle(now_ms - idle_ms)
        retention_ms = settings.retention_ms if settings.deletes else None
        retention_bytes = settings.retention_bytes if settings.deletes else None
        segments_before = partition.facts().segments_created
        dropped = await partition.expire(retention_ms=retention_ms, retention_bytes=retention_bytes)
        if partition.is_closed:
            return dropped  # there is no next look
        if partition.facts().segments_created > segments_before:
            self._marks.compaction.touch(partition.id)  # what was sealed may be dirty
        next_ms = partition.next_expiry_ms(now_ms, retention_ms)
        heard_ms = partition.sequences.oldest_heard_ms
        if heard_ms is not None:
            forget_ms = heard_ms + idle_ms + 1
            next_ms = forget_ms if next_ms is None else min(next_ms, forget_ms)
        self._marks.retention.look_at(partition.id, next_ms)
        return dropped

    # --- Compaction ------------------------------------------------------------------------------

    def _compaction_s(self) -> float:
        changed_ms = self._node.compaction_ms()
        return self._settings.compaction_s if changed_ms is None else changed_ms / 1000

    async def compact_due(self) -> int:
        """Compact every marked log that is dirty enough, one after the other; returns how many."""
        count = 0
        marks = self._marks.compaction
        for partition, settings in self._marked(marks):
            if not settings.compacts or partition.failure is not None:
                continue
            now_ms = self._clock_guard.steady_ms()
            try:
                limits = self._compaction_limits(partition, settings)
                partition.seal_if_due(limits)
                found = partition.cleanable(limits, now_ms)
                marks.look_at(partition.id, found.next_ms)
                if found.is_due:
                    await self._compact(partition, settings, found.until)
                    marks.touch(partition.id)  # a pass may stop half-way, at its bound of keys
                    count += 1
            except GoQueueError as error:
                marks.look_at(partition.id, now_ms + _COMPACT_AGAIN_MS)
                logger.warning("%s: compaction failed: %s", partition.id, error)
            await asyncio.sleep(0)
        return count

    def _compaction_limits(self, partition: Partition, settings: TopicSettings) -> CompactionLimits:
        """What the topic says; whoever takes over the state of a coordinator shall read little."""
        limits = settings.compaction_limits
        if self._partitions.facts is None or not is_internal_topic(partition.id.topic):
            return limits
        return limits._replace(max_dirty_records=_MAX_DIRTY_STATE_RECORDS)

    async def compact(self, partition_id: TopicPartition) -> CompactionStats | None:
        """Compact one log now, however dirty it is; None when it was deleted meanwhile.

        Every node compacts its own replicas, whoever leads.

        Raises:
            TopicError: there is no such partition.
            NotLeaderError: this node has no replica of it.
            DiskError, LogFailedError: the disk refused.
        """
        partition = self._partitions.local(partition_id)
        topic = self._topics.catalogue.topic(partition_id.topic)
        return await self._compact(partition, topic.settings, partition.log_end)

    async def _compact(
        self, partition: Partition, settings: TopicSettings, until: int
    ) -> CompactionStats | None:
        stats = await partition.compact(
            self._clock_guard.steady_ms(),
            until=until,
            tombstone_ms=settings.number("delete.retention.ms"),
        )
        if stats is not None:
            self._report_compaction(partition.id, stats)
        return stats

    def _report_compaction(self, partition_id: TopicPartition, stats: CompactionStats) -> None:
        metrics = self._node.metrics
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
        marks = self._marks.checkpoints
        for partition, _ in self._marked(marks):
            if partition.is_checkpoint_due:
                try:
                    await partition.checkpoint()
                    count += 1
                except GoQueueError as error:
                    marks.touch(partition.id)
                    logger.warning("%s: no checkpoint: %s", partition.id, error)
        await self._partitions.save_book()
        return count

    # --- The disk --------------------------------------------------------------------------------

    async def check_disk(self) -> DiskState:
        """Refuse publishing while the disk is too full; say so when that changes.

        Raises:
            DiskError: the disk cannot be measured.
        """
        settings = self._settings
        folder = self._node.data_dir
        usage = self._node.disk.usage(folder)
        used = 100 * (1 - usage.free_bytes / usage.total_bytes) if usage.total_bytes else 0.0
        state = disk_state(used, settings.disk_limit_percent, settings.disk_warning_points)
        said = (
            f"the disk of {folder} is {used:.1f} % full, and publishing is refused from "
            f"{settings.disk_limit_percent:g} % on"
        )
        full = state is DiskState.FULL
        self._node.refuse_publishing(
            f"{said}: free some space or lower the retention" if full else None
        )
        if state is not self._disk:
            level = logging.INFO if state is DiskState.ROOMY else logging.WARNING
            logger.log(logging.ERROR if full else level, said)
        self._disk = state
        if self.on_disk_use is not None:
            self.on_disk_use(used, state)
        return state

    # --- Repair ----------------------------------------------------------------------------------

    async def recover(self) -> int:
        """Try to bring failed logs back; returns how many accept appends again.

        A disk that was too full is looked at here too: this pass comes more often.
        """
        if self._disk is DiskState.FULL:
            await self.check_disk()
        marked = self._marks.failing
        found = [self._find(each) for each in sorted(marked)]
        failing = [each[0] for each in found if each and each[0].failure is not None]
        marked.intersection_update(partition.id for partition in failing)
        count = 0
        now_s = self._node.clock.monotonic_s()
        if any(isinstance(partition.failure, DiskFullError) for partition in failing):
            self._notice_room()
        for partition in self._retries.due(failing, now_s):
            try:
                await partition.recover()
                count += 1
                logger.warning("%s: recovered, appends are accepted again", partition.id)
            except GoQueueError as error:
                delay_s = self._retries.failed(partition.id, now_s)
                logger.warning(
                    "%s: recovery failed, retrying in %g s: %s", partition.id, delay_s, error
                )
        return count

    def _notice_room(self) -> None:
        """Let logs that found the disk full be tried at once when there is more room than then."""
        free_bytes = self._node.disk.usage(self._node.data_dir).free_bytes
        if free_bytes >= self._least_free_bytes + _NEW_ROOM_BYTES:
            self._retries.forget()
            self._least_free_bytes = free_bytes
        self._least_free_bytes = min(self._least_free_bytes, free_bytes)
