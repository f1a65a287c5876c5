"""A sparse index: sorted pairs of 64-bit numbers in a file, searched by halving.

The offset index maps offsets to file positions, the time index timestamps to offsets. Both are
hints that make a search short: the log is the truth, and an index that is missing or does not make
sense is built again from it. Entries are 16 bytes, big-endian, keys strictly increasing.
"""

from __future__ import annotations

import mmap
import struct
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.runtime.disk import Disk, DiskFile

ENTRY: Final = struct.Struct(">qq")


class Entry(NamedTuple):
    """One pair of the index."""

    key: int
    value: int


class SparseIndex:
    """The pairs of one index, in memory while the segment grows, mapped once it is sealed.

    Mapped pages belong to the kernel, so a thousand sealed segments cost no memory of ours.
    """

    def __init__(self, disk: Disk, path: Path, entries: bytearray | mmap.mmap | None = None):
        self._disk = disk
        self._path = path
        self._entries: bytearray | mmap.mmap = bytearray() if entries is None else entries
        self._saved_bytes = 0
        self._file: DiskFile | None = None

    @classmethod
    def load(cls, disk: Disk, path: Path, *, sealed: bool) -> SparseIndex | None:
        """Read the index at `path`; None when it cannot be trusted and must be built again."""
        file = disk.open(path, create=True, write=not sealed)
        size = file.size()
        if size == 0 or size % ENTRY.size:
            return None
        mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        if not _sorted(mapped):
            return None
        index = cls(disk, path, mapped if sealed else bytearray(mapped))
        index._file = file
        index._saved_bytes = size
        return index

    def __len__(self) -> int:
        return len(self._entries) // ENTRY.size

    def __getitem__(self, number: int) -> Entry:
        return Entry._make(ENTRY.unpack_from(self._entries, number * ENTRY.size))

    def _key(self, number: int) -> int:
        key: int = ENTRY.unpack_from(self._entries, number * ENTRY.size)[0]
        return key

    @property
    def last(self) -> Entry | None:
        """The entry with the highest key."""
        return self[len(self) - 1] if self._entries else None

    def at_or_before(self, key: int) -> Entry | None:
        """The last entry whose key is `key` or lower."""
        found = bisect_right(range(len(self)), key, key=self._key)
        return self[found - 1] if found else None

    def before(self, key: int) -> Entry | None:
        """The last entry whose key is lower than `key`."""
        found = bisect_left(range(len(self)), key, key=self._key)
        return self[found - 1] if found else None

    def append(self, key: int, value: int) -> None:
        """Add an entry in memory; a key that does not grow is left out."""
        last = self.last
        if last is None or key > last.key:
            assert isinstance(self._entries, bytearray), "a sealed index does not grow"
            self._entries += ENTRY.pack(key, value)

    def save(self) -> DiskFile:
        """Write to the page cache what is only in memory; the caller decides when to sync."""
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
        if self._file.size() > self._saved_bytes:
            self._file.truncate(self._saved_bytes)
        if self._saved_bytes < len(self._entries):
            self._file.write(self._saved_bytes, bytes(self._entries[self._saved_bytes :]))
            self._saved_bytes = len(self._entries)
        return self._file

    def seal(self) -> None:
        """Save, and let the kernel hold the entries from now on."""
        file = self.save()
        if isinstance(self._entries, bytearray) and self._entries:
            self._entries = mmap.mmap(file.fileno(), len(self._entries), access=mmap.ACCESS_READ)


def _sorted(entries: mmap.mmap) -> bool:
    numbers = array("q", entries[:])
    if sys.byteorder == "little":
        numbers.byteswap()
    keys = numbers[::2].tolist()
    return keys == sorted(keys)
