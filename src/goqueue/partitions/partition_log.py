"""The log of a partition with what follows from it, opened in whichever thread has time."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from goqueue.model.errors import DiskError
from goqueue.partitions.log_state import LogState
from goqueue.storage.config import Fsync
from goqueue.storage.log import Log
from goqueue.storage.snapshot import Snapshot, SnapshotFolder
from goqueue.storage.snapshot_kinds import SnapshotKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goqueue.model.errors import DamagedRangeError
    from goqueue.runtime.clock import Clock
    from goqueue.storage.checkpoints.summary import LogSummary
    from goqueue.storage.config import LogConfig
    from goqueue.storage.shared_files import SharedFiles


class PartitionLog(NamedTuple):
    """What a partition is made of."""

    log: Log
    state: LogState
    snapshots: SnapshotFolder


def open_partition_log(
    folder: Path,
    config: LogConfig,
    *,
    shared: SharedFiles,
    clock: Clock,
    summary: LogSummary | None = None,
    on_damage: Callable[[DamagedRangeError], None] | None = None,
) -> PartitionLog:
    """Open the log in `folder`; nobody else may use it yet.

    After a crash, what recovery found is synced before anybody sees it where readers wait for the
    disk: they may have seen it before, and will ask for it. A disk that refuses leaves a failed
    log, which maintenance recovers like any other.
    """
    log = Log(folder, config, clock=clock, shared=shared, summary=summary)
    if config.fsync is Fsync.ALWAYS and log.flushed_offset < log.end_offset:
        with suppress(DiskError):
            log.flush()
    snapshots = SnapshotFolder(shared.disk, folder, SnapshotKind.PRODUCERS)
    return PartitionLog(log, rebuilt_state(log, snapshots, clock, on_damage), snapshots)


def rebuilt_state(
    log: Log,
    snapshots: SnapshotFolder,
    clock: Clock,
    on_damage: Callable[[DamagedRangeError], None] | None = None,
) -> LogState:
    """What follows from a log: as it was last kept, and the batches behind that."""
    snapshot = None if log.opened_from is None else Snapshot.decode(log.opened_from.state)
    if snapshot is None and log.recovery.has_snapshots:
        snapshot = snapshots.load(log.end_offset)
    return LogState.rebuilt(log, snapshot, clock.now_ms(), on_damage)
