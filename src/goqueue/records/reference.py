"""The readable codec of the records section; `_native.c` does the same in C.

```
record  length varint | attributes i8 | timestamp delta varlong | offset delta varint
        | key length varint, key | value length varint, value | header count varint, headers
header  name length varint, name | value length varint, value
```

Varints are zigzag. Length -1 is null, which a header's name may not be. A record is cut out of
the section before it is parsed, so a read past its end is an `IndexError`, never its neighbour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import (
    BatchTooLargeError,
    MalformedHeadersError,
    MalformedRecordError,
)
from goqueue.records.columns import build_columns
from goqueue.records.encoding import (
    VarintRangeError,
    encode_headers,
    encode_record,
    read_varint,
)
from goqueue.records.record import Headers, Record
from goqueue.records.section import (
    I32_MAX,
    I64_MAX,
    I64_MIN,
    LEAST_HEADER_BYTES,
    ColumnBuffers,
    Section,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


# --- Encoding ----------------------------------------------------------------------------------


def encode_records(
    records: Sequence[Record], base_offset: int, base_timestamp: int, room: int, /
) -> tuple[bytearray, int]:
    """See `SectionCodec.encode_records`."""
    output = bytearray(room)
    max_timestamp = _check_timestamps(records, base_timestamp)
    previous = base_offset - 1
    for offset, timestamp, key, value, headers in records:
        if not previous < offset <= base_offset + I32_MAX:
            raise MalformedRecordError(
                f"offset {offset} after {previous} in a batch that starts at {base_offset}"
            )
        previous = offset
        output += encode_record(
            timestamp - base_timestamp, offset - base_offset, key, value, headers
        )
    return output, max_timestamp


def _check_timestamps(records: Sequence[Record], base_timestamp: int) -> int:
    """The largest timestamp, once it is sure that all of them and their deltas fit."""
    if not records:
        return base_timestamp
    timestamps = [record[1] for record in records]
    least, largest = min(timestamps), max(timestamps)
    if (
        min(least, least - base_timestamp) < I64_MIN
        or max(largest, largest - base_timestamp) > I64_MAX
    ):
        raise MalformedRecordError(
            f"timestamps from {least} to {largest} do not fit a batch based at {base_timestamp}"
        )
    return largest


# --- Decoding ----------------------------------------------------------------------------------


def _check_length(length: int, left: int, number: int) -> None:
    if not 0 <= length <= left:
        raise MalformedRecordError(
            f"record {number} says it is {length} bytes long, {left} are left"
        )


def decode_records(section: Section, /) -> list[Record]:
    """See `SectionCodec.decode_records`."""
    data = bytes(section.data)
    rows: list[Record] = []
    position, last_delta = 0, -1
    headers_left = section.max_headers
    try:
        for _ in range(section.record_count):
            length, start = read_varint(data, position)
            position = start + length
            _check_length(length, len(data) - start, len(rows))
            row, last_delta = _decode_record(
                data[start:position], section, last_delta, headers_left
            )
            headers_left -= len(row.headers)
            rows.append(row)
    except (IndexError, VarintRangeError) as error:
        text = f"record {len(rows)} does not parse: {error}"
        raise MalformedRecordError(text).of_records({len(rows): text}) from error
    except (MalformedRecordError, BatchTooLargeError) as error:
        error.of_records({len(rows): str(error)})
        raise
    if position != len(data):
        raise MalformedRecordError(
            f"{len(data) - position} bytes are left after {section.record_count} records"
        )
    return rows


def _decode_record(
    record: bytes, section: Section, last_delta: int, headers_left: int
) -> tuple[Record, int]:
    """One record, and its offset delta, which must be larger than the last one."""
    timestamp_delta, at = read_varint(record, 1, 64)
    offset_delta, at = read_varint(record, at)
    timestamp = section.base_timestamp + timestamp_delta
    if not last_delta < offset_delta <= section.last_offset_delta:
        raise MalformedRecordError(
            f"offset delta {offset_delta} after {last_delta}, at most {section.last_offset_delta}"
        )
    if not I64_MIN <= timestamp <= I64_MAX:
        raise MalformedRecordError(f"timestamp {timestamp} is out of range")
    if section.append_time is not None:
        timestamp = section.append_time
    key, at = _read_bytes(record, at)
    value, at = _read_bytes(record, at)
    header_count, at = read_varint(record, at)
    headers: Headers = ()
    if header_count > (len(record) - at) // LEAST_HEADER_BYTES:
        raise MalformedHeadersError(
            f"{header_count} headers cannot fit into {len(record) - at} bytes"
        )
    if header_count > headers_left:
        raise BatchTooLargeError(
            f"the batch has more than {section.max_headers} headers; send smaller batches"
        )
    if header_count:
        headers, at = _read_headers(record, at, header_count)
    if at != len(record):
        raise MalformedRecordError(f"a record of {len(record)} bytes has {at} bytes of content")
    return Record(section.base_offset + offset_delta, timestamp, key, value, headers), offset_delta


def _read_bytes(record: bytes, at: int) -> tuple[bytes | None, int]:
    """The nullable bytes at `at`. Cut short, they leave a position past the end to fall over."""
    length, at = read_varint(record, at)
    if length >= 0:
        return record[at : at + length], at + length
    if length == -1:
        return None, at
    raise MalformedRecordError(f"a key or value has length {length}")


def _read_headers(record: bytes, at: int, count: int) -> tuple[Headers, int]:
    if count < 0:
        raise MalformedHeadersError(f"a record has {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    try:
        for _ in range(count):
            header, at = _read_header(record, at)
            headers.append(header)
    except (IndexError, VarintRangeError, MalformedRecordError) as error:
        raise MalformedHeadersError(f"header {len(headers)} does not parse: {error}") from error
    if at > len(record):
        raise MalformedHeadersError("the last header ends after its record")
    return tuple(headers), at


def _read_header(record: bytes, at: int) -> tuple[tuple[str, bytes | None], int]:
    name, at = _read_bytes(record, at)
    if name is None:
        raise MalformedHeadersError("a name is null")
    value, at = _read_bytes(record, at)
    return (name.decode("utf-8", "surrogateescape"), value), at


# --- What is built on rows ---------------------------------------------------------------------


def check_records(section: Section, max_value_bytes: int, max_headers_bytes: int, /) -> None:
    """See `SectionCodec.check_records`."""
    for number, row in enumerate(decode_records(section)):
        if row.value is not None and len(row.value) > max_value_bytes:
            text = f"a value of {len(row.value)} bytes; at most {max_value_bytes} are allowed"
            raise BatchTooLargeError(text).of_records({number: text})
        headers_bytes = len(encode_headers(row.headers))
        if headers_bytes > max_headers_bytes:
            text = f"{headers_bytes} bytes of headers; at most {max_headers_bytes} are allowed"
            raise MalformedHeadersError(text).of_records({number: text})


def fill_columns(
    sections: Sequence[Section], from_offset: int, until_offset: int, /
) -> ColumnBuffers:
    """See `SectionCodec.fill_columns`."""
    return build_columns(
        [
            row
            for section in sections
            for row in decode_records(section)
            if from_offset <= row.offset < until_offset
        ]
    )


# --- Cutting -----------------------------------------------------------------------------------


def find_records(
    data: bytes | memoryview, count: int, first: int, end: int, /
) -> tuple[int, int, int]:
    """See `SectionCodec.find_records`."""
    position = start = stop = found = 0
    for index in range(count):
        at = position
        try:
            length, body = read_varint(data, position)
            position = body + length
            if length < 1 or position > len(data):
                raise MalformedRecordError(
                    f"record {index} is malformed: its length is not within the batch"
                )
            record = data[body:position]
            _, delta_at = read_varint(record, 1, 64)
            delta, _ = read_varint(record, delta_at)
        except (IndexError, VarintRangeError):
            raise MalformedRecordError(
                f"record {index} is malformed: its timestamp or offset does not parse"
            ) from None
        if delta >= end:
            break
        if delta >= first:
            start = start if found else at
            found += 1
            stop = position
    return start, stop, found
