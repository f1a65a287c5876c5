"""The slot files of delayed messages, and the way back to the logs when one of them is damaged.

A slot says when messages are due; that they wait is said by their records. So whatever a slot file
has lost is found by reading the logs once: every message that waits and is due in that slot.
"""

from __future__ import annotations

import logging
from array import array
from typing import TYPE_CHECKING

from goqueue.delays.due.slots import LoadedSlot, SlotFiles, by_slot, slot_of
from goqueue.delays.entries import make_id, split_id
from goqueue.partitions.damage import DamageKind, DamageReports

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.delays.book import DelayBook
    from goqueue.delays.store import DelayStore

logger = logging.getLogger(__name__)


class DelaySlots:
    """Slots that are whole again when they are loaded. Each call works on the disk: in a thread."""

    def __init__(
        self, files: SlotFiles, store: DelayStore, book: DelayBook, damage: DamageReports
    ) -> None:
        self.files = files
        self._store = store
        self._book = book
        self._damage = damage

    def slots(self) -> list[int]:
        """Every slot that there is, or should be, rising."""
        return sorted({*self.files.slots(), *self._book.slot_sizes})

    def load(self, slots: Iterable[int]) -> array[int]:
        """What these slots hold: due times and ids in turn, in no order.

        What is damaged is built anew from the logs, and reported.

        Raises:
            DiskError: the disk refuses.
        """
        entries = array("q")
        damaged: dict[int, LoadedSlot] = {}
        for slot in slots:
            loaded = self.files.load(slot)
            size, known = self.files.size(slot), self._book.slot_sizes.get(slot, 0)
            if loaded.damage is None and size < known:
                damage = f"it has {size} bytes and had {known}"
                loaded = loaded._replace(damage=damage, is_torn=True)
            entries.extend(loaded.entries)
            if loaded.damage is not None:
                damaged[slot] = loaded
        if damaged:
            for slot, found in self._from_logs(damaged.keys()).items():
                self._repair(slot, damaged[slot], found)
                entries.extend(found)
        return entries

    def save(self, entries: array[int], over: int) -> dict[int, int]:
        """Add what still waits to its slots, and drop slots before `over` of which nothing waits.

        Returns how many bytes each slot has then, on the disk. What has gone meanwhile, as short
        delays have, is spared.

        Raises:
            DiskError: some may be there. Adding them again does no harm.
        """
        is_pending = self._book.is_pending
        kept = array("q")
        for at in range(0, len(entries), 2):
            if is_pending(entries[at + 1]):
                kept.extend(entries[at : at + 2])
        portions = by_slot(kept)
        self.load(slot for slot in portions if not self.files.is_known(slot))
        self.files.append(portions)
        for slot in [each for each in self.files.slots() if each < over]:
            known = self.load([slot])
            if not any(is_pending(known[at]) for at in range(1, len(known), 2)):
                self.files.remove(slot)
        return {slot: self.files.size(slot) for slot in self.files.slots()}

    # --- Damage ----------------------------------------------------------------------------------

    def _from_logs(self, slots: Iterable[int]) -> dict[int, array[int]]:
        """Everything that waits and is due in these slots."""
        found = {slot: array("q") for slot in slots}
        is_pending = self._book.is_pending
        for class_number, partition in enumerate(self._store.partitions):
            for offset, _, due_ms in self._store.places(class_number, partition.log_start):
                entries = found.get(slot_of(due_ms))
                delayed_id = make_id(class_number, offset)
                if entries is not None and is_pending(delayed_id):
                    entries.append(due_ms)
                    entries.append(delayed_id)
        return found

    def _repair(self, slot: int, loaded: LoadedSlot, found: array[int]) -> None:
        """Put what was found in the place of a damaged file.

        An end that a power cut has torn is no damage as long as nothing is missing: what was being
        added then is still known from the logs.
        """
        missing = {*found[1::2]}.difference(loaded.entries[1::2])
        lost = sum(1 for each in missing if self._was_saved(each))
        detail = (
            f"{loaded.damage}; {len(found) // 2} messages that are due in it were found in the log,"
            f" {lost} of them had been lost with the file: it is written anew"
        )
        path = str(self.files.path(slot))
        if lost or not loaded.is_torn:
            self._damage.note(DamageKind.DELAY_SLOT, path, detail)
        else:
            logger.info("%s: %s", path, detail)
        self.files.rewrite(slot, found)
        self._book.slot_sizes = {**self._book.slot_sizes, slot: self.files.size(slot)}

    def _was_saved(self, delayed_id: int) -> bool:
        class_number, offset = split_id(delayed_id)
        return offset < self._book.saved_ends[class_number]
