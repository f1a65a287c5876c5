"""The two codecs do the same, bit for bit and error for error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from goqueue.model.errors import (
    BatchTooLargeError,
    MalformedBatchError,
    MalformedHeadersError,
    MalformedRecordError,
)
from goqueue.model.limits import MAX_BATCH_BYTES
from goqueue.records import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Compression,
    Record,
    peek,
    stamp,
    validate,
)
from unit.records.record_strategies import (
    CODECS,
    NATIVE,
    REFERENCE,
    compressions,
    outcome,
    payloads,
    record_lists,
    timestamps,
)

if TYPE_CHECKING:
    from goqueue.records.codec import Codec

each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)


@given(record_lists(), compressions)
def test_both_codecs_encode_the_same_bytes(records: list[Record], compression: Compression) -> None:
    assert REFERENCE.encode(records, compression=compression) == NATIVE.encode(
        records, compression=compression
    )


@given(record_lists(), compressions)
def test_both_codecs_decode_what_was_encoded(
    records: list[Record], compression: Compression
) -> None:
    batch = REFERENCE.encode(records, compression=compression)
    assert REFERENCE.decode_rows(batch) == records
    assert NATIVE.decode_rows(batch) == records


@given(st.lists(record_lists(), max_size=3), compressions, st.integers(0, 80))
def test_both_codecs_fill_the_same_columns(
    batches: list[list[Record]], compression: Compression, cut: int
) -> None:
    buffer = b"".join(REFERENCE.encode(records, compression=compression) for records in batches)
    buffer += buffer[:cut]
    columns = outcome(REFERENCE.decode_columns, buffer)
    assert outcome(NATIVE.decode_columns, buffer) == columns


@given(record_lists(min_size=1), st.data())
def test_both_codecs_encode_any_fields_alike(records: list[Record], data: st.DataObject) -> None:
    fields = data.draw(
        st.fixed_dictionaries(
            {},
            optional={
                "attributes": st.integers(0, 127),
                "base_offset": st.integers(-5, 2**40) | st.just(2**63),
                "last_offset_delta": st.integers(-1, 2**31),
                "base_timestamp": timestamps | st.sampled_from([2**63 - 1, -(2**63), 2**63]),
                "max_timestamp": timestamps,
                "producer_epoch": st.integers(-1, 2**15),
            },
        )
    )
    assert outcome(REFERENCE.encode, records, **fields) == outcome(NATIVE.encode, records, **fields)


@given(
    record_lists(),
    st.integers(0, 80),
    st.integers(0, 200),
)
def test_both_codecs_check_the_same_limits(
    records: list[Record], max_value_bytes: int, max_headers_bytes: int
) -> None:
    batch = REFERENCE.encode(records)
    limits = {"max_value_bytes": max_value_bytes, "max_headers_bytes": max_headers_bytes}
    assert outcome(REFERENCE.check_records, batch, **limits) == outcome(
        NATIVE.check_records, batch, **limits
    )


@each_codec
def test_a_record_is_a_record_however_it_was_made(codec: Codec) -> None:
    record = Record(3, 7, b"key", None, (("name", b"value"),))
    (decoded,) = codec.decode_rows(codec.encode([record]))
    assert type(decoded) is Record
    assert decoded == record
    assert hash(decoded) == hash(record)
    assert decoded._replace(value=b"").headers == record.headers


@each_codec
def test_every_field_of_the_header_is_what_was_asked_for(codec: Codec) -> None:
    batch = codec.encode(
        [Record(1005, 50, None, b"a"), Record(1007, 40, None, b"b")],
        compression=Compression.ZSTD,
        attributes=TRANSACTIONAL | DELETE_HORIZON | Compression.GZIP,
        base_offset=1000,
        last_offset_delta=9,
        base_timestamp=30,
        leader_epoch=4,
        producer_id=77,
        producer_epoch=2,
        base_sequence=100,
    )
    info = peek(batch)
    validate(batch, 0, info)
    assert (info.base_offset, info.last_offset, info.next_offset) == (1000, 1009, 1010)
    assert (info.base_timestamp, info.max_timestamp) == (30, 50)
    assert (info.leader_epoch, info.count, info.size_bytes) == (4, 2, len(batch))
    assert (info.producer_id, info.producer_epoch, info.base_sequence) == (77, 2, 100)
    assert info.attributes == TRANSACTIONAL | DELETE_HORIZON | Compression.ZSTD
    assert [(row.offset, row.timestamp_ms) for row in codec.decode_rows(batch)] == [
        (1005, 50),
        (1007, 40),
    ]


@each_codec
def test_log_append_time_is_the_time_of_every_record(codec: Codec) -> None:
    records = [Record(0, 10, None, b"a"), Record(1, 11, None, b"b")]
    batch = codec.encode(records, attributes=LOG_APPEND_TIME, max_timestamp=500)
    assert [row.timestamp_ms for row in codec.decode_rows(batch)] == [500, 500]


@each_codec
def test_a_batch_without_records_keeps_its_place_and_its_producer(codec: Codec) -> None:
    batch = codec.encode(
        [],
        compression=Compression.LZ4,
        base_offset=20,
        last_offset_delta=4,
        producer_id=9,
        producer_epoch=0,
        base_sequence=3,
    )
    info = peek(batch)
    assert (info.count, info.compression, info.last_offset, info.producer_id) == (0, 0, 24, 9)
    assert codec.decode_rows(batch) == []
    assert codec.decode_columns(batch).next_offset == 25


@each_codec
def test_a_stamped_batch_decodes_at_its_place_in_the_log(codec: Codec) -> None:
    buffer = bytearray(b"before") + codec.encode(
        [Record(0, 1, None, b"a"), Record(1, 2, b"k", b"")]
    )
    stamp(buffer, 6, 41, 3)
    validate(buffer, 6, peek(buffer, 6))
    assert [row.offset for row in codec.decode_rows(buffer, 6)] == [41, 42]


@each_codec
@pytest.mark.parametrize("offsets", [(1, 1), (2, 1), (0, 2**31)])
def test_offsets_that_do_not_rise_or_do_not_fit_are_refused(
    codec: Codec, offsets: tuple[int, int]
) -> None:
    records = [Record(offset, 0, None, None) for offset in offsets]
    with pytest.raises((MalformedRecordError, MalformedBatchError)):
        codec.encode(records, last_offset_delta=2**31 - 1)


@each_codec
def test_a_timestamp_too_far_from_the_base_is_refused(codec: Codec) -> None:
    records = [Record(0, -(2**63), None, None), Record(1, 2**63 - 1, None, None)]
    with pytest.raises(MalformedRecordError):
        codec.encode(records)


@each_codec
def test_a_batch_over_the_limit_is_refused(codec: Codec) -> None:
    records = [Record(i, 0, None, bytes(MAX_BATCH_BYTES // 4)) for i in range(4)]
    with pytest.raises(BatchTooLargeError, match=str(MAX_BATCH_BYTES)):
        codec.encode(records, compression=Compression.ZSTD)


@each_codec
@pytest.mark.parametrize(
    "record",
    [
        Record(0, 0, "text", None),  # type: ignore[arg-type]
        Record(0, 0, None, 5),  # type: ignore[arg-type]
        Record(0, 0, None, None, ((b"name", b""),)),  # type: ignore[arg-type]
        Record(0, 0, None, None, (("name", "text"),)),  # type: ignore[arg-type]
        Record(0, 0, None, None, 5),  # type: ignore[arg-type]
    ],
)
def test_a_field_of_another_type_is_a_type_error(codec: Codec, record: Record) -> None:
    with pytest.raises((TypeError, AttributeError)):
        codec.encode([record])


@each_codec
def test_a_value_or_headers_over_their_limit_do_not_pass_the_check(codec: Codec) -> None:
    batch = codec.encode([Record(0, 0, None, b"12345", (("name", b"value"),))])
    codec.check_records(batch, max_value_bytes=5, max_headers_bytes=12)
    with pytest.raises(BatchTooLargeError):
        codec.check_records(batch, max_value_bytes=4)
    with pytest.raises(MalformedHeadersError):
        codec.check_records(batch, max_headers_bytes=11)


@given(payloads)
def test_transaction_markers_are_rows_and_no_column_entries(value: bytes | None) -> None:
    data = REFERENCE.encode([Record(0, 1, b"k", value)])
    marker = REFERENCE.encode(
        [Record(1, 2, b"\x00\x00\x00\x01", bytes(6))], attributes=CONTROL | TRANSACTIONAL
    )
    for codec in CODECS:
        assert len(codec.decode_rows(marker)) == 1
        columns = codec.decode_columns(data + marker)
        assert (columns.count, columns.next_offset) == (1, 2)
