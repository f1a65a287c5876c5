"""Knows what was promised about a log, and judges what is there after a crash."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from goqueue.model.errors import DamagedRangeError
from goqueue.records import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.storage.log import Log


class Stored(NamedTuple):
    """One batch as the log has stamped it."""

    first: int
    end: int
    data: bytes


def split(data: bytes | bytearray) -> list[Stored]:
    """The batches in a buffer."""
    return [
        Stored(info.base_offset, info.next_offset, bytes(data[at : at + info.size_bytes]))
        for at, info in walk(data)
    ]


def readable(log: Log, max_bytes: int = 1 << 20) -> Iterator[Stored]:
    """What a reader gets from the start of the log to its end, going on after damage."""
    offset = log.start_offset
    while offset < log.end_offset:
        try:
            region = log.read(offset, max_bytes)
            if region is None:
                return  # only gaps are left
            chunk = region.load()
        except DamagedRangeError as error:
            offset = _resumed(error, offset)
            continue
        yield from split(chunk.data)
        assert chunk.next_offset > offset
        offset = chunk.next_offset


def _resumed(error: DamagedRangeError, offset: int) -> int:
    assert error.resume_at > offset, f"told to resume at {error.resume_at} from {offset}"
    return error.resume_at


class Oracle:
    """What a log has accepted; `attempts` are appends of which nobody was told the end."""

    def __init__(self) -> None:
        self.batches: list[Stored] = []
        self.attempts: list[Stored] = []
        self.start = 0
        self.flushed = 0

    @property
    def end(self) -> int:
        """The offset that the next append must get."""
        return self.batches[-1].end if self.batches else self.start

    def appended(self, data: bytes | bytearray) -> None:
        """Batches were stamped and accepted."""
        self.batches.extend(split(data))

    def attempted(self, data: bytes | bytearray) -> None:
        """An append was under way when the machine stopped: it may be there, or not."""
        self.attempts.extend(split(data))

    def deleted_before(self, offset: int) -> None:
        """Records below an offset are gone on purpose."""
        self.start = max(self.start, offset)
        self.attempts.extend(batch for batch in self.batches if batch.end <= self.start)
        self.batches = [batch for batch in self.batches if batch.end > self.start]

    def truncated_to(self, end: int) -> None:
        """The tail was cut on purpose."""
        self.attempts.extend(batch for batch in self.batches if batch.end > end)
        self.batches = [batch for batch in self.batches if batch.end <= end]
        self.start = min(self.start, end)
        self.flushed = min(self.flushed, self.end)

    def judge(self, log: Log, *, promised_end: int) -> None:
        """Check a log that was opened again: everything below `promised_end` must be there."""
        log.check_invariants()
        possible = {*self.batches, *self.attempts}
        found = list(readable(log))
        for batch in found:
            assert batch in possible, f"garbage at offset {batch.first}"
        for earlier, later in pairwise(found):
            assert earlier.end <= later.first, "out of order"
        missing = [
            batch
            for batch in self.batches
            if batch.end <= promised_end and batch.end > log.start_offset and batch not in found
        ]
        assert not missing, f"promised and gone: {[(b.first, b.end) for b in missing]}"
        assert log.end_offset >= promised_end, "an offset that was given out would be given again"

    def adopt(self, log: Log) -> None:
        """Take what a crash has left as the truth from now on."""
        self.batches = list(readable(log))
        self.attempts.clear()
        self.start = log.start_offset
        self.flushed = log.flushed_offset

    def batch_at(self, offset: int) -> int:
        """The number of the first batch that ends after `offset`."""
        return bisect_right([batch.end for batch in self.batches], offset)
