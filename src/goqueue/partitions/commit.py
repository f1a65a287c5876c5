"""What "committed" means: below the high watermark nothing that was acknowledged is ever lost.

A partition asks its policy and nobody else. With one replica the disk decides, as the settings of
the topic promise; with several, the in-sync replicas do
(`goqueue.partitions.replication.replicated_commit`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from goqueue.storage.config import Fsync

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from goqueue.partitions.partition_log import PartitionLog


class CommitPolicy(Protocol):
    """Says how far a partition is committed."""

    def high_watermark(self) -> int:
        """Where all readers stop; it never moves back."""

    def is_committed(self, end_offset: int) -> bool:
        """Whether an append that ended there may be acknowledged."""

    def committed(self, end_offset: int) -> Awaitable[None]:
        """Return when it may be, to one of the broker's own writers.

        Raises `StorageError` when it cannot be.
        """

    def acknowledged(self, end_offset: int) -> Awaitable[None]:
        """The same for a publisher, who is also told when that may take long.

        Raises like `committed`, and `NotEnoughReplicasAfterAppendError`.
        """

    def is_persisted(self, end_offset: int) -> bool:
        """Whether this replica alone has it as durably as the topic promises."""

    def persisted(self, end_offset: int) -> Awaitable[None]:
        """Return when it has. Raises `StorageError` when it cannot."""


class LocalCommit:
    """Of the only replica: committed is what is as durable as the topic promises."""

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self.committed = self.acknowledged = self.persisted = log.durable
        self.is_persisted = self.is_committed

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
