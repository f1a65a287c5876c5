"""Records as columns: a handful of flat buffers, laid out as Arrow lays them out.

Nothing here knows pyarrow; `goqueue.records.arrow` wraps the buffers without a copy.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from goqueue.model.errors import BatchTooLargeError
from goqueue.model.tuples import NamedTuple
from goqueue.records.section import I32_MAX, ColumnBuffers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from _typeshed import ReadableBuffer

    from goqueue.records.record import Record

Buffer: TypeAlias = "ReadableBuffer"
"""Bytes, and whatever else has a buffer, such as `array` and `pyarrow.Buffer`."""


class BinaryColumn(msgspec.Struct, frozen=True):
    """Entry `i` is `data[ends[i]:ends[i + 1]]`, and null where bit `i` of `validity` is not set."""

    ends: bytes
    data: bytes
    validity: bytes
    null_count: int


class Columns(msgspec.Struct, frozen=True):
    """The records of a run of batches, without an object a record."""

    count: int
    offsets: bytes
    timestamps: bytes
    keys: BinaryColumn
    values: BinaryColumn
    header_count: int
    header_ends: bytes
    """Row `i` has the headers from `header_ends[i]` up to, not including, `header_ends[i + 1]`."""
    header_names: BinaryColumn
    header_values: BinaryColumn
    next_offset: int | None
    """Where to read on: after the last whole batch, or the end asked for. None without a batch."""
    remainder_bytes: int
    """How much of the buffer is the start of a batch that was cut off."""


class BinaryView(NamedTuple):
    """A column of somebody else's: rows `first` to `first + count` of buffers that Arrow laid out.

    `goqueue.records.arrow.to_view` makes one of an array.
    """

    ends: Buffer
    """i32 a row and one more, or i64 if it `is_large`."""
    data: Buffer
    validity: Buffer | None
    """A bit a row; None without nulls."""
    first: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody misses here
    is_large: bool


def wrap_columns(
    buffers: ColumnBuffers, *, next_offset: int | None, remainder_bytes: int
) -> Columns:
    """Name the buffers that a codec filled."""
    count, null_keys, null_values, header_count, null_header_values = buffers[:5]
    offsets, timestamps = buffers[5:7]
    header_ends, name_ends, name_data = buffers[13:16]
    return Columns(
        count=count,
        offsets=offsets,
        timestamps=timestamps,
        keys=BinaryColumn(*buffers[7:10], null_count=null_keys),
        values=BinaryColumn(*buffers[10:13], null_count=null_values),
        header_count=header_count,
        header_ends=header_ends,
        header_names=BinaryColumn(name_ends, name_data, b"", null_count=0),
        header_values=BinaryColumn(*buffers[16:19], null_count=null_header_values),
        next_offset=next_offset,
        remainder_bytes=remainder_bytes,
    )


# --- The reference way to fill them, from rows -------------------------------------------------


def build_columns(rows: Sequence[Record]) -> ColumnBuffers:
    """The buffers of rows that are there already."""
    headers = [header for row in rows for header in row.headers]
    keys = [row.key for row in rows]
    values = [row.value for row in rows]
    header_values = [value for _, value in headers]
    names = [_as_utf8(name) for name, _ in headers]
    return (
        len(rows),
        keys.count(None),
        values.count(None),
        len(headers),
        header_values.count(None),
        array("q", [row.offset for row in rows]).tobytes(),
        array("q", [row.timestamp_ms for row in rows]).tobytes(),
        *_binary(keys),
        *_binary(values),
        _ends(len(row.headers) for row in rows),
        *_binary(names)[:2],
        *_binary(header_values),
    )


def _as_utf8(name: str) -> bytes:
    """Arrow's strings are UTF-8 to the letter; a name that is not gets replacement characters."""
    try:
        return name.encode()
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()


def _binary(entries: Sequence[bytes | None]) -> tuple[bytes, bytes, bytes]:
    data = b"".join([entry for entry in entries if entry is not None])
    return _ends(len(entry or b"") for entry in entries), data, _validity(entries)


def _ends(lengths: Iterable[int]) -> bytes:
    total = 0
    ends = [0]
    for length in lengths:
        total += length
        ends.append(total)
    if total > I32_MAX:
        raise BatchTooLargeError(
            f"a column of {total} bytes; decode fewer batches at a time, at most {I32_MAX} bytes"
        )
    return array("i", ends).tobytes()


def _validity(entries: Sequence[object]) -> bytes:
    bits = bytearray((len(entries) + 7) // 8)
    for index, entry in enumerate(entries):
        if entry is not None:
            bits[index >> 3] |= 1 << (index & 7)
    return bytes(bits)
