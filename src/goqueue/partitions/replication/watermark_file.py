"""How far each partition was committed, kept for the next start: one file a node.

The next start begins with these watermarks instead of zero, so that readers need not wait for the
leader to commit everything anew. They are never where a log is cut: that is found by epochs. A log
that ends below its watermark has lost something. A file that cannot be read counts as none.
"""

from __future__ import annotations

import logging
import struct
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import DiskError
from goqueue.records.checksum import crc32c
from goqueue.runtime.disk import Disk, read_file, replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)

FILE: Final = "high-watermarks"
_HEADER: Final = struct.Struct(">4sHI")
"""Magic, version, and the CRC-32C of the MessagePack map that follows."""
_MAGIC: Final = b"GQHW"
_VERSION: Final = 1


class WatermarkFile:
    """The watermarks of all partitions of this node, by the keys of their records."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._saved: Mapping[str, int] = {}

    def load(self) -> dict[str, int]:
        """What the file says; nothing when there is none that can be read. In any thread."""
        try:
            if not self._disk.exists(self._path):
                return {}
            data = read_file(self._disk, self._path)
        except DiskError as error:
            logger.warning(
                "reading high watermarks from %s failed, starting without them: %s",
                self._path,
                error,
            )
            return {}
        found = _decoded(data)
        if found is None:
            logger.warning(
                "%s is damaged: high watermarks are computed again from the replicas", self._path
            )
            return {}
        return found

    def save(self, watermarks: Mapping[str, int]) -> None:
        """Replace the file, durably, if there is something new; in any thread.

        Raises:
            DiskError: the disk refused; the file is as it was.
        """
        if watermarks == self._saved:
            return
        body = msgspec.msgpack.encode(watermarks)
        replace_file(self._disk, self._path, _HEADER.pack(_MAGIC, _VERSION, crc32c(body)) + body)
        self._saved = dict(watermarks)


def _decoded(data: bytes) -> dict[str, int] | None:
    if len(data) < _HEADER.size:
        return None
    magic, version, checksum = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    if magic != _MAGIC or version != _VERSION or crc32c(body) != checksum:
        return None
    try:
        return msgspec.msgpack.decode(body, type=dict[str, int])
    except msgspec.DecodeError:
        return None
