"""A `PartitionLog` without a disk: batches in one buffer, flushed when the loop turns."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from goqueue.model.errors import InvariantError, LogFailedError
from goqueue.records import decode_rows
from goqueue.records.batch import stamp, walk
from goqueue.storage.append_log import Appended
from goqueue.storage.compaction.cleanable import Cleanable, CompactionStats
from goqueue.storage.config import Fsync
from goqueue.storage.epochs import LeaderEpochs
from goqueue.storage.lookup import TimestampHit
from goqueue.storage.recovery import RecoveryReport
from goqueue.storage.region import Region
from goqueue.storage.scan import Context
from goqueue.storage.snapshot import Snapshot
from goqueue.storage.snapshot_kinds import SnapshotKind
from goqueue.storage.stats import LogFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from goqueue.model.errors import DamagedRangeError, DiskError
    from goqueue.records.batch import BatchInfo
    from goqueue.runtime.disk import Bytes
    from goqueue.storage.compaction.cleanable import CompactionLimits
    from goqueue.storage.config import LogConfig
    from goqueue.storage.region import Chunk
    from goqueue.storage.snapshot import Entry

_T = TypeVar("_T")


class _Buffer:
    """What a region reads; the parts of a `DiskFile` that write are never asked for."""

    path = Path("memory")

    def __init__(self) -> None:
        self.data = bytearray()

    def fileno(self) -> int:
        raise OSError("it has no descriptor")

    def size(self) -> int:
        return len(self.data)

    def read(self, position: int, length: int) -> bytes:
        return bytes(self.data[position : position + length])

    def read_cached(self, position: int, length: int) -> bytes:
        return self.read(position, length)

    def write(self, position: int, data: Bytes) -> None:
        self.data[position : position + len(data)] = data

    def sync(self) -> None:
        pass

    def truncate(self, size: int) -> None:
        del self.data[size:]

    def close(self) -> None:
        pass


class MemoryLog:
    """One segment that is never given back. `reopened` is what the next process would find."""

    def __init__(self, config: LogConfig) -> None:
        self.config = config
        self.folder = Path("memory")
        self.start_offset = self.flushed_offset = self.end_offset = 0
        self.gaps_below = 0
        self.failure: DiskError | None = None
        self.recovery = RecoveryReport()
        self.epochs = LeaderEpochs()
        self.snapshot_bytes = 0
        self.damaged_snapshots: Sequence[str] = ()
        self.on_failure: Callable[[], None] = lambda: None
        self.on_flushed: Callable[[], None] = lambda: None
        self.on_start_moved: Callable[[], None] = lambda: None
        self._file = _Buffer()
        self._ends: list[int] = []
        """The offset behind each batch."""
        self._positions: list[int] = []
        self._kept: Snapshot | None = None
        self._is_flushing = False

    def reopened(self) -> MemoryLog:
        """The same as another process would find it after a kill."""
        other = MemoryLog(self.config)
        other.__dict__ |= {
            name: value for name, value in self.__dict__.items() if not name.startswith("on_")
        }
        return other

    def fail(self, error: DiskError) -> None:
        """Refuse appends from now on."""
        self.failure = error
        self.on_failure()

    @property
    def size_bytes(self) -> int:
        return len(self._file.data)

    def facts(self) -> LogFacts:
        return LogFacts(1, 1, self.size_bytes, 1, 0, 0, 0, 0, 0.0)

    def take_lookup_times(self) -> list[float]:
        return []

    def configure(self, config: LogConfig) -> None:
        self.config = config

    def check_invariants(self) -> None:
        if not self.start_offset <= self.end_offset >= self.flushed_offset:
            raise InvariantError("the watermarks are out of order")

    # --- Appending -------------------------------------------------------------------------------

    def append(self, batches: Bytes, leader_epoch: int = 0, *, checked: bool = False) -> Appended:
        del checked
        first = self.end_offset
        for position, info in walk(batches):
            batch = memoryview(batches)[position : position + info.size_bytes]
            self.append_batch(batch, info, leader_epoch)
        return Appended(first, self.end_offset)

    def append_batch(self, batch: Bytes, info: BatchInfo, leader_epoch: int) -> int:
        if self.failure is not None:
            raise LogFailedError("it refuses appends") from self.failure
        if leader_epoch > self.epochs.latest:
            self.epochs = self.epochs.with_epoch(leader_epoch, self.end_offset)
        first = self.end_offset
        data = bytearray(batch) if memoryview(batch).readonly else memoryview(batch)
        stamp(data, 0, first, leader_epoch)
        self._positions.append(self.size_bytes)
        self.end_offset = first + info.last_offset_delta + 1
        self._ends.append(self.end_offset)
        self._file.data += data
        return first

    def flush_soon(self) -> None:
        if self.promises_sync(self.end_offset) and not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        if self.failure is None:
            self.flushed_offset = self.end_offset
            self.on_flushed()

    def promises_sync(self, end_offset: int) -> bool:
        unsynced = end_offset - self.flushed_offset
        return self.config.fsync is Fsync.ALWAYS or unsynced >= self.config.flush_messages

    async def durable(self, end_offset: int) -> None:
        if self.promises_sync(end_offset):
            await self.flush_to(end_offset)

    async def flush_to(self, end_offset: int) -> None:
        await asyncio.sleep(0)
        if self.flushed_offset < end_offset:
            if self.failure is not None:
                raise LogFailedError("not flushed") from self.failure
            self._flush()

    # --- Reading ---------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, until: int | None = None) -> Region | None:
        end = self.end_offset if until is None else min(until, self.end_offset)
        first = bisect_right(self._ends, max(offset, self.start_offset))
        behind = bisect_right(self._ends, end)  # of the batches that do not reach past the end
        if first >= behind:
            return None
        bounds = [*self._positions, self.size_bytes]
        whole, one = bounds[behind] - bounds[first], bounds[first + 1] - bounds[first]
        return Region(
            file=self._file,
            position=bounds[first],
            length=min(max(max_bytes, one), whole),
            first_offset=self._ends[first - 1] if first else 0,
            file_end=self.size_bytes,
            context=Context(),
        )

    def chunks(
        self,
        start: int,
        on_damage: Callable[[DamagedRangeError], None] | None = None,
        max_bytes: int = 1 << 20,
    ) -> Iterator[Chunk]:
        del on_damage
        while (region := self.read(start, max_bytes)) is not None:
            chunk = region.load()
            yield chunk
            start = chunk.next_offset

    def offset_before(self, end: int, size_bytes: int) -> int:
        del size_bytes
        first = bisect_left(self._ends, end)
        return max(self._ends[first - 1] if first else 0, self.start_offset)

    def _times(self) -> Iterator[TimestampHit]:
        for chunk in self.chunks(self.start_offset):
            for position, _ in walk(chunk.data):
                for record in decode_rows(chunk.data, position):
                    if record.offset >= self.start_offset:
                        yield TimestampHit(record.offset, record.timestamp_ms)

    def find_time(self, timestamp_ms: int) -> TimestampHit | None:
        return next((hit for hit in self._times() if hit.timestamp_ms >= timestamp_ms), None)

    def find_latest_time(self) -> TimestampHit | None:
        return max(self._times(), key=lambda hit: (hit.timestamp_ms, -hit.offset), default=None)

    # --- What the partition knows ----------------------------------------------------------------

    def kept(self) -> Snapshot | None:
        return self._kept

    @property
    def is_save_due(self) -> bool:
        return self._kept is None or self._kept.last_offset + 1 < self.end_offset

    async def save(self, dump: Callable[[], tuple[Entry, ...]]) -> None:
        snapshot = Snapshot(SnapshotKind.PRODUCERS, self.end_offset - 1, 0, dump())
        await self.flush_to(snapshot.last_offset + 1)
        self._kept = snapshot

    # --- Removing --------------------------------------------------------------------------------

    async def move_start(self, offset: int) -> int:
        await asyncio.sleep(0)
        self.start_offset = max(self.start_offset, min(offset, self.end_offset))
        self.on_start_moved()
        return self.start_offset

    async def expire(
        self, *, retention_ms: int | None, retention_bytes: int | None, until: int | None = None
    ) -> int:
        del retention_ms, retention_bytes, until
        return 0

    def has_segments_before(self, offset: int) -> bool:
        return offset >= self.end_offset > self.start_offset

    def next_expiry_ms(self, now_ms: int, retention_ms: int | None) -> int | None:
        del now_ms, retention_ms
        return None

    def cleanable(self, limits: CompactionLimits, now_ms: int) -> Cleanable:
        del limits, now_ms
        return Cleanable(self.end_offset, 0.0, is_due=False, next_ms=None)

    def seal_if_due(self, limits: CompactionLimits) -> None:
        del limits

    async def compact(
        self, now_ms: int, *, until: int, tombstone_ms: int, aborted: Callable[[BatchInfo], bool]
    ) -> CompactionStats | None:
        del now_ms, until, tombstone_ms, aborted
        return CompactionStats()

    # --- Failing and ending ----------------------------------------------------------------------

    async def restore(self, rebuild: Callable[[], _T]) -> _T | None:
        await asyncio.sleep(0)
        if self.failure is None:
            return None
        self.recovery = RecoveryReport()
        rebuilt = rebuild()
        self.failure, self.flushed_offset = None, self.end_offset
        return rebuilt

    async def shut(self, dump: Callable[[], tuple[Entry, ...]]) -> None:
        if self.failure is not None:
            raise LogFailedError("it refuses writes") from self.failure
        await self.save(dump)

    async def remove(self) -> None:
        await asyncio.sleep(0)
        self.__init__(self.config)  # type: ignore[misc]  # nothing of it is left
