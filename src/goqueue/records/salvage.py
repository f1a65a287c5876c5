"""What can be read of a batch whose records do not all decode.

The checksum of a batch says that it is as its producer sent it, not that its producer wrote records
into it. Each record says how long it is, so one that does not decode is stepped over: if the
lengths lead through the whole section, the records behind it count, each at its own offset. If they
do not, everything from the first bad record on is lost.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import BatchError
from goqueue.model.tuples import NamedTuple
from goqueue.records.encoding import VarintRangeError, read_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from goqueue.records.record import Record
    from goqueue.records.section import Section

_MAX_SALVAGED: Final = 200_000
"""Records of one batch that are looked for. What a larger batch holds behind them is lost: the
search must not hold up others."""
_MAX_FAULTS: Final = 16
"""Records of one batch that are stepped over. At one more the rest of the batch is lost."""
_BLOCK: Final = 1000
"""Records that are decoded together, as long as all of them decode."""


class Fault(NamedTuple):
    """Offsets, from the first up to, not including, the second, whose records do not decode."""

    first: int
    end: int
    reason: str


class Readable(NamedTuple):
    """The records of one batch that decode, in order, and what does not."""

    records: list[Record]
    faults: list[Fault]


def salvage(
    section: Section, decode_records: Callable[[Section], list[Record]], reason: str
) -> Readable:
    """Every record of a section that decodes; `reason` is what is wrong with the section."""
    is_dense = section.record_count == section.last_offset_delta + 1
    bounds, is_whole = _bounds(section)
    may_step_over = is_whole and is_dense
    found: list[Record] = []
    faults = headers = 0

    def rows(first: int, end: int) -> list[Record] | None:
        part = section._replace(
            data=memoryview(section.data)[bounds[first] : bounds[end]],
            record_count=end - first,
            max_headers=section.max_headers - headers,
        )
        try:
            decoded = decode_records(part)
        except BatchError:
            return None
        # Offsets that rise, with the first and the last in their places, are all in theirs.
        if is_dense and decoded[0].offset != section.base_offset + first:
            return None
        if is_dense and decoded[-1].offset != section.base_offset + end - 1:
            return None
        return decoded if not found or decoded[0].offset > found[-1].offset else None

    for start in range(0, len(bounds) - 1, _BLOCK):
        end = min(start + _BLOCK, len(bounds) - 1)
        block = rows(start, end)
        if block is not None:
            found += block
            headers += sum(len(row.headers) for row in block)
            continue
        for at in range(start, end):
            row = rows(at, at + 1)
            if row is not None:
                found += row
                headers += len(row[0].headers)
                continue
            faults += 1
            if not may_step_over or faults > _MAX_FAULTS:
                return Readable(found, _faults(section, found, reason, is_dense=is_dense))
    return Readable(found, _faults(section, found, reason, is_dense=is_dense))


def _bounds(section: Section) -> tuple[Sequence[int], bool]:
    """Where records begin and the last one ends, and whether that is the end of the section."""
    data = memoryview(section.data)
    bounds = array("q", [0])
    position = 0
    try:
        for _ in range(min(section.record_count, _MAX_SALVAGED)):
            length, start = read_varint(data, position)
            position = start + length
            if length < 0 or position > len(data):
                return bounds, False
            bounds.append(position)
    except (IndexError, VarintRangeError):
        return bounds, False
    return bounds, len(bounds) == section.record_count + 1 and position == len(data)


def _faults(section: Section, found: list[Record], reason: str, *, is_dense: bool) -> list[Fault]:
    """The offsets of which no record was found. Gaps that compaction left are none of them."""
    end = section.base_offset + section.last_offset_delta + 1
    if not is_dense:
        behind = found[-1].offset + 1 if found else section.base_offset
        missing = [(behind, end)]
    else:
        missing = list(_between(section.base_offset, end, (row.offset for row in found)))
    return [Fault(*each, reason) for each in missing if each[0] < each[1]]


def _between(first: int, end: int, offsets: Iterator[int]) -> Iterator[tuple[int, int]]:
    for offset in offsets:
        if offset > first:
            yield first, offset
        first = offset + 1
    yield first, end
