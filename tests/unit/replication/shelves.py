"""Where the tests of replicated partitions open them: on the disk, and in memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TYPE_CHECKING, Any

from goqueue.model.errors import DiskError
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.opening import open_on_disk, opened
from goqueue.partitions.replica import Following
from goqueue.partitions.replication.replicated_partition import ReplicatedPartition
from goqueue.records import Record, encode, peek
from goqueue.storage.config import Fsync, LogConfig
from goqueue.storage.disk_log import DiskLog, LogHost
from goqueue.storage.open_files import SharedFiles
from support.clocks import ManualClock
from support.disks import HastyDisk
from support.memory_replica import MemoryReplica

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.partitions.opening import OpenedLog
    from goqueue.partitions.partition import Placed

_folders = count()
PLACE = TopicPartition("t", 0)


class Shelf:
    """Opens one replica on the disk, and opens it again."""

    def __init__(
        self, folder: Path, fsync: Fsync = Fsync.NEVER, *, pool: ThreadPoolExecutor | None = None
    ) -> None:
        self.folder = folder / str(next(_folders))
        self.config = LogConfig(fsync=fsync, segment_bytes=600)
        self.clock, self.disk = ManualClock(), HastyDisk()
        self.pool = pool or ThreadPoolExecutor(1)

    def opened(self) -> OpenedLog:
        shared, host = SharedFiles(self.disk), LogHost(self.pool)
        return open_on_disk(
            self.folder, self.config, host, shared=shared, clock=self.clock, is_replica=True
        )

    def open(self, epoch: int = 0, high_watermark: int = 0) -> ReplicatedPartition:
        return ReplicatedPartition(
            PLACE,
            self.opened(),
            clock=self.clock,
            role=Following(None, epoch),
            high_watermark=high_watermark,
        )

    async def leave(self, partition: ReplicatedPartition) -> None:
        """As a killed process leaves it."""
        log = partition._log
        assert isinstance(log, DiskLog)
        await log.flusher.stop()

    def fail(self, partition: ReplicatedPartition) -> None:
        log = partition._log
        assert isinstance(log, DiskLog)
        log.flush_failed(DiskError("the disk refuses"))


class MemoryShelf(Shelf):
    """The same in memory."""

    log: MemoryReplica | None = None

    def opened(self) -> OpenedLog:
        self.log = MemoryReplica(self.config) if self.log is None else self.log.reopened()
        return opened(self.log, self.clock)

    async def leave(self, partition: ReplicatedPartition) -> None:
        del partition

    def fail(self, partition: ReplicatedPartition) -> None:
        del partition
        assert self.log is not None
        self.log.fail(DiskError("it refuses"))


def append(partition: ReplicatedPartition, *values: bytes, **fields: Any) -> Placed:
    """Store a batch as a client would."""
    records = [Record(at, 1000 + at, b"k", value) for at, value in enumerate(values)]
    batch = encode(records, **fields)
    return partition.append(batch, peek(batch))


def stored(partition: ReplicatedPartition) -> bytes:
    """Every byte of the log."""
    return b"".join(bytes(each.data) for each in partition.chunks(partition.log_start))
