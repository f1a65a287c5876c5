"""Snapshots of state that was built by replaying a log, so that the next start replays little.

```
header, 32 bytes   magic "GQSP" | version u16 | kind u16 | crc32 u32 | last offset i64
                   | last timestamp i64 | entry count u32
entry              type u8 | key length u32 | key | value length u32 | value
```

The checksum covers everything behind it. A file is `snapshot-{kind}-{offset}-{timestamp}.bin`; the
newest three are kept. One that is damaged is passed over for the one before, and if none is whole,
the log is replayed from its start: a snapshot saves time, it never holds the only copy.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from goqueue.runtime.disk import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from goqueue.runtime.disk import Disk

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


class Entry(NamedTuple):
    """One piece of state; what the type, key and value mean is the owner's business."""

    type: int
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
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
        """The snapshot in `data`; None when it is damaged or of another version."""
        if len(data) < _HEADER.size:
            return None
        magic, version, kind, checksum, offset, timestamp, count = _HEADER.unpack_from(data)
        if (magic, version) != (MAGIC, VERSION):
            return None
        if zlib.crc32(memoryview(data)[_CHECKED_FROM:]) != checksum:
            return None
        return cls(kind, offset, timestamp, tuple(_entries(data, count)))


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


class SnapshotFolder:
    """The snapshots of one kind in one folder, newest first."""

    def __init__(self, disk: Disk, folder: Path, kind: int) -> None:
        self._disk = disk
        self._folder = folder
        self._kind = kind
        self.damaged: list[str] = []
        """Files that `load` had to pass over."""

    def _names(self) -> list[str]:
        """The names of our snapshots, newest first."""
        found = []
        for name in self._disk.names(self._folder):
            match = _NAME.fullmatch(name)
            if match and int(match[1]) == self._kind:
                found.append((int(match[2]), int(match[3]), name))
        return [name for _, _, name in sorted(found, reverse=True)]

    def save(self, snapshot: Snapshot) -> Path:
        """Make a snapshot durable, and drop all but the newest few."""
        self._disk.make_folder(self._folder)
        name = (
            f"snapshot-{self._kind}-{max(snapshot.last_offset, 0):020d}"
            f"-{max(snapshot.last_timestamp_ms, 0)}.bin"
        )
        replace_file(self._disk, self._folder / name, snapshot.encode())
        for old in self._names()[KEPT:]:
            self._disk.remove(self._folder / old)
        return self._folder / name

    def load(self, log_end: int) -> Snapshot | None:
        """The newest snapshot that is whole and does not reach past the end of the log."""
        self.damaged = []
        for name in self._names():
            file = self._disk.open(self._folder / name, write=False)
            try:
                snapshot = Snapshot.decode(file.read(0, file.size()))
            finally:
                file.close()
            if snapshot is None or snapshot.kind != self._kind:
                self.damaged.append(name)
            elif snapshot.last_offset < log_end:
                return snapshot
        return None


def snapshot_due(records_since: int, ms_since: int) -> bool:
    """Whether enough has changed since the last snapshot to take another."""
    return records_since >= RECORDS_BETWEEN or (records_since > 0 and ms_since >= MS_BETWEEN)
