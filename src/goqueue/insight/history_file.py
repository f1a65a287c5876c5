"""The history on the disk: one file, replaced as a whole every two minutes and at the stop.

It holds at most what the bounds of the lines allow, some 10 MB before compression. A process that
is killed loses the points since the last writing. A damaged file is reported, and the history
begins anew.
"""

from __future__ import annotations

import logging
import struct
import zlib
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.insight.lines import StoredLine
from goqueue.model.errors import StorageError
from goqueue.records.checksum import crc32c
from goqueue.runtime.disk import read_file, replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.runtime.disk import Disk

HISTORY_FILE: Final = "history"
_MAGIC: Final = b"GQHY"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">4sII")
_MAX_STORED_BYTES: Final = 64 * 1024 * 1024
"""Of a file, and of what it holds uncompressed; a larger one counts as damaged."""
_LEVEL: Final = 1
"""Of zlib: most points are zeros, which any level makes small."""

logger = logging.getLogger(__name__)

StoredLines = dict[str, StoredLine]
"""By the name of the value."""


class StoredHistory(msgspec.Struct, frozen=True):
    """All lines of a node, at one moment."""

    at_ms: int
    tick: int
    node: StoredLines
    topics: dict[str, StoredLines]
    groups: dict[str, StoredLines]


class HistoryFile:
    """Reads and writes it; both block."""

    def __init__(self, disk: Disk, folder: Path) -> None:
        self._disk = disk
        self._path = folder / HISTORY_FILE

    def read(self) -> StoredHistory | None:
        """What was written last; None when there is nothing, or nothing that can be used."""
        if not self._disk.exists(self._path):
            return None
        try:
            return _decoded(read_file(self._disk, self._path, _MAX_STORED_BYTES))
        except (StorageError, ValueError, zlib.error, struct.error) as error:
            logger.warning("%s cannot be read (%s): the charts begin anew", self._path, error)
            return None

    def write(self, stored: StoredHistory) -> None:
        """Replace the file. Raises `DiskError` if the disk refuses."""
        body = zlib.compress(msgspec.msgpack.encode(stored), _LEVEL)
        replace_file(self._disk, self._path, _HEADER.pack(_MAGIC, _VERSION, crc32c(body)) + body)


def _decoded(data: bytes) -> StoredHistory:
    magic, version, checksum = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    if magic != _MAGIC or version != _VERSION:
        raise ValueError(f"expected version {_VERSION} of the format, found {magic!r} {version}")
    if crc32c(body) != checksum:
        raise ValueError("its checksum is wrong")
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(body, _MAX_STORED_BYTES)
    if not unpacker.eof:
        raise ValueError(f"it holds more than {_MAX_STORED_BYTES} bytes, or is cut")
    return msgspec.msgpack.decode(content, type=StoredHistory)
