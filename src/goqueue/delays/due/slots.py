"""When messages are due that are far from it: files of entries, one for each 2.91 hours.

```
header    "GQSLOT" | version u16
portion   crc32 u32 | entry count u32 | entries
entry     due time i64, in milliseconds | id i64
```

The header is big-endian, all else little-endian. A checksum covers the number of the slot, the
count and the entries. A portion is what one append added. Files of version 1 are entries alone:
they are read as they are, and written anew by the next append.

Files are read as a whole when their time comes. They are no record of what waits: an entry may be
there twice, or of a message that was cancelled, and what is said here of a message is compared with
its record before it goes. What a damaged file has lost can be had from the records again.
"""

from __future__ import annotations

import re
import struct
import sys
import zlib
from array import array
from typing import TYPE_CHECKING, Final

from goqueue.delays.entries import NEAR_MS
from goqueue.model.tuples import NamedTuple
from goqueue.runtime.disk import Disk, replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


SLOT_MS: Final = NEAR_MS
"""As wide as a bucket of the wheel's highest level."""
ENTRY_BYTES: Final = 16
HEADER: Final = b"GQSLOT\x00\x02"
"""As an entry of version 1 it would be due in four million years."""
_PORTION: Final = struct.Struct("<II")
_SLOT: Final = struct.Struct("<q")
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


class LoadedSlot(NamedTuple):
    """What could be read of a slot."""

    entries: array[int]
    """Due times and ids in turn, in no order."""
    damage: str | None = None
    """Why it cannot be all."""
    is_torn: bool = False
    """The damage is the end of the file, as a power cut during an append leaves it."""


class SlotFiles:
    """The slots in one folder. Each call works on the disk: not on the event loop."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._folder = folder
        self._ends: dict[int, int] = {}
        """Where the last whole portion ends, of files that were read or written since the start;
        one for each file."""
        self._counts: dict[int, int] = {}
        """How many entries those files have."""

    def slots(self) -> list[int]:
        """Every slot of which there is a file, rising."""
        matches = (_NAME.fullmatch(name) for name in self._disk.names(self._folder))
        return sorted(int(match[1]) for match in matches if match)

    def append(self, portions: Mapping[int, array[int]]) -> None:
        """Add entries to their slots; they are on the disk when this returns.

        What is damaged at the end of a file is written over.

        Raises:
            DiskError: some may be there. Adding them again does no harm.
        """
        if not portions:
            return
        self._disk.make_folder(self._folder)
        known = set(self.slots())
        for slot, entries in portions.items():
            if slot in known and slot not in self._ends:
                loaded = self.load(slot)
                if slot not in self._ends:
                    self.rewrite(slot, loaded.entries)
            self._append(slot, entries)
        if not known.issuperset(portions):
            self._disk.sync_folder(self._folder)

    def _append(self, slot: int, entries: array[int]) -> None:
        end = self._ends.get(slot, 0)
        data = (b"" if end else HEADER) + _portion(slot, entries)
        file = self._disk.open(self.path(slot), create=True)
        try:
            if file.size() > end:
                file.truncate(end)
            file.write(end, data)
            file.sync()
        finally:
            file.close()
        self._ends[slot] = end + len(data)
        self._counts[slot] = self._counts.get(slot, 0) + len(entries) // 2

    def rewrite(self, slot: int, entries: array[int]) -> None:
        """Let a slot hold these entries and nothing else. Raises `DiskError`: it is as it was."""
        self._disk.make_folder(self._folder)
        data = HEADER + _portion(slot, entries)
        replace_file(self._disk, self.path(slot), data)
        self._ends[slot], self._counts[slot] = len(data), len(entries) // 2

    def is_known(self, slot: int) -> bool:
        """Whether the file was read or written since the start."""
        return slot in self._ends

    def load(self, slot: int) -> LoadedSlot:
        """What a slot holds. Empty when there is no such slot."""
        path = self.path(slot)
        if not self._disk.exists(path):
            return LoadedSlot(array("q"))
        file = self._disk.open(path, write=False)
        try:
            data = file.read(0, file.size())
        finally:
            file.close()
        if not data.startswith(HEADER):
            return _load_first_version(slot, data)
        loaded, self._ends[slot] = _load_portions(slot, data)
        self._counts[slot] = len(loaded.entries) // 2
        return loaded

    def count(self, slot: int) -> int:
        """How many entries a slot has, those of cancelled messages among them.

        Of a file that was not read since the start it is said by its size, and about right.
        """
        known = self._counts.get(slot)
        return self.size(slot) // ENTRY_BYTES if known is None else known

    def size(self, slot: int) -> int:
        """How many bytes a slot has; 0 when there is none."""
        path = self.path(slot)
        return self._disk.size(path) if self._disk.exists(path) else 0

    def remove(self, slot: int) -> None:
        """Nothing of this slot waits any more."""
        self._ends.pop(slot, None)
        self._counts.pop(slot, None)
        self._disk.remove(self.path(slot))

    def clear(self) -> None:
        """Forget everything."""
        for slot in self.slots():
            self.remove(slot)

    def path(self, slot: int) -> Path:
        """The file of a slot."""
        return self._folder / f"slot-{slot:012d}.bin"


def _portion(slot: int, entries: array[int]) -> bytes:
    data = _little_endian(entries).tobytes()
    count = len(entries) // 2
    return _PORTION.pack(_checksum(slot, count, data), count) + data


def _checksum(slot: int, count: int, data: bytes | memoryview) -> int:
    return zlib.crc32(data, zlib.crc32(_SLOT.pack(slot) + _SLOT.pack(count)))


def _load_portions(slot: int, data: bytes) -> tuple[LoadedSlot, int]:
    """Every portion that matches its checksum, and where the last of them ends."""
    entries, at, end = array("q"), len(HEADER), len(HEADER)
    damage, is_torn = None, True
    view = memoryview(data)
    while at < len(data):
        body = at + _PORTION.size
        checksum, count = _PORTION.unpack_from(data, at) if body <= len(data) else (0, 1)
        following = body + count * ENTRY_BYTES
        if following > len(data):
            damage = damage or f"the portion at byte {at} is cut off or its length is damaged"
            break
        if _checksum(slot, count, view[body:following]) == checksum:
            entries.frombytes(view[body:following])
            is_torn &= damage is None
            end = following
        else:
            damage = damage or f"the portion at byte {at} does not match its checksum"
        at = following
    return LoadedSlot(_little_endian(entries), damage, is_torn and damage is not None), end


def _load_first_version(slot: int, data: bytes) -> LoadedSlot:
    """The entries of a file without checksums: those that can be of this slot."""
    found = array("q")
    found.frombytes(data[: len(data) // ENTRY_BYTES * ENTRY_BYTES])
    found = _little_endian(found)
    if all(due_ms // SLOT_MS == slot for due_ms in found[::2]):
        return LoadedSlot(found)
    kept = array("q")
    for at in range(0, len(found), 2):
        if slot_of(found[at]) == slot:
            kept.extend(found[at : at + 2])
    return LoadedSlot(kept, "it holds entries of other times, or its header is damaged")


def _little_endian(entries: array[int]) -> array[int]:
    if sys.byteorder == "big":
        entries = array("q", entries)
        entries.byteswap()
    return entries
