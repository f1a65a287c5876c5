"""Maintenance of stored delayed messages: slots, snapshots, and logs that grow.

A snapshot says up to where in the logs slot files tell when messages are due: what came before is
looked for in the slots at the next start, what came after it in the logs.
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from goqueue.delays.due.due_index import LOAD_AHEAD_MS, DueIndex
from goqueue.delays.due.slot_index import Indexed
from goqueue.delays.due.slots import by_slot, slot_of
from goqueue.delays.due.wheel import AT_ONCE
from goqueue.model.errors import StorageError
from goqueue.runtime.tasks import in_thread
from goqueue.storage.snapshot import KEPT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from goqueue.delays.due.slot_files import DelaySlots
    from goqueue.delays.due.slot_index import SlotIndex
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
        self.confirmed_ends: Callable[[Sequence[int]], tuple[int, ...]] | None = None
        """Of a cluster: up to where it is known which messages count, of what is committed."""
        self.slot_index: SlotIndex | None = None
        """Of a cluster: notes what the slot files of this node hold."""
        self._lock = asyncio.Lock()
        self._saved_at_s = clock.monotonic_s()
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
            await self._take_over(self._index.unsaved[:], range(first, target + 1))
            slots = await in_thread(self._executor, self._slots.slots)
            wanted = [slot for slot in slots if first <= slot <= target]
            entries = await in_thread(self._executor, partial(self._slots.load, wanted))
            await self._take_over(entries)

    async def _take_over(self, entries: array[int], slots: range | None = None) -> None:
        """Have in memory what is due in these slots, some of it at a time."""
        for at in range(0, len(entries), 2 * AT_ONCE):
            some = entries[at : at + 2 * AT_ONCE]
            if slots is not None:
                found = (portion for slot, portion in by_slot(some).items() if slot in slots)
                some = sum(found, array("q"))
            self._index.take_over(some, self._ledger.book.is_pending)
            await asyncio.sleep(0)

    def load_past(self) -> None:
        """Before the first round: everything that is due or was, whenever. Reads: in a thread."""
        target = slot_of(self._index.wheel.now_ms + LOAD_AHEAD_MS)
        self._index.expect_slot(target)
        entries = self._slots.load(slot for slot in self._slots.slots() if slot <= target)
        self._index.take_over(entries, self._ledger.book.is_pending)

    async def dues(self) -> tuple[list[int], dict[int, int]]:
        """When messages are due, and how many are due in each slot that is further away."""
        dues_ms, first = self._index.known_dues(), self._index.next_slot

        def count() -> dict[int, int]:
            files = self._slots.files
            return {slot: files.count(slot) for slot in files.slots() if slot >= first}

        return dues_ms, await in_thread(self._executor, count)

    # --- Snapshots -------------------------------------------------------------------------------

    def due_in_ms(self) -> int | None:
        """How long until the next snapshot is to be taken; None while nothing has happened."""
        if self._lock.locked():
            return None  # one is being taken
        unsaved = len(self._index.unsaved) // 2
        if unsaved >= MESSAGES_BETWEEN or self._ledger.state.log.snapshot_is_due:
            return 0
        since_ms = round((self._clock.monotonic_s() - self._saved_at_s) * 1000)
        return max(MS_BETWEEN - since_ms, 0) if unsaved else None

    @property
    def is_overdue(self) -> bool:
        """So much has come that a snapshot should not wait for its time."""
        return len(self._index.unsaved) >= 2 * MESSAGES_BETWEEN and not self._lock.locked()

    async def save(self) -> None:
        """Bring to slot files when messages are due, take a snapshot, and trim the logs."""
        book = self._ledger.book
        async with self._lock:
            self._saved_at_s = self._clock.monotonic_s()
            unsaved, ends = self._index.take_unsaved(), self._store.ends()
            save = partial(self._slots.save, unsaved, slot_of(self._clock.now_ms()))
            try:
                sizes = await in_thread(self._executor, save)
            except StorageError as error:
                logger.warning(
                    "delayed messages: no snapshot was written, the logs are complete: %s", error
                )
                self._index.not_saved(unsaved)
                return
            book.slot_sizes, book.saved_ends = sizes, ends
            if self.confirmed_ends is not None:
                book.confirmed = self.confirmed_ends(self._store.committed_ends())
            lowest = book.lowest_needed()
            if await self._ledger.state.take_snapshot():
                # What the snapshot speaks of is committed now, and so are the messages before.
                if self.slot_index is not None:
                    note = partial(self.slot_index.save, Indexed(ends, sizes))
                    await in_thread(self._executor, note)
                self._ends.append(ends)
                if len(self._ends) == KEPT:
                    await self._trim(lowest, self._ends[0])

    async def _trim(self, lowest: tuple[int, ...], ends: tuple[int, ...]) -> None:
        """Drop the segments of which no message waits, and which no snapshot needs."""
        for class_number, partition in enumerate(self._store.partitions):
            try:
                await partition.trim(min(lowest[class_number], ends[class_number]))
            except StorageError as error:
                logger.warning("%s: not trimmed: %s", partition.id, error)
            self._ledger.book.forget_before(class_number, partition.log_start)
