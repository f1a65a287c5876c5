"""Columns hold exactly what the rows of the same batches hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given, strategies as st

from goqueue.model.errors import BatchTooLargeError, ChecksumMismatchError
from goqueue.records import Compression, Record, peek
from goqueue.records.arrow import SCHEMA, to_arrow
from unit.records.record_strategies import CODECS, compressions, record_lists

if TYPE_CHECKING:
    from goqueue.records.codec import Codec

each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)


def as_row(batch: pa.RecordBatch, index: int) -> Record:
    """One row of an Arrow batch, read with nothing of ours."""
    fields: dict[str, Any] = {
        name: batch.column(name)[index].as_py() for name in ("offset", "key", "value", "headers")
    }
    timestamp = batch.column("timestamp").cast(pa.int64())[index].as_py()
    headers = tuple((header["key"], header["value"]) for header in fields["headers"])
    return Record(fields["offset"], timestamp, fields["key"], fields["value"], headers)


def with_valid_names(record: Record) -> Record:
    headers = tuple(
        (name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), value)
        for name, value in record.headers
    )
    return record._replace(headers=headers)


@each_codec
@given(batches=st.lists(record_lists(), max_size=3), compression=compressions)
def test_arrow_shows_the_rows(
    codec: Codec, batches: list[list[Record]], compression: Compression
) -> None:
    buffer = b"".join(codec.encode(records, compression=compression) for records in batches)
    table = to_arrow(codec.decode_columns(buffer))
    table.validate(full=True)
    assert table.schema.equals(SCHEMA)
    rows = [with_valid_names(record) for records in batches for record in records]
    assert [as_row(table, index) for index in range(table.num_rows)] == rows


@each_codec
def test_arrow_has_timestamps_in_utc_and_nulls_where_kafka_has_them(codec: Codec) -> None:
    batch = codec.encode(
        [
            Record(4, 1_700_000_000_123, None, b"", (("a", None), ("a", b"\xff"))),
            Record(5, 0, b"", None),
        ]
    )
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert to_arrow(codec.decode_columns(batch)).to_pylist() == [
        {
            "offset": 4,
            "timestamp": epoch + timedelta(milliseconds=1_700_000_000_123),
            "key": None,
            "value": b"",
            "headers": [{"key": "a", "value": None}, {"key": "a", "value": b"\xff"}],
        },
        {"offset": 5, "timestamp": epoch, "key": b"", "value": None, "headers": []},
    ]


@each_codec
def test_arrow_shares_the_memory_of_the_columns(codec: Codec) -> None:
    columns = codec.decode_columns(codec.encode([Record(0, 0, b"key", b"value")]))
    table = to_arrow(columns)
    for name, data in (("key", columns.keys.data), ("value", columns.values.data)):
        buffer = table.column(name).buffers()[2]
        assert buffer is not None
        assert buffer.address == pa.py_buffer(data).address


@each_codec
@given(
    batches=st.lists(record_lists(min_size=1), max_size=4),
    first=st.integers(0, 25),
    length=st.integers(0, 25),
)
def test_a_range_of_offsets_keeps_exactly_the_rows_within_it(
    codec: Codec, batches: list[list[Record]], first: int, length: int
) -> None:
    end = first + length
    position, rows, buffer = 0, [], b""
    for records in batches:
        moved = [
            record._replace(offset=position + index, headers=())
            for index, record in enumerate(records)
        ]
        position += len(records)
        rows += moved
        buffer += codec.encode(moved)
    table = to_arrow(codec.decode_columns(buffer, from_offset=first, until_offset=end))
    expected = [row for row in rows if first <= row.offset < end]
    assert [as_row(table, index) for index in range(table.num_rows)] == expected


@each_codec
def test_a_batch_cut_off_at_the_end_is_left_for_the_next_read(codec: Codec) -> None:
    whole = codec.encode([Record(0, 0, None, b"a"), Record(1, 0, None, b"b")])
    cut = codec.encode([Record(2, 0, None, b"c")])
    for kept in range(len(cut)):
        columns = codec.decode_columns(whole + cut[:kept])
        assert (columns.count, columns.next_offset, columns.remainder_bytes) == (2, 2, kept)


@each_codec
def test_no_bytes_are_no_rows_and_no_place_to_read_on(codec: Codec) -> None:
    columns = codec.decode_columns(b"")
    assert (columns.count, columns.next_offset, columns.remainder_bytes) == (0, None, 0)
    assert to_arrow(columns).num_rows == 0


@each_codec
def test_reading_on_never_passes_the_end_asked_for(codec: Codec) -> None:
    batch = codec.encode([Record(offset, 0, None, b"") for offset in range(10)])
    assert codec.decode_columns(batch, until_offset=4).next_offset == 4
    assert codec.decode_columns(batch, until_offset=40).next_offset == 10


@each_codec
def test_the_checksum_is_checked_unless_told_not_to(codec: Codec) -> None:
    batch = codec.encode([Record(0, 0, None, b"value")])
    batch[-2] ^= 1
    with pytest.raises(ChecksumMismatchError):
        codec.decode_columns(batch)
    assert codec.decode_columns(batch, check_crc=False).values.data == b"valud"
    with pytest.raises(ChecksumMismatchError):
        codec.decode_rows(batch)
    assert codec.decode_rows(batch, check_crc=False)[0].value == b"valud"


@each_codec
def test_batches_out_of_range_are_not_opened(codec: Codec) -> None:
    good = codec.encode([Record(5, 0, None, b"good")])
    bad = codec.encode([Record(0, 0, None, b"bad")])
    bad[-1] ^= 1
    assert codec.decode_columns(bad + good, from_offset=5).count == 1


@each_codec
def test_more_than_fits_one_chunk_is_refused_before_it_is_built(codec: Codec) -> None:
    batch = codec.encode([Record(0, 0, None, bytes(1000))], compression=Compression.ZSTD)
    records_bytes = len(codec.encode([Record(0, 0, None, bytes(1000))])) - 61
    assert codec.decode_columns(batch * 3, limit_bytes=3 * records_bytes).count == 3
    with pytest.raises(BatchTooLargeError, match="fewer batches"):
        codec.decode_columns(batch * 4, limit_bytes=3 * records_bytes)


@each_codec
@given(raw=st.binary(max_size=12))
@example(raw=b"\xf0\x90\x80")  # as long as what replaces it
def test_any_name_of_a_header_becomes_valid_utf8(codec: Codec, raw: bytes) -> None:
    name = raw.decode("utf-8", "surrogateescape")
    columns = codec.decode_columns(codec.encode([Record(0, 0, None, None, ((name, None),))]))
    assert columns.header_names.data.decode() == raw.decode("utf-8", "replace")


@each_codec
def test_the_columns_of_compacted_batches_keep_their_gaps(codec: Codec) -> None:
    batch = codec.encode(
        [Record(13, 0, b"k", b"v"), Record(19, 0, b"l", b"w")], base_offset=10, last_offset_delta=15
    )
    assert peek(batch).next_offset == 26
    columns = codec.decode_columns(batch)
    assert to_arrow(columns).column("offset").to_pylist() == [13, 19]
    assert columns.next_offset == 26
