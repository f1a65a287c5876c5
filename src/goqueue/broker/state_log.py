"""State that is kept in one partition of an internal compacted topic, and rebuilt from it.

A coordinator appends keys and values; the newest value of a key counts, a null value removes it.
On start it replays them, from the last snapshot on. So there is one way to make state durable and
one way to get it back, whoever it belongs to.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from goqueue.model.errors import DamagedRangeError, StorageError
from goqueue.records import Record, decode_rows, encode
from goqueue.records.batch import peek, walk
from goqueue.runtime.tasks import in_thread
from goqueue.storage.snapshot import Entry, Snapshot, SnapshotFolder, snapshot_due

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Executor

    from goqueue.partitions.partition import Partition, Placed
    from goqueue.runtime.clock import Clock
    from goqueue.runtime.disk import Disk

_log = logging.getLogger(__name__)

_PUT = 0


class StateLog:
    """The keys and values of one coordinator."""

    def __init__(
        self,
        partition: Partition,
        kind: int,
        disk: Disk,
        clock: Clock,
        on_saved: Callable[[float], None] = lambda _: None,
    ) -> None:
        """Keep state in `partition`, with snapshots of this kind beside it.

        `on_saved` is told how many seconds each snapshot took.
        """
        self.partition = partition
        self._kind = kind
        self._clock = clock
        self._on_saved = on_saved
        self._snapshots = SnapshotFolder(disk, partition.log.folder, kind)
        self._records_since_snapshot = 0
        self._snapshot_at_s = clock.monotonic_s()
        self.lost_count = 0
        """Entries that the last replay had to leave out, because they are damaged."""

    @property
    def is_empty(self) -> bool:
        """Nothing was ever stored here."""
        return self.partition.log_end == 0

    def replay(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Everything that counts, oldest first.

        A damaged batch is reported and left out: what was said before and after it still counts,
        and `lost_count` grows where it is met.
        """
        self.lost_count = 0
        start = self.partition.log_start
        snapshot = self._snapshots.load(self.partition.log_end)
        damage, place = self.partition.damage, self.partition.id
        damage.snapshots(place, self.partition.log.folder, self._snapshots.damaged)
        if snapshot is not None:
            for entry in snapshot.entries:
                yield entry.key, entry.value
            start = snapshot.last_offset + 1
        elif start > 0:
            self._lost(DamagedRangeError(0, start, "no snapshot of what was trimmed is whole"))
        for chunk in self.partition.log.chunks(start, on_damage=self._lost):
            for position, info in walk(chunk.data):
                if info.is_control:
                    continue
                for record in decode_rows(chunk.data, position, check_crc=False):
                    if record.offset >= start and record.key is not None:
                        self._records_since_snapshot += 1
                        yield record.key, record.value

    def _lost(self, damage: DamagedRangeError) -> None:
        self.lost_count += max(damage.resume_at - damage.first, 1)
        self.partition.damage.damaged(self.partition.id, damage)

    def append(self, entries: Sequence[tuple[bytes, bytes | None]]) -> Placed:
        """Store keys and values, all or none.

        Raises:
            DiskError, LogFailedError: nothing was stored.
        """
        now_ms = self._clock.now_ms()
        batch = encode(
            [Record(number, now_ms, key, value) for number, (key, value) in enumerate(entries)]
        )
        self._records_since_snapshot += len(entries)
        return self.partition.append(batch, peek(batch))

    @property
    def records_since_snapshot(self) -> int:
        """What a start would have to replay."""
        return self._records_since_snapshot

    @property
    def snapshot_is_due(self) -> bool:
        """Enough has changed for a snapshot to save the next start some time."""
        since_ms = round((self._clock.monotonic_s() - self._snapshot_at_s) * 1000)
        return snapshot_due(self._records_since_snapshot, since_ms)

    def save_snapshot(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Keep the whole state as it is after the last append, if the disk lets us."""
        if not self.is_empty:
            self._save(self._snapshot(entries))

    async def save_snapshot_aside(
        self,
        entries: Iterable[tuple[bytes, bytes | None]],
        executor: Executor,
        before: Callable[[], Awaitable[Iterable[tuple[bytes, bytes]]]] | None = None,
    ) -> None:
        """The same, with everything but the collecting done in a thread.

        The entries are those of the moment of the call; what is appended meanwhile is not in it.
        What must be on the disk before a snapshot may speak of it is brought there by `before`,
        which returns further entries, and whose errors are the caller's.
        """
        if not self.is_empty:
            snapshot = self._snapshot(entries)
            if before is not None:
                more = tuple(Entry(_PUT, key, value) for key, value in await before())
                snapshot = replace(snapshot, entries=snapshot.entries + more)
            await in_thread(executor, partial(self._save, snapshot))

    def _snapshot(self, entries: Iterable[tuple[bytes, bytes | None]]) -> Snapshot:
        now_ms = self._clock.now_ms()
        # Before the attempt: a disk that refuses is asked again when the next one is due, not at
        # every change.
        self._records_since_snapshot = 0
        self._snapshot_at_s = self._clock.monotonic_s()
        kept = tuple(Entry(_PUT, key, value) for key, value in entries if value is not None)
        return Snapshot(self._kind, self.partition.log_end - 1, now_ms, kept)

    def _save(self, snapshot: Snapshot) -> None:
        started_s = self._clock.monotonic_s()
        try:
            self._snapshots.save(snapshot)
        except StorageError as error:
            _log.warning("%s: no snapshot, the log holds everything: %s", self.partition.id, error)
        else:
            self._on_saved(self._clock.monotonic_s() - started_s)

    async def trim(self) -> None:
        """Let go what only snapshots older than the oldest that is kept would need.

        For logs whose entries are changes rather than newest values: compaction cannot know which
        of them count. Nothing happens until whole segments can go.
        """
        oldest = self._snapshots.oldest_offset()
        segments = self.partition.log.segments
        if oldest is None or len(segments.since(oldest + 1)) == len(segments):
            return
        try:
            await self.partition.delete_before(oldest + 1)
        except StorageError as error:
            _log.warning("%s: not trimmed: %s", self.partition.id, error)

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshot."""
        return self._snapshots.size_bytes
