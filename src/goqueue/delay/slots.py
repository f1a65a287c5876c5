"""When messages are due that are far from it: files of fixed entries, one for each 2.91 hours.

An entry is 16 bytes: when a message is due, in milliseconds, and its id; both little-endian. Files
grow by whole portions and are read as a whole when their time comes. They are no record of what
waits: an entry may be there twice, or of a message that was cancelled, and a cut-off or garbled end
is harmless, because what is said here of a message is compared with its record before it goes.
"""

from __future__ import annotations

import re
import sys
from array import array
from typing import TYPE_CHECKING, Final

from goqueue.delay.entries import NEAR_MS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from goqueue.runtime.disk import Disk

SLOT_MS: Final = NEAR_MS
"""As wide as a bucket of the wheel's highest level."""
ENTRY_BYTES: Final = 16
_NAME: Final = re.compile(r"slot-(\d{12})\.bin")


def slot_of(due_ms: int) -> int:
    """The slot that holds a moment."""
    return due_ms // SLOT_MS


def by_slot(entries: array[int]) -> dict[int, array[int]]:
    """Due times and ids in turn, sorted into their slots."""
    found: dict[int, array[int]] = {}
    for at in range(0, len(entries), 2):
        slot = entries[at] // SLOT_MS
        portion = found.get(slot)
        if portion is None:
            portion = found[slot] = array("q")
        portion.append(entries[at])
        portion.append(entries[at + 1])
    return found


class SlotFiles:
    """The slots in one folder. Each call works on the disk: not on the event loop."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._folder = folder

    def slots(self) -> list[int]:
        """Every slot of which there is a file, rising."""
        matches = (_NAME.fullmatch(name) for name in self._disk.names(self._folder))
        return sorted(int(match[1]) for match in matches if match)

    def append(self, portions: Mapping[int, array[int]]) -> None:
        """Add entries to their slots; they are on the disk when this returns.

        Raises:
            DiskError: some may be there. Adding them again does no harm.
        """
        if not portions:
            return
        self._disk.make_folder(self._folder)
        known = set(self.slots())
        for slot, entries in portions.items():
            file = self._disk.open(self._path(slot), create=True)
            try:
                whole = file.size() // ENTRY_BYTES * ENTRY_BYTES
                file.write(whole, _little_endian(entries).tobytes())
                file.sync()
            finally:
                file.close()
        if not known.issuperset(portions):
            self._disk.sync_folder(self._folder)

    def load(self, slot: int) -> array[int]:
        """Due times and ids in turn, in no order. Empty when there is no such slot."""
        path = self._path(slot)
        if not self._disk.exists(path):
            return array("q")
        file = self._disk.open(path, write=False)
        try:
            data = file.read(0, file.size())
        finally:
            file.close()
        entries = array("q")
        entries.frombytes(data[: len(data) // ENTRY_BYTES * ENTRY_BYTES])
        return _little_endian(entries)

    def count(self, slot: int) -> int:
        """How many entries a slot has, those of cancelled messages among them."""
        path = self._path(slot)
        return self._disk.size(path) // ENTRY_BYTES if self._disk.exists(path) else 0

    def remove(self, slot: int) -> None:
        """Nothing of this slot waits any more."""
        self._disk.remove(self._path(slot))

    def _path(self, slot: int) -> Path:
        return self._folder / f"slot-{slot:012d}.bin"


def _little_endian(entries: array[int]) -> array[int]:
    if sys.byteorder == "big":
        entries = array("q", entries)
        entries.byteswap()
    return entries
