"""Maintenance of stored delayed messages: slots, snapshots, and logs that grow.

A snapshot and the slot files belong together: what came before the snapshot is looked for in the
slots at the next start, what came after it in the logs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.delays.book import slot_entries
from goqueue.delays.due_index import LOAD_AHEAD_MS
from goqueue.delays.slots import by_slot, slot_of
from goqueue.delays.timeline import Timeline, timeline
from goqueue.model.errors import StorageError
from goqueue.runtime.tasks import in_thread
from goqueue.storage.snapshot import KEPT

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from goqueue.delays.due_index import DueIndex
    from goqueue.delays.slot_files import DelaySlots
    from goqueue.delays.store import DelayLedger, DelayStore
    from goqueue.runtime.clock import Clock

logger = logging.getLogger(__name__)

MESSAGES_BETWEEN: Final = 100_000
"""New messages after which a snapshot spares the next start their reading."""
MS_BETWEEN: Final = 60_000
"""Between snapshots while new messages come."""


class DelayKeeper:
    """One thing at a time: a snapshot, or the loading of a slot."""

    def __init__(
        self,
        store: DelayStore,
        ledger: DelayLedger,
        index: DueIndex,
        slots: DelaySlots,
        *,
        executor: Executor,
        clock: Clock,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._index = index
        self._slots = slots
        self._executor = executor
        self._clock = clock
        self._lock = asyncio.Lock()
        self._saved_at_s = clock.monotonic_s()
        self._is_saved = False
        self._ends: deque[tuple[int, ...]] = deque(maxlen=KEPT)
        """Where the logs ended at each of the last snapshots; any of them may be the one that the
        next start begins with, and it needs the messages from there on."""

    # --- Slots -----------------------------------------------------------------------------------

    async def load_slots(self, now_ms: int) -> None:
        """Have in memory what is due until a while after now."""
        target = slot_of(now_ms + LOAD_AHEAD_MS)
        async with self._lock:
            first = self._index.next_slot
            # In this order: what comes from now on is kept in memory, what came lately is in no
            # file yet, and all else is in the files.
            self._index.expect_slot(target)
            lately = by_slot(self._index.unsaved)
            for slot, entries in lately.items():
                if first <= slot <= target:
                    self._index.take_over(entries, self._ledger.book.is_pending)
            await self._load(lambda slot: first <= slot <= target)

    async def load_past(self, now_ms: int) -> None:
        """At a start: everything that is due or was, whenever."""
        target = slot_of(now_ms + LOAD_AHEAD_MS)
        async with self._lock:
            self._index.expect_slot(target)
            await self._load(lambda slot: slot <= target)

    async def timeline(self, now_ms: int, steps: int) -> Timeline:
        """When what waits will come; what is far away as its slots have it."""
        dues_ms, first = self._index.known_dues(), self._index.next_slot

        def count() -> Timeline:
            files = self._slots.files
            far = {slot: files.count(slot) for slot in files.slots() if slot >= first}
            return timeline(now_ms, dues_ms, far, steps)

        return await in_thread(self._executor, count)

    async def _load(self, is_wanted: Callable[[int], bool]) -> None:
        slots = await in_thread(self._executor, self._slots.slots)
        wanted = [slot for slot in slots if is_wanted(slot)]
        if wanted:
            entries = await in_thread(self._executor, partial(self._slots.load, wanted))
            self._index.take_over(entries, self._ledger.book.is_pending)

    # --- Snapshots -------------------------------------------------------------------------------

    def due_in_ms(self) -> int | None:
        """How long until the next snapshot is to be taken; None while nothing has happened."""
        if self._lock.locked():
            return None  # one is being taken
        unsaved = len(self._index.unsaved) // 2
        if unsaved >= MESSAGES_BETWEEN or self._ledger.log.snapshot_is_due:
            return 0
        since_ms = round((self._clock.monotonic_s() - self._saved_at_s) * 1000)
        return max(MS_BETWEEN - since_ms, 0) if unsaved else None

    @property
    def is_overdue(self) -> bool:
        """So much has come that a snapshot should not wait for its time."""
        return len(self._index.unsaved) >= 2 * MESSAGES_BETWEEN and not self._lock.locked()

    def on_saved(self, _took_s: float) -> None:
        """A snapshot is on the disk; to be told by the log of changes, from any thread."""
        self._is_saved = True

    async def save(self) -> None:
        """Take a snapshot, and let go what is older than any that is kept."""
        async with self._lock:
            self._saved_at_s = self._clock.monotonic_s()
            self._is_saved = False
            unsaved = self._index.take_unsaved()
            ends, lowest = self._store.ends(), self._ledger.book.lowest_needed()
            changes_end = self._ledger.log.partition.log_end
            sizes: dict[int, int] = {}

            async def before() -> list[tuple[bytes, bytes]]:
                await in_thread(self._executor, partial(self._slots.append, unsaved))
                await self._store.durable(ends)
                await self._ledger.log.partition.synced(changes_end)
                nonlocal sizes
                sizes = await in_thread(self._executor, self._slots.measured)
                return slot_entries(sizes)

            try:
                await self._ledger.log.save_snapshot_with(
                    before, self._ledger.book.dump(), self._executor
                )
            except StorageError as error:
                logger.warning("delayed messages: no snapshot, the logs hold everything: %s", error)
                self._index.not_saved(unsaved)
                return
            if not self._is_saved:
                self._index.not_saved(unsaved)
                return
            self._slots.sizes, self._slots.saved_ends = sizes, ends
            self._ends.append(ends)
            await self._clear_away(lowest)

    async def _clear_away(self, lowest: tuple[int, ...]) -> None:
        await self._ledger.log.trim()
        if len(self._ends) == KEPT:
            for class_number, (low, end) in enumerate(zip(lowest, self._ends[0], strict=True)):
                await self._trim(class_number, min(low, end))
        try:
            over = slot_of(self._clock.now_ms())
            await in_thread(self._executor, partial(self._slots.drop_before, over))
        except StorageError as error:
            logger.warning("slots of delayed messages are left for later: %s", error)

    async def _trim(self, class_number: int, offset: int) -> None:
        """Drop the segments of which no message waits, when there is at least one."""
        partition = self._store.partitions[class_number]
        if not any(segment.end_offset <= offset for segment in partition.log.segments.sealed):
            return
        try:
            start = await partition.delete_before(offset)
        except StorageError as error:
            logger.warning("%s: not trimmed: %s", partition.id, error)
        else:
            self._ledger.book.forget_before(class_number, start)
