"""Which offsets the lines of a trace file are about, so that a search opens few of the files.

Events of neighbouring messages are written at about the same time: a file holds a narrow range of
the offsets of each partition. The ranges are found by reading a file once, and remembered; of the
file that is being written, only what was added since is read.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

_MAX_PARTITIONS: Final = 1000
"""Of one file. A file with more of them is searched each time."""


class Where(msgspec.Struct, frozen=True, gc=False):
    """As much of an entry as tells which messages it is about."""

    topic: str = ""
    partition: int = -1
    offset: int = -1
    count: int = 1
    place: str = ""
    trace: str = ""

    def holds(self, offset: int) -> bool:
        """Whether it is about the message at an offset."""
        return self.offset <= offset < self.offset + self.count


_DECODER: Final = msgspec.json.Decoder(Where)


def where_of(line: bytes) -> Where | None:
    """What a line is about; None when it is no entry."""
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


class Partition(NamedTuple):
    """A partition, as lines name it."""

    topic: str
    number: int


class FileRanges:
    """The ranges of one file, by partition and by place; it only grows."""

    __slots__ = ("_ranges", "_read_to", "_size")

    def __init__(self) -> None:
        self._ranges: dict[Partition | str, tuple[int, int]] | None = {}
        """From the lowest offset to behind the highest; None when there are too many."""
        self._read_to = 0
        """The end of the last whole line that was read."""
        self._size = 0

    def read(self, data: bytes) -> None:
        """Learn what was added to a file since it was read last."""
        if len(data) < self._size:  # another file under the same name
            self._ranges, self._read_to = {}, 0
        self._size = len(data)
        end = data.rfind(b"\n") + 1
        if self._ranges is None or end <= self._read_to:
            return
        for line in data[self._read_to : end].splitlines():
            where = where_of(line)
            if where is not None and where.offset >= 0:
                self._add(where)
        self._read_to = end
        if len(self._ranges) > 2 * _MAX_PARTITIONS:
            self._ranges = None

    def _add(self, where: Where) -> None:
        assert self._ranges is not None
        first, end = where.offset, where.offset + where.count
        for key in (where.place, Partition(where.topic, where.partition)):
            known = self._ranges.get(key)
            if known is None:
                self._ranges[key] = (first, end)
            elif first < known[0] or end > known[1]:
                self._ranges[key] = (min(first, known[0]), max(end, known[1]))

    def may_hold(self, key: Partition | str, offset: int) -> bool:
        """Whether the file may have lines about a message."""
        if self._ranges is None:
            return True
        first, end = self._ranges.get(key, (0, 0))
        return first <= offset < end
