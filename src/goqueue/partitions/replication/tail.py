"""The newest batches of a partition in memory: what followers and tailing readers ask for.

Every follower asks for a batch a moment after it was appended, and so does every consumer that
keeps up. From here they get it without a search in the index, a read of the file and a second look
at its checksum. Whatever is not here is read from the log.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from goqueue.model.limits import MAX_TAIL_BYTES, MAX_TAILS_BYTES
from goqueue.model.tuples import NamedTuple
from goqueue.storage.region import Chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENTRY_BYTES: Final = 300
"""What an entry takes beside the bytes of its batch."""
_COMPACTED_FROM: Final = 64
"""The places of dropped entries are given back together, when there are so many of them or more."""


class TailEntry(NamedTuple):
    """One batch, as it is in the log."""

    first_offset: int
    end_offset: int
    data: bytes
    record_count: int


_DROPPED: Final = TailEntry(0, 0, b"", 0)


class TailRegion(NamedTuple):
    """Batches of the tail, as `Region` is a stretch of a file."""

    entries: Sequence[TailEntry]
    length: int

    @property
    def first_offset(self) -> int:
        """The base offset of the first batch."""
        return self.entries[0].first_offset

    @property
    def parts(self) -> list[bytes]:
        """The batches, for whoever can send them without putting them together."""
        return [entry.data for entry in self.entries]

    @property
    def next_offset(self) -> int:
        """Where the next read continues."""
        return self.entries[-1].end_offset

    def load(self) -> Chunk:
        """The batches in one buffer."""
        entries = self.entries
        data = entries[0].data if len(entries) == 1 else b"".join(self.parts)
        return Chunk(data, self.next_offset, sum(entry.record_count for entry in entries))

    def load_cached(self) -> Chunk | None:
        """The same: they are in memory."""
        return self.load()


class TailBudget:
    """What the tails of one node hold together.

    At the bound, the partition that was not appended to for the longest gives up its oldest
    batches: whoever reads it has most likely read them.
    """

    def __init__(self, max_bytes: int = MAX_TAILS_BYTES) -> None:
        self._max_bytes = max_bytes
        self.size_bytes = 0
        self._tails: OrderedDict[Tail, None] = OrderedDict()
        """Those that hold something, the one that was appended to last at the end."""

    def added(self, tail: Tail, size_bytes: int) -> None:
        """A tail has grown."""
        self.size_bytes += size_bytes
        tails = self._tails
        tails[tail] = None
        tails.move_to_end(tail)
        while self.size_bytes > self._max_bytes:
            oldest = next(iter(tails))
            oldest.drop_oldest()

    def removed(self, tail: Tail, size_bytes: int, *, is_empty: bool) -> None:
        """A tail has let go something."""
        self.size_bytes -= size_bytes
        if is_empty:
            self._tails.pop(tail, None)


class Tail:
    """The newest batches of one partition, without a gap between them."""

    def __init__(self, budget: TailBudget, max_bytes: int = MAX_TAIL_BYTES) -> None:
        self._budget = budget
        self._max_bytes = max_bytes
        self._entries: list[TailEntry] = []
        self._first = 0
        """Entries before this one are dropped, and not given back yet."""
        self.size_bytes = 0
        self.start_offset = self.end_offset = 0
        """What it holds; nothing when they are the same."""

    def add(self, entry: TailEntry) -> None:
        """Hold one more batch; the oldest go when there is no room.

        A batch that does not continue the others takes their place.
        """
        if entry.first_offset != self.end_offset:
            self.clear()
        if self.start_offset == self.end_offset:
            self.start_offset = entry.first_offset
        self._entries.append(entry)
        self.end_offset = entry.end_offset
        size_bytes = len(entry.data) + _ENTRY_BYTES
        self.size_bytes += size_bytes
        self._budget.added(self, size_bytes)
        while self.size_bytes > self._max_bytes:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        """Let go the oldest batch."""
        entries, first = self._entries, self._first
        size_bytes = len(entries[first].data) + _ENTRY_BYTES
        self.start_offset = entries[first].end_offset
        entries[first] = _DROPPED  # its place stays for a while, its bytes do not
        self._first = first = first + 1
        if first >= _COMPACTED_FROM and first * 2 >= len(entries):
            del entries[:first]
            self._first = 0
        elif first == len(entries):
            entries.clear()
            self._first = 0
        self.size_bytes -= size_bytes
        self._budget.removed(self, size_bytes, is_empty=not self.size_bytes)

    def clear(self) -> None:
        """Let go everything."""
        size_bytes, self.size_bytes = self.size_bytes, 0
        self._entries.clear()
        self._first = 0
        self.start_offset = self.end_offset
        if size_bytes:
            self._budget.removed(self, size_bytes, is_empty=True)

    def find(self, offset: int, max_bytes: int, until: int) -> TailRegion | None:
        """The batches from the one that holds `offset` on; None when that is not here.

        At least one, also when it is larger than `max_bytes`. Batches that reach past `until` are
        left out, and there may be none then.
        """
        if not self.start_offset <= offset < self.end_offset:
            return None
        entries = self._entries
        at = len(entries) - 1
        if offset < entries[at].first_offset:
            at = bisect_right(entries, offset, self._first, key=_first_of) - 1
        found: list[TailEntry] = []
        length = 0
        for number in range(at, len(entries)):
            entry = entries[number]
            size_bytes = len(entry.data)
            if entry.end_offset > until or (found and length + size_bytes > max_bytes):
                break
            found.append(entry)
            length += size_bytes
        return TailRegion(found, length) if found else None


def _first_of(entry: TailEntry) -> int:
    return entry.first_offset
