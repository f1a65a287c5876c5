"""A stretch of one segment file, found but not yet read.

Finding is cheap and happens at once; reading may wait for the disk, so it can be handed to a
thread, or to `sendfile`. The file stays open, and its bytes stay as they are, for as long as
somebody holds the region, also when retention or compaction has taken the segment away meanwhile.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from goqueue.model.errors import BatchError, DamagedRangeError, MalformedBatchError
from goqueue.model.tuples import NamedTuple
from goqueue.records.batch import BatchInfo, peek, peek_header, validate
from goqueue.runtime.disk import DiskFile
from goqueue.storage.scan import Context, Damage, scan


class Chunk(NamedTuple):
    """Whole, intact batches in one buffer."""

    data: bytes | bytearray
    next_offset: int
    """Where the next read continues."""
    record_count: int = 0
    """How many records the batches hold."""


class Readable(Protocol):
    """Batches that were found, wherever they are."""

    @property
    def length(self) -> int:
        """How many bytes they take."""

    def load(self) -> Chunk:
        """Give them out; it may wait for the disk. Raises `DamagedRangeError`."""

    def load_cached(self) -> Chunk | None:
        """The same without waiting; None when it would have to. Raises `DamagedRangeError`."""


class Region(msgspec.Struct, frozen=True):
    """`length` bytes from `position`: at least one whole batch; the last may be cut off."""

    file: DiskFile
    position: int
    length: int
    first_offset: int
    """The base offset of the first batch; it may lie below the offset that was asked for."""
    file_end: int
    """How far the file was readable when the region was found."""
    context: Context
    """What the log knows about the batches in it."""

    def load(self) -> Chunk:
        """Read and check the batches; a cut-off last one is left for the next read.

        Raises:
            DamagedRangeError: the first batch is damaged. Damage further on ends the chunk early
                instead, and is raised by the read that starts there.
        """
        return self._checked(self.file.read(self.position, self.length))

    def load_cached(self) -> Chunk | None:
        """Like `load`, but None when the bytes are not in memory: load them in a thread then."""
        data = self.file.read_cached(self.position, self.length)
        return None if data is None else self._checked(data)

    def _checked(self, data: bytes | bytearray) -> Chunk:
        end, next_offset, count = 0, self.first_offset, 0
        try:
            while end < len(data):
                info = peek(data, end)
                validate(data, end, info)
                objection = self.context.objection(info, next_offset)
                if not end and info.base_offset != next_offset:
                    objection = f"offset {info.base_offset} where {next_offset} was found"
                if objection is not None:
                    raise MalformedBatchError(objection)
                if info.base_offset > next_offset and not _confirmed(data, end, info):
                    break
                next_offset = info.next_offset
                count += info.count
                end += info.size_bytes
        except BatchError as error:
            if end == 0:
                raise self._damage(str(error)) from error
        if isinstance(data, bytearray):
            del data[end:]  # cheaper than a copy of what stays
        elif end < len(data):
            data = data[:end]
        return Chunk(data, next_offset, count)

    def _damage(self, reason: str) -> DamagedRangeError:
        """The error that says where reading can go on."""
        items = scan(self.file, self.position, self.file_end, self.first_offset, self.context)
        first = next(items, None)
        resume_at = first.resume_at if isinstance(first, Damage) else None
        if resume_at is None:
            resume_at = self.context.end_offset or self.first_offset + 1
        return DamagedRangeError(self.first_offset, resume_at, reason)


def _confirmed(data: bytes | bytearray, position: int, info: BatchInfo) -> bool:
    """Whether the batch behind one that follows a gap agrees with its offset.

    If not, or if it cannot be seen from here, the next read starts at the gap and looks closer.
    """
    try:
        following = peek_header(data, position + info.size_bytes)
    except BatchError:
        return False
    return following.base_offset >= info.next_offset
