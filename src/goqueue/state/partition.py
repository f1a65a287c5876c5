"""What the state of a coordinator needs of the partition that it is stored in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from goqueue.model.errors import DamagedRangeError, StorageError
    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.disk import Bytes
    from goqueue.storage.region import Chunk


class Appended(Protocol):
    """Where a batch is."""

    @property
    def end_offset(self) -> int:
        """The offset behind its last record."""


class StatePartition(Protocol):
    """A partition of an internal topic."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def folder(self) -> Path:
        """Where snapshots lie beside the log."""

    @property
    def leader_epoch(self) -> int:
        """In which epoch it is led here; -1 when it is not."""

    @property
    def log_start(self) -> int:
        """The first record that can be read."""

    @property
    def log_end(self) -> int:
        """The next offset to be given."""

    @property
    def high_watermark(self) -> int:
        """Below it everything is committed."""

    @property
    def size_bytes(self) -> int:
        """How large the log is."""

    @property
    def failure(self) -> StorageError | None:
        """Why the log refuses appends, until it has recovered."""

    @property
    def has_lost_tail(self) -> bool:
        """Whether recovery has cut off more than a torn batch."""

    def append(self, batch: Bytes, info: BatchInfo) -> Appended:
        """Store one batch, whole or not at all. Raises `StorageError`."""

    def is_committed(self, end_offset: int) -> bool:
        """Whether everything before an offset is as durable as the topic promises."""

    async def committed(self, end_offset: int) -> None:
        """Return when it is. Raises `StorageError` when it cannot be."""

    async def synced(self, end_offset: int) -> None:
        """Return when it is on the disk, whatever the topic promises. Raises `StorageError`."""

    def chunks(
        self, start: int, on_damage: Callable[[DamagedRangeError], None], max_bytes: int = 1 << 20
    ) -> Iterator[Chunk]:
        """The log from an offset on, so much at a time; damage is told and left out.

        May run in any thread.
        """

    async def trim(self, offset: int) -> bool:
        """Let go the segments that lie wholly before an offset; false when there are none.

        Raises:
            StorageError: the disk refused.
        """

    def report_damage(self, damage: DamagedRangeError) -> None:
        """Records are lost."""

    def report_damaged_snapshots(self, names: Sequence[str]) -> None:
        """Snapshots beside the log were passed over."""
