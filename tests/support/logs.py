"""The log under a partition, for tests that let it fail or look at its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.storage.disk_log import DiskLog

if TYPE_CHECKING:
    from goqueue.partitions.partition import Partition
    from goqueue.storage.log import Log


def disk_log(partition: Partition) -> DiskLog:
    """The log of a partition whose batches are on the disk."""
    log = partition._log
    assert isinstance(log, DiskLog)
    return log


def expire(log: Log, *, retention_ms: int | None = None, retention_bytes: int | None = None) -> int:
    """Drop the segments that have outlived the limits, here and now; returns how many."""
    before = log.stats.segments_deleted
    log.delete_before(
        log.expired_before(retention_ms=retention_ms, retention_bytes=retention_bytes)
    )
    return log.stats.segments_deleted - before
