"""What a partition needs of a log, wherever its batches are kept.

`goqueue.storage.disk_log.DiskLog` keeps them on the disk. Everything that changes a log happens on
the event loop; whatever says so may run in any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from pathlib import Path

    from goqueue.model.errors import DamagedRangeError, DiskError
    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.disk import Bytes
    from goqueue.storage.append_log import Appended
    from goqueue.storage.compaction.cleanable import Cleanable, CompactionLimits, CompactionStats
    from goqueue.storage.config import LogConfig
    from goqueue.storage.epochs import LeaderEpochs
    from goqueue.storage.lookup import TimestampHit
    from goqueue.storage.recovery import RecoveryReport
    from goqueue.storage.region import Chunk, Region
    from goqueue.storage.snapshot import Entry, Snapshot
    from goqueue.storage.stats import LogFacts

_T = TypeVar("_T")


class PartitionLog(Protocol):
    """Batches under offsets that only grow: `start_offset <= flushed_offset <= end_offset`."""

    config: LogConfig
    on_failure: Callable[[], None]
    """Called when a write or a sync fails, and the log refuses appends from then on."""
    on_flushed: Callable[[], None]
    """Called after each flush."""
    on_start_moved: Callable[[], None]
    """Called when the log starts later than before."""

    # --- What there is ---------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """Where whoever keeps state beside the log puts it."""

    @property
    def start_offset(self) -> int:
        """The first readable record."""

    @property
    def gaps_below(self) -> int:
        """Compaction may have removed batches that end below."""

    @property
    def flushed_offset(self) -> int:
        """Everything below survives a power cut."""

    @property
    def end_offset(self) -> int:
        """The next offset to be given."""

    @property
    def size_bytes(self) -> int:
        """All readable bytes."""

    @property
    def failure(self) -> DiskError | None:
        """Why the log refuses appends, if it does."""

    @property
    def recovery(self) -> RecoveryReport:
        """What the last recovery found and did; another object after each."""

    @property
    def epochs(self) -> LeaderEpochs:
        """Which leader wrote which offsets."""

    def facts(self) -> LogFacts:
        """What people and monitoring systems are told of the log."""

    def take_lookup_times(self) -> list[float]:
        """How long searches by time took since this was last asked, in seconds."""

    def configure(self, config: LogConfig) -> None:
        """Follow other settings from now on."""

    def check_invariants(self) -> None:
        """Raise `InvariantError` when the log contradicts itself."""

    # --- Appending -------------------------------------------------------------------------------

    def append(self, batches: Bytes, leader_epoch: int = 0, *, checked: bool = False) -> Appended:
        """Give whole batches their offsets and store them, all or none. See `AppendLog.append`."""

    def append_batch(self, batch: Bytes, info: BatchInfo, leader_epoch: int) -> int:
        """Store one intact batch; returns the offset that it was given. See `AppendLog`."""

    def flush_soon(self) -> None:
        """Arrange, without waiting, for what was just appended to be flushed in time."""

    def promises_sync(self, end_offset: int) -> bool:
        """Whether an append that ended there is acknowledged only once it is flushed."""

    def durable(self, end_offset: int) -> Awaitable[None]:
        """Return when an append that ended there is as durable as the settings promise.

        Raises:
            LogFailedError: it cannot be.
        """

    def flush_to(self, end_offset: int) -> Awaitable[None]:
        """Return when everything below an offset is flushed. Raises like `durable`."""

    # --- Reading: any thread ---------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, until: int | None = None) -> Region | None:
        """The batches from the one that holds `offset` on. See `AppendLog.read`."""

    def chunks(
        self,
        start: int,
        on_damage: Callable[[DamagedRangeError], None] | None = None,
        max_bytes: int = ...,
    ) -> Iterator[Chunk]:
        """Everything from `start` to the end as it is now; damage is told and left out."""

    def offset_before(self, end: int, size_bytes: int) -> int:
        """An offset from which on there are about so many bytes up to `end`."""

    def find_time(self, timestamp_ms: int) -> TimestampHit | None:
        """The first record at or after a moment."""

    def find_latest_time(self) -> TimestampHit | None:
        """The first of the records with the highest timestamp."""

    # --- What the partition knows of its batches -------------------------------------------------

    def kept(self) -> Snapshot | None:
        """What was given to `save` last and fits the log; in any thread, while nothing changes."""

    @property
    def damaged_snapshots(self) -> Sequence[str]:
        """The files that `kept` had to pass over."""

    @property
    def snapshot_bytes(self) -> int:
        """The size of what was kept last."""

    async def save(self, dump: Callable[[], tuple[Entry, ...]]) -> None:
        """Make everything durable, with what the partition knows of it. Raises `StorageError`."""

    @property
    def is_save_due(self) -> bool:
        """Whether something was appended that the next start would have to read."""

    # --- Removing --------------------------------------------------------------------------------

    async def move_start(self, offset: int) -> int:
        """Let the log start at `offset`, or at its end; returns where. Raises `StorageError`."""

    async def expire(
        self, *, retention_ms: int | None, retention_bytes: int | None, until: int | None = None
    ) -> int:
        """Drop what has outlived the limits and lies before `until`; returns how many segments."""

    def has_segments_before(self, offset: int) -> bool:
        """Whether `move_start` would give back room, and not only hide records."""

    def next_expiry_ms(self, now_ms: int, retention_ms: int | None) -> int | None:
        """When time alone gives `expire` something to do; None when it never does."""

    def cleanable(self, limits: CompactionLimits, now_ms: int) -> Cleanable:
        """What compaction would do now."""

    def seal_if_due(self, limits: CompactionLimits) -> None:
        """Let compaction reach what was appended last, if that is much. Raises `DiskError`."""

    async def compact(
        self, now_ms: int, *, until: int, tombstone_ms: int, aborted: Callable[[BatchInfo], bool]
    ) -> CompactionStats | None:
        """Compact what lies before `until`; None when the log was closed meanwhile."""

    # --- Failing and ending ----------------------------------------------------------------------

    async def restore(self, rebuild: Callable[[], _T]) -> _T | None:
        """Bring a failed log back, and call `rebuild`, in any thread, before it takes appends.

        None when there is nothing to bring back. Raises `DiskError` if that is not possible yet.
        """

    async def shut(self, dump: Callable[[], tuple[Entry, ...]]) -> None:
        """Flush, keep what the next start needs, and let go. Raises `StorageError`."""

    async def remove(self) -> None:
        """Remove the log and everything that was stored of it."""
