"""The summaries of all logs below one folder, in one file.

```
header     magic "GQCB" | version u16
entry      length u32 | crc32c u32 | MessagePack: name of the log and its summary
```

The file is replaced as a whole, so a crash leaves the old or the new one. It saves a start from
scanning, and never holds the only copy of anything: an entry that is damaged ends the reading, and
the logs whose entries were not read are recovered from their own folders.
"""

from __future__ import annotations

import logging
import struct
import threading
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.records.checksum import crc32c
from goqueue.runtime.disk import Disk, read_file, replace_file
from goqueue.storage.checkpoints.checkpoint import Checkpoint, LogSummary
from goqueue.storage.epochs import EpochStart
from goqueue.storage.indexes import Newest

if TYPE_CHECKING:
    from pathlib import Path


logger = logging.getLogger(__name__)

_HEADER: Final = b"GQCB" + struct.pack(">H", 1)
_ENTRY: Final = struct.Struct(">II")


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    """One entry."""

    name: str
    generation: int
    log_start: int
    recovery_point: int
    recovery_segment: int
    recovery_position: int
    gaps_below: int
    clean_below: int
    epochs: tuple[tuple[int, int], ...]
    newest: tuple[int, int]
    created_ms: int
    state: bytes


class CheckpointBook:
    """The newest summary of each log, by the log's name; at most one for each."""

    def __init__(self, disk: Disk, path: Path, root: Path) -> None:
        """Keep the summaries of the logs below `root` in the file `path`."""
        self._disk = disk
        self._path = path
        self._root = f"{root}/"
        self._encoded: dict[str, bytes] = {}
        self._saving = threading.Lock()
        self._is_changed = False
        self.size_bytes = 0
        """Of the file, as it was last saved or read."""

    def load(self) -> dict[str, LogSummary]:
        """What the file says; nothing when there is none.

        A file of another version counts as none: the logs can do without it.
        """
        data = self._read()
        found: dict[str, LogSummary] = {}
        if not data.startswith(_HEADER):
            return found
        at, decoder = len(_HEADER), msgspec.msgpack.Decoder(_Stored)
        while at + _ENTRY.size <= len(data):
            length, checksum = _ENTRY.unpack_from(data, at)
            body = data[at + _ENTRY.size : at + _ENTRY.size + length]
            if crc32c(body) != checksum:
                break
            try:
                stored = decoder.decode(body)
            except msgspec.DecodeError:
                break
            found[stored.name] = _summary(stored)
            self._encoded[stored.name] = data[at : at + _ENTRY.size + length]
            at += _ENTRY.size + length
        if at != len(data):
            logger.warning(
                "%s is damaged at byte %d: the logs that are not in it are scanned",
                self._path,
                at,
            )
        self.size_bytes = len(data)
        return found

    def _read(self) -> bytes:
        return read_file(self._disk, self._path) if self._disk.exists(self._path) else b""

    def name_of(self, folder: Path) -> str:
        """What the log in a folder is called here: its path below the root."""
        return str(folder).removeprefix(self._root)

    def put(self, folder: Path, summary: LogSummary) -> None:
        """Let the next `save` know a log as it is now."""
        name = self.name_of(folder)
        body = msgspec.msgpack.encode(_stored(name, summary))
        self._encoded[name] = _ENTRY.pack(len(body), crc32c(body)) + body
        self._is_changed = True

    def forget(self, folder: Path) -> None:
        """A log is gone, or has a newer checkpoint in its folder."""
        self._is_changed |= self._encoded.pop(self.name_of(folder), None) is not None

    def save(self) -> None:
        """Make all that was put durable, in one file; in any thread.

        Raises:
            DiskError: the disk refused; the file is as it was.
        """
        with self._saving:
            if not self._is_changed:
                return
            self._is_changed = False
            try:
                data = _HEADER + b"".join(tuple(self._encoded.values()))
                replace_file(self._disk, self._path, data)
            except BaseException:
                self._is_changed = True
                raise
            self.size_bytes = len(data)


def _stored(name: str, summary: LogSummary) -> _Stored:
    point = summary.checkpoint
    return _Stored(
        name,
        summary.generation,
        point.log_start,
        point.recovery_point,
        point.recovery_segment,
        point.recovery_position,
        point.gaps_below,
        point.clean_below,
        point.epochs,
        summary.newest,
        summary.created_ms,
        summary.state,
    )


def _summary(stored: _Stored) -> LogSummary:
    point = Checkpoint(
        stored.log_start,
        stored.recovery_point,
        stored.recovery_segment,
        stored.recovery_position,
        stored.gaps_below,
        stored.clean_below,
        tuple(EpochStart(*start) for start in stored.epochs),
        stored.generation,
    )
    newest = Newest(*stored.newest)
    return LogSummary(stored.generation, point, newest, stored.created_ms, stored.state)
