"""What maintenance decides: plain values and classes, without a clock, a disk or a loop."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partition import Partition


class MaintenanceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How often each pass runs, and where its limits are."""

    retention_s: float = 60.0
    """Between looks at logs that were appended to, or of which a segment has reached its limit."""
    compaction_s: float = 15.0
    """Between looks at the compacted logs that were appended to, or whose time has come."""
    checkpoint_s: float = 60.0
    """Between checkpoints: what a killed broker's next start has to scan at most."""
    disk_s: float = 30.0
    """Between looks at the disk."""
    disk_limit_percent: float = 90.0
    """At this use of the disk publishing is refused, and taken up again below it."""
    disk_warning_points: float = 5.0
    """So close to the limit a warning is logged."""
    recovery_s: float = 1.0
    """Between looks for failed logs, and before the first attempt again after one that failed."""
    recovery_max_s: float = 60.0
    """Attempts are twice as far apart each time, up to this."""
    clock_s: float = 1.0
    """Between looks whether the wall clock was set."""
    backlogs_s: float = 5.0
    """Between looks at how old what groups have left is, and how fast it becomes less."""
    producer_idle_ms: int = 7 * 24 * 3600 * 1000
    """A producer of which nothing was heard for so long has its sequences forgotten."""


class DiskState(Enum):
    """How full the disk is, as far as it matters."""

    ROOMY = "roomy"
    TIGHT = "tight"
    FULL = "full"


def disk_state(used_percent: float, limit_percent: float, warning_points: float) -> DiskState:
    """What a use of the disk means."""
    if used_percent >= limit_percent:
        return DiskState.FULL
    if used_percent >= limit_percent - warning_points:
        return DiskState.TIGHT
    return DiskState.ROOMY


class _Attempt(msgspec.Struct):
    next_s: float
    delay_s: float


class RetrySchedule:
    """When to try again what has failed: soon at first, then less and less often.

    Holds an entry for each partition that is failing now, so never more than there are partitions.
    """

    def __init__(self, first_s: float, max_s: float) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._attempts: dict[TopicPartition, _Attempt] = {}

    def due(self, failing: Iterable[Partition], now_s: float) -> list[Partition]:
        """Those to try now; what is no longer failing is forgotten."""
        partitions = {partition.id: partition for partition in failing}
        self._attempts = {key: kept for key, kept in self._attempts.items() if key in partitions}
        return [
            partition
            for key, partition in partitions.items()
            if key not in self._attempts or self._attempts[key].next_s <= now_s
        ]

    def forget(self) -> None:
        """Let everything be tried now, as though it had not been."""
        self._attempts.clear()

    def failed(self, partition: TopicPartition, now_s: float) -> float:
        """Note a failed attempt; returns how long the next one waits."""
        last = self._attempts.get(partition)
        delay_s = self._first_s if last is None else min(last.delay_s * 2, self._max_s)
        self._attempts[partition] = _Attempt(now_s + delay_s, delay_s)
        return delay_s
