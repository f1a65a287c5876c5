"""Keys and values in one partition of an internal topic, and the snapshots beside it.

A coordinator appends keys and values; replayed, they build its state again, from the last snapshot
on. So there is one way to make state durable and one way to get it back, whoever it belongs to.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.model.errors import DamagedRangeError, LeadershipLostError
from goqueue.records import Record, decode_rows, encode
from goqueue.records.batch import BatchInfo, peek, walk
from goqueue.runtime.tasks import in_thread
from goqueue.state.clock import ShardClock, StateClock
from goqueue.storage.snapshot import Entry, Snapshot, SnapshotFolder, snapshot_due

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Executor

    from goqueue.partitions.partition import Partition
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Bytes, Disk
    from goqueue.storage.region import Chunk
    from goqueue.storage.snapshot_kinds import SnapshotKind

_PUT = 0
SLICE_ENTRIES: Final = 1000
"""Entries of a replay that are applied before other work has its turn."""

BEGIN: Final = b"\x00begin"
END: Final = b"\x00end"
"""The keys of the markers around a snapshot that is in the log; see `change_log`."""

StateEntry: TypeAlias = tuple[bytes, bytes | None]
"""A key and its value; None removes the key."""


class StateLog:
    """The keys and values of one coordinator."""

    def __init__(
        self,
        partition: Partition,
        kind: SnapshotKind,
        disk: Disk,
        clock: Clock,
        *,
        on_saved: Callable[[float], None] = lambda _: None,
        time: StateClock | ShardClock | None = None,
    ) -> None:
        """Keep state in `partition`, with snapshots of this kind beside it.

        `on_saved` is told how many seconds each snapshot took. What is stored is stamped by `clock`
        or, in a cluster, by `time`, which goes on from one leader to the next.
        """
        self.partition = partition
        self._kind = kind
        self._clock = clock
        self._on_saved = on_saved
        self._time = time or StateClock(clock)
        self.now_ms = self._time.now_ms
        """The time that coordinators count by."""
        self._stamp_ms = self.now_ms if isinstance(time, ShardClock) else clock.now_ms
        self._newest_ms = 0
        """The newest stamp that the last replay has met."""
        self._snapshots = SnapshotFolder(disk, partition.folder, kind, earlier=kind.earlier)
        self._records_since_snapshot = 0
        self.bytes_since_snapshot = 0
        self._snapshot_at_s = clock.monotonic_s()
        self.lost_count = 0
        """Entries that the last replay had to leave out, because they are damaged."""

    @property
    def is_empty(self) -> bool:
        """Nothing was ever stored here."""
        return self.partition.log_end == 0

    def go_on(self, epoch: int) -> None:
        """This node leads in an epoch, and everything was replayed: go on with the time."""
        if isinstance(self._time, ShardClock):
            self._time.go_on(epoch, self.partition.leader_time_ms(), self._newest_ms)

    # --- Replaying -------------------------------------------------------------------------------

    def slices(
        self, end: int | None = None, passed_over: int = 0
    ) -> Iterator[Sequence[StateEntry]]:
        """Everything before an offset that counts, oldest first, some entries at a time.

        From the newest snapshot on, of which so many are passed over. This may go on in any thread.

        A damaged batch is reported and left out: what was said before and after it still counts,
        and `lost_count` grows where it is met, which is always between two slices.
        """
        self.lost_count = self._records_since_snapshot = self.bytes_since_snapshot = 0
        start = self.partition.log_start
        snapshot = self._snapshots.load(self.partition.log_end, passed_over)
        self.partition.report_damaged_snapshots(self._snapshots.damaged)
        if snapshot is not None:
            entries = iter(snapshot.entries)
            while some := [(each.key, each.value) for each in islice(entries, SLICE_ENTRIES)]:
                yield some
            start = snapshot.last_offset + 1
            self._newest_ms = snapshot.last_timestamp_ms
        is_headless = snapshot is None and start > 0
        for chunk in self.partition.chunks(start, self._lost):
            found = list(self._entries(chunk, start, end))
            if is_headless and found and found[0][0] != BEGIN:
                self._lost(DamagedRangeError(0, start, "no snapshot of what was trimmed is whole"))
            is_headless = is_headless and not found
            self._records_since_snapshot += len(found)
            self.bytes_since_snapshot += len(chunk.data)
            for at in range(0, len(found), SLICE_ENTRIES):
                yield found[at : at + SLICE_ENTRIES]

    def _entries(self, chunk: Chunk, start: int, end: int | None) -> Iterator[StateEntry]:
        """The entries of a part of the log between two offsets."""
        for position, info in walk(chunk.data):
            if info.is_control:
                continue
            self._newest_ms = max(self._newest_ms, info.max_timestamp)
            for record in decode_rows(chunk.data, position, check_crc=False):
                is_meant = record.offset >= start and (end is None or record.offset < end)
                if is_meant and record.key is not None:
                    yield record.key, record.value

    def _lost(self, damage: DamagedRangeError) -> None:
        self.lost_count += max(damage.resume_at - damage.first, 1)
        self.partition.report_damage(damage)

    # --- Storing ---------------------------------------------------------------------------------

    def encoded(self, entries: Sequence[StateEntry]) -> tuple[Bytes, BatchInfo]:
        """Keys and values as the batch that is to be appended to the partition."""
        batch = self._batch(entries)
        self._records_since_snapshot += len(entries)
        self.bytes_since_snapshot += len(batch)
        return batch, peek(batch)

    def append(self, entries: Sequence[StateEntry]) -> int:
        """Store keys and values, all or none; returns where the log ends then.

        Raises:
            DiskError, LogFailedError: nothing was stored.
        """
        return self.partition.append(*self.encoded(entries)).end_offset

    def _batch(self, entries: Sequence[StateEntry]) -> Bytes:
        now_ms = self._stamp_ms()
        return encode(
            [Record(number, now_ms, key, value) for number, (key, value) in enumerate(entries)]
        )

    # --- Snapshots -------------------------------------------------------------------------------

    @property
    def records_since_snapshot(self) -> int:
        """What a start would have to replay."""
        return self._records_since_snapshot

    @property
    def snapshot_is_due(self) -> bool:
        """Enough has changed for a snapshot to save the next start some time."""
        since_ms = round((self._clock.monotonic_s() - self._snapshot_at_s) * 1000)
        return snapshot_due(self._records_since_snapshot, since_ms)

    async def save_snapshot(self, entries: Iterable[StateEntry], executor: Executor) -> bool:
        """Keep the whole state as it is after the last append; False when there is none yet.

        For entries that are newest values: they are drawn in slices, between which they may change.
        A replay goes on where the log ended before the first was drawn, and ends at the same.

        Raises:
            StorageError: the disk refuses; the log holds everything.
        """
        if self.is_empty:
            return False
        started_s, epoch = self._begin_snapshot(), self.partition.leader_epoch
        last_offset, now_ms = self.partition.log_end - 1, self._stamp_ms()
        kept: list[Entry] = []
        for count, (key, value) in enumerate(entries, 1):
            if value is not None:
                kept.append(Entry(_PUT, key, value))
            if count % SLICE_ENTRIES == 0:
                await asyncio.sleep(0)
        # Everything that it may speak of: a power cut must not leave less in the log.
        await self._kept(self.partition.log_end, epoch)
        snapshot = Snapshot(self._kind, last_offset, now_ms, tuple(kept))
        await in_thread(executor, partial(self._snapshots.save, snapshot))
        self._on_saved(self._clock.monotonic_s() - started_s)
        return True

    async def _kept(self, end: int, epoch: int) -> None:
        """Return when everything before an offset is on the disk, and on the other replicas.

        Raises:
            LeadershipLostError: another node has led since; it may have cut that off.
            StorageError: the disk refuses.
        """
        partition = self.partition
        await partition.synced(end)
        if not partition.is_committed(end):
            await partition.committed(end)  # what other replicas lack may still be cut off
        self._check_led(epoch)

    def _check_led(self, epoch: int) -> None:
        """Raise `LeadershipLostError` where another node may have written since."""
        partition = self.partition
        if not partition.is_leading or partition.leader_epoch != epoch:
            raise LeadershipLostError(
                f"{partition.id}: this node does not lead it in epoch {epoch} any more, so what a "
                "snapshot speaks of may be gone"
            )

    def _begin_snapshot(self) -> float:
        """Count anew, before the attempt; returns the time.

        A disk that refuses is asked again when the next one is due, not at every change.
        """
        self._records_since_snapshot = self.bytes_since_snapshot = 0
        self._snapshot_at_s = self._clock.monotonic_s()
        return self._snapshot_at_s

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshot."""
        return self._snapshots.size_bytes
