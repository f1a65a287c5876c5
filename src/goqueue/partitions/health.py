"""How the process itself is: its event loop, its collections of garbage, its files and memory."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from goqueue.metrics import names
from goqueue.runtime.disk import DiskUsage
from goqueue.runtime.pauses import GcWatch, LoopWatch
from goqueue.runtime.process import ProcessUse, count_threads, read_process

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.metrics.registry import Metrics, Samples
    from goqueue.partitions.partitions import Partitions
    from goqueue.runtime.disk import Disk


class NodeState(StrEnum):
    """What clients can expect of a node."""

    READY = "ready"
    DEGRADED = "degraded"
    """Some partitions take no messages: their logs have failed."""
    READ_ONLY = "read_only"
    """Nothing is taken: the disk is too full."""
    STOPPING = "stopping"
    """It starts or stops."""


def node_state(partitions: Partitions, disk_full: str | None, *, is_ready: bool) -> NodeState:
    """The state of this node; the worst of those that apply."""
    if not is_ready:
        return NodeState.STOPPING
    if disk_full is not None:
        return NodeState.READ_ONLY
    return NodeState.READY if failed_logs(partitions) is None else NodeState.DEGRADED


def failed_logs(partitions: Partitions) -> str | None:
    """Why messages cannot be stored in some partitions; None when they can.

    A write that fails shows here at once: its log refuses appends until it has recovered.
    """
    failed = [(partition.id, partition.failure) for partition in partitions.failed()]
    if not failed:
        return None
    place, failure = failed[0]
    rest = f", and {len(failed) - 1} partitions more" if len(failed) > 1 else ""
    return f"{place} refuses appends until it has recovered{rest}: {failure}"


class HealthReport(msgspec.Struct, frozen=True):
    """The process and its disk at one moment."""

    process: ProcessUse
    disk: DiskUsage
    loop_lag_s: float
    """How late the event loop was at its worst, in the last half minute or a little longer."""
    gc_collections: int
    gc_pause_s: float
    """All collections together, since the start."""


class Health:
    """Watches from `start` to `stop`; a report can be had at any time."""

    def __init__(self, metrics: Metrics, disk: Disk, data_dir: Path) -> None:
        self._disk = disk
        self._data_dir = data_dir
        self._loop = LoopWatch(metrics.histogram(names.LOOP_LAG).observe)
        self._pauses = [metrics.histogram(names.GC_PAUSE, str(number)) for number in range(3)]
        self._gc = GcWatch(lambda generation, took_s: self._pauses[generation].observe(took_s))

    def start(self) -> None:
        """Begin to watch; in the loop that is watched."""
        self._loop.start()

    def opened(self, partitions: int) -> None:
        """So many partitions more are there to stay."""
        self._gc.opened(partitions)

    def watch_collections(self) -> None:
        """Measure collections of garbage too, as whoever owns the interpreter may."""
        self._gc.start()

    def stop(self) -> None:
        """Leave the loop and the interpreter alone."""
        self._loop.stop()
        self._gc.stop()

    def put(self, samples: Samples) -> None:
        """What is read rather than counted; see `goqueue.metrics.registry.Source`."""
        samples.put(names.LOOP_LAG_WORST, self._loop.worst_s)
        samples.put(names.THREADS, count_threads())
        usage = self._disk.usage(self._data_dir)  # last, as it may fail
        samples.put(names.DISK_TOTAL, usage.total_bytes)
        samples.put(names.DISK_USED, usage.total_bytes - usage.free_bytes)
        samples.put(names.DISK_FREE, usage.free_bytes)

    def report(self) -> HealthReport:
        """Everything; takes a fraction of a millisecond.

        Raises:
            DiskError: the disk cannot be measured.
        """
        return HealthReport(
            process=read_process(),
            disk=self._disk.usage(self._data_dir),
            loop_lag_s=self._loop.worst_s,
            gc_collections=sum(sum(each.counts) for each in self._pauses),
            gc_pause_s=sum(each.total for each in self._pauses),
        )
