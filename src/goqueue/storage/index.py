"""A sparse index: sorted pairs of 64-bit numbers in a file, searched by halving.

The offset index maps offsets to file positions, the time index timestamps to offsets. Both are
hints that make a search short: the log is the truth, and an index that is missing or damaged is
built again from it. Entries are 16 bytes, big-endian, keys strictly increasing. The last one is a
seal: the highest key there is, and a checksum of the others, of their purpose (the name of
the file) and of the size of the segment that they speak of.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple
from goqueue.records.checksum import crc32c
from goqueue.storage.naming import CLEANED

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.runtime.disk import Disk, DiskFile

ENTRY: Final = struct.Struct(">qq")
_SEAL_KEY: Final = (1 << 63) - 1
_BELOW_ALL: Final = -(1 << 63) - 1


class IndexEntry(NamedTuple):
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
        self._last_key = self.last.key if self.last else _BELOW_ALL
        self._saved_bytes = 0

    @classmethod
    def load(cls, disk: Disk, path: Path, size_bytes: int, *, sealed: bool) -> SparseIndex | None:
        """Read the index of a segment of `size_bytes`; None when it must be built again."""
        if not disk.exists(path):
            return None
        file = disk.open(path, write=False)
        data = file.read(0, file.size())
        entries, seal = data[: -ENTRY.size], data[-ENTRY.size :]
        if seal != _seal(path, size_bytes, entries):
            return None
        index = cls(disk, path, bytearray(entries))
        index._saved_bytes = len(entries)
        if sealed:
            index._map(file)
        return index

    def __len__(self) -> int:
        return len(self._entries) // ENTRY.size

    def __getitem__(self, number: int) -> IndexEntry:
        return IndexEntry._make(ENTRY.unpack_from(self._entries, number * ENTRY.size))

    def _key(self, number: int) -> int:
        key: int = ENTRY.unpack_from(self._entries, number * ENTRY.size)[0]
        return key

    @property
    def last(self) -> IndexEntry | None:
        """The entry with the highest key."""
        return self[len(self) - 1] if self._entries else None

    def at_or_before(self, key: int) -> IndexEntry | None:
        """The last entry whose key is `key` or lower."""
        found = bisect_right(range(len(self)), key, key=self._key)
        return self[found - 1] if found else None

    def before(self, key: int) -> IndexEntry | None:
        """The last entry whose key is lower than `key`."""
        found = bisect_left(range(len(self)), key, key=self._key)
        return self[found - 1] if found else None

    def first_from(self, value: int) -> IndexEntry | None:
        """The first entry whose value is `value` or higher, where values grow with the keys."""
        found = bisect_left(range(len(self)), value, key=lambda number: self[number].value)
        return self[found] if found < len(self) else None

    def append(self, key: int, value: int) -> None:
        """Add an entry in memory; a key that does not grow is left out."""
        if key > self._last_key:
            assert isinstance(self._entries, bytearray), "a sealed index does not grow"
            self._entries += ENTRY.pack(key, value)
            self._last_key = key

    def save(self, size_bytes: int) -> DiskFile:
        """Write to the page cache what is only in memory; the caller syncs the file, or not.

        The file never gets shorter: readers of the same segment may have it mapped.
        """
        file = self._disk.open(self._path, create=True)
        if isinstance(self._entries, bytearray):
            unsaved = bytes(self._entries[self._saved_bytes :])
            file.write(self._saved_bytes, unsaved + _seal(self._path, size_bytes, self._entries))
            self._saved_bytes = len(self._entries)
        return file

    def seal(self, file: DiskFile) -> None:
        """Let the kernel hold the entries that were saved in `file`; no more will come."""
        self._map(file)

    def _map(self, file: DiskFile) -> None:
        """The mapping has a descriptor of its own, so the file's can go: nobody keeps it."""
        if isinstance(self._entries, bytearray) and self._entries:
            self._entries = mmap.mmap(file.fileno(), len(self._entries), access=mmap.ACCESS_READ)


def _seal(path: Path, size_bytes: int, entries: bytes | bytearray) -> bytes:
    purpose = path.name.removesuffix(CLEANED).encode()
    checksum = crc32c(entries, crc32c(b"%s %d" % (purpose, size_bytes)))
    return ENTRY.pack(_SEAL_KEY, checksum)
