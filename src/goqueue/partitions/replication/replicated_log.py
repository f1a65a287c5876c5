"""What a partition needs of a log that other nodes hold too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from goqueue.partitions.partition_log import PartitionLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.runtime.disk import Bytes
    from goqueue.storage.append_log import Appended
    from goqueue.storage.patching import DamagedStretch

_T = TypeVar("_T")


class ReplicatedLog(PartitionLog, Protocol):
    """A log that is copied from a leader, cut and started anew.

    At one time, one thing is appended, noted or cut: whoever follows a leader waits for each.
    """

    damaged: Sequence[int]
    """Where a start has found batches damaged that others may have, the first first."""

    def append_replica(self, batches: Bytes, *, gaps: bool = False) -> Appended:
        """Store batches of a leader exactly as they are. See `ReplicaLog`."""

    async def copy(self, batches: Bytes, *, gaps: bool = False) -> Appended:
        """The same; what must be durable before them waits for the disk in a thread."""

    async def begin_epoch(self, epoch: int) -> None:
        """Note durably that a leader writes from the end on. Raises `StorageError`."""

    async def end_epochs(self) -> None:
        """Forget durably the epochs of leaders that wrote nothing. Raises `StorageError`."""

    def damaged_stretch(self, offset: int) -> DamagedStretch | None:
        """The damage that covers an offset, if intact batches follow it; in any thread."""

    def patch(self, stretch: DamagedStretch, batches: Bytes) -> None:
        """Put another replica's batches where this one's are damaged; in any thread.

        Raises `BatchError` when they are not those that were there, `DiskError`.
        """

    async def settle_patched(self, rebuild: Callable[[], _T]) -> _T | None:
        """Note what is still `damaged` after patches, and call `rebuild`; otherwise `truncate`."""

    async def forgive(self) -> None:
        """Let what is `damaged` be, as the only copy of a log does. Raises `DiskError`."""

    async def truncate(self, end_offset: int, rebuild: Callable[[], _T]) -> _T | None:
        """Cut the log, with every snapshot of what goes, and call `rebuild` in any thread.

        None when there is nothing to cut, or the log is closed. Raises `StorageError`.
        """

    async def restart(self, offset: int, rebuild: Callable[[], _T]) -> _T | None:
        """Let go everything and go on empty at an offset; otherwise as `truncate`."""

    async def restore_whole(self, rebuild: Callable[[], _T]) -> _T | None:
        """`restore` of a log of which nothing is lost. Raises `DiskError` when something is."""

    async def discard_unsynced(self, rebuild: Callable[[], _T]) -> _T | None:
        """Cut a failed log to what is on the disk, for appends to be taken again.

        None when it has not failed. Raises `DiskError` if that is not possible yet.
        """
