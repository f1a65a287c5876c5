"""A log of changes, whose snapshots are written into the log itself.

A file beside the log would be on one node's disk only, while the log is trimmed for all of them. So
the snapshot is a stretch of the log: a marker where it begins, entries like any other, and a marker
behind them. Changes may come in between: each entry says of one thing what is true at its own place
in the log, so that whoever replays needs nothing from before the beginning. The files beside the
log only say where snapshots begin that are complete, and save a start the reading of what lies
before; those of earlier versions hold the state itself, and are read as they are.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import StorageError
from goqueue.records.batch import peek
from goqueue.runtime.tasks import in_thread
from goqueue.state.log import BEGIN, END, StateEntry, StateLog
from goqueue.storage.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Executor


_log = logging.getLogger(__name__)

_SLICE_BYTES: Final = 256 * 1024
"""Of a snapshot that are appended before other work has its turn."""
_GROWTH: Final = 2
"""The log grows by so many times the size of a snapshot before there is another one."""


class ChangeLog(StateLog):
    """The changes of one coordinator."""

    _snapshot_size = 0
    others_synced: Callable[[], Awaitable[None]] | None = None
    """Returns when everything in other logs that a snapshot may speak of is on the disk."""

    def slices(
        self, end: int | None = None, passed_over: int = 0
    ) -> Iterator[Sequence[StateEntry]]:
        """As every log, from the newest snapshot on of which nothing is damaged, if there is one.

        What lies behind the end of the last one counts for the next.
        """
        following = self._counted(super().slices(end, passed_over))
        beginning: list[Sequence[StateEntry]] = []
        for entries in following:
            beginning.append(entries)
            if beginning[0][0][0] != BEGIN or any(key == END for key, _ in entries):
                break
        if self.lost_count and self._can_begin_earlier(passed_over):
            yield from self.slices(end, passed_over + 1)
        else:
            yield from beginning
            yield from following

    def _can_begin_earlier(self, passed_over: int) -> bool:
        """Whether the log holds everything without the snapshot that a replay begins with."""
        log_end, load = self.partition.log_end, self._snapshots.load
        is_there = load(log_end, passed_over) is not None
        is_whole = self.partition.log_start == 0
        return is_there and (is_whole or load(log_end, passed_over + 1) is not None)

    def _counted(self, slices: Iterator[Sequence[StateEntry]]) -> Iterator[Sequence[StateEntry]]:
        for entries in slices:
            if any(key == END for key, _ in entries):
                self._snapshot_size, self.bytes_since_snapshot = self.bytes_since_snapshot, 0
                self._records_since_snapshot = 0
            yield entries

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshot."""
        return self._snapshot_size

    @property
    def snapshot_is_due(self) -> bool:
        """Enough has changed for a snapshot to save the next start some time."""
        has_grown = self.bytes_since_snapshot >= _GROWTH * self._snapshot_size
        return has_grown and super().snapshot_is_due

    async def save_snapshot(self, entries: Iterable[StateEntry], executor: Executor) -> bool:
        """Write the whole state into the log, some of it at a time, and trim what lies before.

        Each entry must be true when it is drawn, or when the first of all is: whoever replays it
        knows which. What is drawn is appended before anything else.

        Raises:
            GoQueueError: the disk refuses, or the state is gone; what was complete before counts.
        """
        if self.is_empty:
            return False
        started_s, epoch = self._begin_snapshot(), self.partition.leader_epoch
        begins_at = self._append([(BEGIN, b"")])[0] - 1
        size_bytes = await self._append_slices(entries)
        if self.others_synced is not None:
            await self.others_synced()
        self._check_led(epoch)
        end = self._append([(END, b"")])[0]
        await self._kept(end, epoch)
        complete = Snapshot(self._kind, begins_at - 1, self._stamp_ms(), ())
        await in_thread(executor, partial(self._snapshots.save, complete))
        self._snapshot_size = size_bytes
        self._on_saved(self._clock.monotonic_s() - started_s)
        await self._trim()
        return True

    async def _trim(self) -> None:
        """Let go what lies before the oldest snapshot that is kept; only whole segments go."""
        oldest = self._snapshots.oldest_offset()
        if oldest is None:
            return
        try:
            await self.partition.trim(oldest + 1)
        except StorageError as error:
            _log.warning("%s: not trimmed: %s", self.partition.id, error)

    def _append(self, entries: Sequence[StateEntry]) -> tuple[int, int]:
        """Append a part of a snapshot; returns where the log ends, and its size in bytes."""
        batch = self._batch(entries)
        return self.partition.append(batch, peek(batch)).end_offset, len(batch)

    async def _append_slices(self, entries: Iterable[StateEntry]) -> int:
        """Append the entries of a snapshot; returns how many bytes those are."""
        total_bytes = drawn_bytes = 0
        some: list[StateEntry] = []
        for key, value in entries:
            some.append((key, value))
            drawn_bytes += len(key) + len(value or b"")
            if drawn_bytes >= _SLICE_BYTES:
                total_bytes += self._append(some)[1]
                some, drawn_bytes = [], 0
                await asyncio.sleep(0)
        return total_bytes + (self._append(some)[1] if some else 0)
