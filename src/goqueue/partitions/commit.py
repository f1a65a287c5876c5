"""What "committed" means: below the high watermark nothing that was acknowledged is ever lost.

A partition asks its policy and nobody else. With one replica the disk decides, as the settings of
the topic promise; with several, the in-sync replicas would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from goqueue.storage.config import Fsync

if TYPE_CHECKING:
    from goqueue.partitions.partition_log import PartitionLog


class CommitPolicy(Protocol):
    """Says how far a partition is committed."""

    def high_watermark(self) -> int:
        """Where all readers stop; it never moves back."""

    def is_committed(self, end_offset: int) -> bool:
        """Whether an append that ended there may be acknowledged."""

    async def committed(self, end_offset: int) -> None:
        """Return when it may be. Raises `StorageError` when it cannot be."""


class LocalCommit:
    """Of the only replica: committed is what is as durable as the topic promises."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self.committed = log.durable

    def high_watermark(self) -> int:
        """The log end, or what is on the disk where a topic asks for `fsync=always`."""
        log = self._log
        if log.config.fsync is Fsync.ALWAYS:
            return max(log.flushed_offset, log.start_offset)
        return log.end_offset

    def is_committed(self, end_offset: int) -> bool:
        """Whether it is on the disk, or need not be."""
        log = self._log
        return not log.promises_sync(end_offset) or log.flushed_offset >= end_offset
