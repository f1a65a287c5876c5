"""Walk the batches of a segment file and tell good ones from damage.

A batch's checksum covers all but its first 17 bytes. The rest is checked against what the log
knows: the base offset continues the batch before, the epoch is the one that led at that offset,
the length leads to a checksum that fits, the magic is 2. So every flipped bit is found.

Damage never hides what follows it: the scanner looks for the next place where a whole, intact
batch starts that continues the log, and goes on there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import BatchError
from goqueue.model.tuples import NamedTuple
from goqueue.records.batch import HEADER_BYTES, BatchInfo, peek, peek_header, validate
from goqueue.storage.epochs import LeaderEpochs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.runtime.disk import DiskFile

READ_BYTES: Final = 1024 * 1024
READ_NEAR_BYTES: Final = 16 * 1024
"""Enough for a search that begins at an index entry."""
ANY_OFFSET: Final = 1 << 63
"""As `Context.gaps_below`: gaps between batches are expected everywhere."""
MAGIC_AT: Final = 16
_MAGIC_BYTE: Final = b"\x02"


class BatchPosition(NamedTuple):
    """Where a batch is."""

    position: int
    base_offset: int
    next_offset: int
    size_bytes: int


class IntactBatch(NamedTuple):
    """An intact batch."""

    position: int
    info: BatchInfo

    @property
    def place(self) -> BatchPosition:
        """Where it is, without what else its header says."""
        info = self.info
        return BatchPosition(self.position, info.base_offset, info.next_offset, info.size_bytes)


class Damage(NamedTuple):
    """A stretch of the file that holds no intact batch, and the offsets that are lost with it."""

    position: int
    end: int
    first_offset: int
    resume_at: int | None
    """The base offset of the intact batch after it; None when nothing intact follows."""
    reason: str


class Context(msgspec.Struct, frozen=True):
    """What the log knows about the batches that a scan will meet."""

    end_offset: int | None = None
    """No batch reaches this (the next segment starts here)."""

    gaps_below: int = 0
    """Below this offset a batch may start later than the one before it ended."""

    epochs: LeaderEpochs | None = None
    """The epoch of each offset; None when the table itself has to be built."""

    def up_to(self, end_offset: int | None) -> Context:
        """The same in a segment that ends there."""
        return msgspec.structs.replace(self, end_offset=end_offset)

    def objection(self, info: BatchInfo, next_offset: int, *, exact: bool = True) -> str | None:
        """Why a batch whose checksum fits is nevertheless not the one that belongs here."""
        base = info.base_offset
        if base != next_offset and (base < next_offset or (exact and base >= self.gaps_below)):
            return f"offset {base} where {next_offset} was expected"
        if self.end_offset is not None and info.next_offset > self.end_offset:
            return f"offset {info.last_offset} lies past the end, {self.end_offset}"
        if self.epochs is not None and info.leader_epoch != self.epochs.epoch_at(base):
            leading = self.epochs.epoch_at(base)
            return f"leader epoch {info.leader_epoch} at offset {base}, where {leading} was leading"
        return None


def scan(
    file: DiskFile,
    position: int,
    end: int,
    next_offset: int,
    context: Context,
    *,
    wanted: int | None = None,
    ahead_bytes: int = READ_BYTES,
) -> Iterator[IntactBatch | Damage]:
    """Every intact batch and every stretch of damage between `position` and `end`.

    The file is read in pieces of `ahead_bytes`. The batch that starts at the offset `wanted` may
    be damaged under its checksum: whoever looked for it will read it and check it then. Every other
    batch is checked here, because a damaged header points past its neighbours.
    """
    window = _Window(file, end, ahead_bytes)
    while position < end:
        found = _intact(window, position, next_offset, context, wanted=wanted)
        onwards = position + 1
        if isinstance(found, IntactBatch) and found.info.base_offset > next_offset:
            doubted_until = _doubted_until(window, found, next_offset, context)
            if doubted_until:
                found = f"offset {found.info.base_offset} does not fit the batch behind it"
                onwards = doubted_until
        if isinstance(found, str):
            resume = _resync(window, onwards, next_offset, context)
            if resume is None:
                yield Damage(position, end, next_offset, None, found)
                return
            yield Damage(position, resume.position, next_offset, resume.info.base_offset, found)
            found = resume
        yield found
        next_offset = found.info.next_offset
        position = found.position + found.info.size_bytes


class _Window:
    """A sliding view of a file, so that a scan reads it in large pieces."""

    def __init__(self, file: DiskFile, end: int, ahead_bytes: int) -> None:
        self._file = file
        self._ahead_bytes = ahead_bytes
        self.end = end
        self._start = 0
        self._data = b""

    def at(self, position: int, length: int) -> tuple[bytes, int]:
        """A buffer that holds `length` bytes from `position` (fewer at the end), and where."""
        length = min(length, self.end - position)
        inside = self._start <= position and position + length <= self._start + len(self._data)
        if not inside:
            wanted = min(max(length, self._ahead_bytes), self.end - position)
            self._data = self._file.read(position, wanted)
            self._start = position
        return self._data, position - self._start


def _intact(
    window: _Window,
    position: int,
    next_offset: int,
    context: Context,
    *,
    wanted: int | None = None,
    exact: bool = True,
) -> IntactBatch | str:
    """The batch at `position`, or why it is not one."""
    try:
        info = peek_header(*window.at(position, HEADER_BYTES))
        if info.base_offset != wanted or position + info.size_bytes > window.end:
            data, at = window.at(position, info.size_bytes)
            validate(data, at, peek(data, at))
    except BatchError as error:
        return str(error)
    objection = context.objection(info, next_offset, exact=exact)
    return IntactBatch(position, info) if objection is None else objection


def _doubted_until(window: _Window, found: IntactBatch, next_offset: int, context: Context) -> int:
    """How far the file cannot be believed, when a batch behind a gap is denied by the next; or 0.

    No checksum covers the offset, so where gaps are expected a damaged one looks like a gap. If the
    next batch continues the log as though there were none, the gap was the damage; otherwise it
    could be either of the two, and neither is handed out.
    """
    position = found.position + found.info.size_bytes
    after = _intact(window, position, next_offset, context, exact=False)
    if not isinstance(after, IntactBatch):
        unbounded = context.gaps_below == ANY_OFFSET and context.end_offset is None
        return position if unbounded else 0
    if after.info.base_offset >= found.info.next_offset:
        return 0
    continues = after.info.base_offset == next_offset + found.info.last_offset_delta + 1
    return position if continues else position + after.info.size_bytes


def _resync(
    window: _Window, position: int, next_offset: int, context: Context
) -> IntactBatch | None:
    """The next intact batch at or after `position`, wherever it starts."""
    while position + HEADER_BYTES <= window.end:
        data, at = window.at(position, READ_BYTES)
        if len(data) - at < HEADER_BYTES:
            return None  # the file was cut meanwhile
        magic = data.find(_MAGIC_BYTE, at + MAGIC_AT)
        if magic < 0:
            position += len(data) - at - MAGIC_AT
            continue
        position += magic - MAGIC_AT - at
        found = _intact(window, position, next_offset, context, exact=False)
        if isinstance(found, IntactBatch):
            return found
        position += 1
    return None
