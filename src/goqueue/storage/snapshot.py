"""Snapshots of state that was built by replaying a log, so that the next start replays little.

```
header, 32 bytes   magic "GQSP" | version u16 | kind u16 | crc32 u32 | last offset i64
                   | last timestamp i64 | entry count u32
entry              type u8 | key length u32 | key | value length u32 | value
```

The checksum covers everything behind it; what is before it must be as expected. A file is
`snapshot-{kind}-{offset}-{timestamp}.bin`; the newest three are kept. One that is damaged is passed
over for the one before, and if none is whole, the log is replayed from its start: a snapshot saves
time, it never holds the only copy. One that speaks of records that the log has lost is removed: if
it stayed, it would one day be taken for a snapshot of the records that came in their place.
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import DiskError
from goqueue.model.tuples import NamedTuple
from goqueue.runtime.disk import Disk, read_file, replace_file
from goqueue.storage.naming import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path


MAGIC: Final = b"GQSP"
VERSION: Final = 1
KEPT: Final = 3
RECORDS_BETWEEN: Final = 10_000
MS_BETWEEN: Final = 5 * 60 * 1000

_HEADER: Final = struct.Struct(">4sHHIqqI")
_CHECKED_FROM: Final = 12
_ENTRY: Final = struct.Struct(">BI")
_LENGTH: Final = struct.Struct(">I")
_NAME: Final = re.compile(r"snapshot-(\d+)-(\d{20})-(\d+)\.bin")
_UNFINISHED: Final = re.compile(_NAME.pattern + re.escape(TEMPORARY))


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One piece of state; what the type, key and value mean is the owner's business."""

    type: int
    key: bytes
    value: bytes


class Snapshot(msgspec.Struct, frozen=True):
    """State as of a place in a log: replay goes on after `last_offset`."""

    kind: int
    last_offset: int
    last_timestamp_ms: int
    entries: tuple[Entry, ...]

    def encode(self) -> bytes:
        """The bytes of the file."""
        body = bytearray(_HEADER.size)
        for entry in self.entries:
            body += _ENTRY.pack(entry.type, len(entry.key)) + entry.key
            body += _LENGTH.pack(len(entry.value)) + entry.value
        fields = (self.last_offset, self.last_timestamp_ms, len(self.entries))
        _HEADER.pack_into(body, 0, MAGIC, VERSION, self.kind, 0, *fields)
        checksum = zlib.crc32(memoryview(body)[_CHECKED_FROM:])
        _HEADER.pack_into(body, 0, MAGIC, VERSION, self.kind, checksum, *fields)
        return bytes(body)

    @classmethod
    def decode(cls, data: bytes) -> Snapshot | None:
        """The snapshot in `data`; None when it is damaged or of another version.

        The kind is not covered by the checksum: whoever asked knows which one it must be.
        """
        if len(data) < _HEADER.size:
            return None
        magic, version, kind, checksum, offset, timestamp, count = _HEADER.unpack_from(data)
        if (magic, version) != (MAGIC, VERSION):
            return None
        if zlib.crc32(memoryview(data)[_CHECKED_FROM:]) != checksum:
            return None
        try:
            return cls(kind, offset, timestamp, tuple(_entries(data, count)))
        except (struct.error, ValueError):
            return None  # whoever wrote this had another idea of the format


def _entries(data: bytes, count: int) -> Iterable[Entry]:
    at = _HEADER.size
    for _ in range(count):
        kind, length = _ENTRY.unpack_from(data, at)
        key = data[at + _ENTRY.size : at + _ENTRY.size + length]
        at += _ENTRY.size + length
        (length,) = _LENGTH.unpack_from(data, at)
        value = data[at + _LENGTH.size : at + _LENGTH.size + length]
        at += _LENGTH.size + length
        yield Entry(kind, key, value)
    if at != len(data):
        raise ValueError(f"the entries end at byte {at} of {len(data)}")


class _Found(NamedTuple):
    """A file, by what its name says; larger is newer."""

    offset: int
    timestamp_ms: int
    name: str


class SnapshotFolder:
    """The snapshots of one kind in one folder, newest first."""

    def __init__(self, disk: Disk, folder: Path, kind: int, earlier: tuple[int, ...] = ()) -> None:
        """Keep snapshots of this kind; those under `earlier` numbers are of the same kind."""
        self._disk = disk
        self._folder = folder
        self._kind = int(kind)
        self._kinds = (self._kind, *earlier)
        self.damaged: list[str] = []
        """Files that `load` had to pass over."""
        self.size_bytes = 0
        """Of the newest snapshot that was saved or loaded."""

    def _found(self, pattern: re.Pattern[str]) -> list[_Found]:
        """Our files whose names fit, newest first."""
        matches = (pattern.fullmatch(name) for name in self._disk.names(self._folder))
        ours = (match for match in matches if match and int(match[1]) in self._kinds)
        return sorted((_Found(int(m[2]), int(m[3]), m[0]) for m in ours), reverse=True)

    def save(self, snapshot: Snapshot) -> Path:
        """Make a snapshot durable, and drop all but the newest few.

        Those that reach further than this one go too: the log they were made from has been cut.
        """
        self._disk.make_folder(self._folder)
        offset = max(snapshot.last_offset, 0)
        self._remove(
            [*self._found(_UNFINISHED), *(f for f in self._found(_NAME) if f.offset > offset)]
        )
        timestamp = max(snapshot.last_timestamp_ms, 0)
        path = self._folder / f"snapshot-{self._kind}-{offset:020d}-{timestamp}.bin"
        data = snapshot.encode()
        replace_file(self._disk, path, data)
        self.size_bytes = len(data)
        others = [found for found in self._found(_NAME) if found.name != path.name]
        self._remove(others[KEPT - 1 :])
        return path

    def oldest_offset(self) -> int | None:
        """The offset up to which the oldest snapshot that is kept knows the log."""
        return min((found.offset for found in self._found(_NAME)), default=None)

    def load(self, log_end: int, passed_over: int = 0) -> Snapshot | None:
        """The newest snapshot that is whole and does not reach past the end of the log.

        Of those, so many are passed over.
        """
        self.damaged = []
        self._remove(self._found(_UNFINISHED))
        for found in self._found(_NAME):
            snapshot = self._read(found.name)
            if snapshot is None:
                self.damaged.append(found.name)
            elif snapshot.last_offset >= log_end:
                self._remove([found])
            elif passed_over:
                passed_over -= 1
            else:
                self.size_bytes = self._disk.size(self._folder / found.name)
                return snapshot
        return None

    def _read(self, name: str) -> Snapshot | None:
        """The snapshot in a file; None when it cannot be read, is damaged or of another kind."""
        try:
            snapshot = Snapshot.decode(read_file(self._disk, self._folder / name))
        except DiskError:
            return None
        return snapshot if snapshot is not None and snapshot.kind in self._kinds else None

    def _remove(self, unwanted: Sequence[_Found]) -> None:
        for found in unwanted:
            self._disk.remove(self._folder / found.name)
        if unwanted:
            self._disk.sync_folder(self._folder)


def remove_snapshots(disk: Disk, folder: Path, end_offset: int) -> None:
    """Remove, durably, the snapshots of every kind that know a log up to an offset or further.

    The log is about to be cut there: if one stayed, it would be taken for a snapshot of the records
    that come in their place.
    """
    unwanted = []
    for name in disk.names(folder):
        match = _NAME.fullmatch(name) or _UNFINISHED.fullmatch(name)
        if match and int(match[2]) >= end_offset:
            unwanted.append(name)
    for name in unwanted:
        disk.remove(folder / name)
    if unwanted:
        disk.sync_folder(folder)


def snapshot_due(records_since: int, ms_since: int) -> bool:
    """Whether enough has changed since the last snapshot to take another."""
    return records_since >= RECORDS_BETWEEN or (records_since > 0 and ms_since >= MS_BETWEEN)
