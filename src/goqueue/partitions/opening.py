"""A partition's log with what follows from it, opened in whichever thread has time."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from goqueue.model.tuples import NamedTuple
from goqueue.partitions.log_state import LogState
from goqueue.storage.disk_log import DiskLog, LogHost

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goqueue.model.errors import DamagedRangeError
    from goqueue.partitions.partition_log import PartitionLog
    from goqueue.runtime.clock import Clock
    from goqueue.storage.checkpoints.checkpoint import LogSummary
    from goqueue.storage.config import LogConfig
    from goqueue.storage.open_files import SharedFiles


class OpenedLog(NamedTuple):
    """What a partition is made of."""

    log: PartitionLog
    rebuild: Callable[[], LogState]
    """Builds what follows from the log as it is now; reads the disk, in any thread."""
    state: LogState


def opened(
    log: PartitionLog,
    clock: Clock,
    on_damage: Callable[[DamagedRangeError], None] | None = None,
) -> OpenedLog:
    """A log that is open, with what follows from it: as it was last kept, and the rest."""
    rebuild = partial(_rebuilt, log, clock, on_damage)
    return OpenedLog(log, rebuild, rebuild())


def _rebuilt(
    log: PartitionLog, clock: Clock, on_damage: Callable[[DamagedRangeError], None] | None
) -> LogState:
    return LogState.rebuilt(log, log.kept(), clock.now_ms(), on_damage)


def open_on_disk(
    folder: Path,
    config: LogConfig,
    host: LogHost,
    *,
    shared: SharedFiles,
    clock: Clock,
    summary: LogSummary | None = None,
    on_damage: Callable[[DamagedRangeError], None] | None = None,
    is_replica: bool = False,
) -> OpenedLog:
    """Open the log in `folder`; nobody else may use it yet.

    With `is_replica` other nodes hold the same log, and what is damaged here is cut off.
    """
    kind: type[DiskLog] = DiskLog
    if is_replica:
        from goqueue.storage.disk_replica import DiskReplica  # noqa: PLC0415 - only in a cluster

        kind = DiskReplica
    log = kind(folder, config, host, shared=shared, clock=clock, summary=summary)
    return opened(log, clock, on_damage)
