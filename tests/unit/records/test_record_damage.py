"""Bytes that are not a batch are refused: with a class of their own, alike by both codecs."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING, Any

import pytest
from crc32c import crc32c
from hypothesis import given, strategies as st

from goqueue.model.errors import (
    BatchError,
    ChecksumMismatchError,
    ForeignMagicError,
    MalformedBatchError,
    MalformedHeadersError,
    MalformedRecordError,
    TruncatedBatchError,
    UnknownCompressionError,
)
from goqueue.model.limits import MAX_BATCH_BYTES
from goqueue.records import Compression, Record, peek, validate
from unit.records.record_strategies import (
    CODECS,
    NATIVE,
    REFERENCE,
    compressions,
    outcome,
    record_lists,
)

if TYPE_CHECKING:
    from goqueue.records.codec import Codec

each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)

RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value", (("name", b"header"), ("other", None))),
    Record(1, 1_700_000_000_500, None, b"x" * 70, ()),
    Record(2, 1_600_000_000_000, b"", None, (("\udcff", b""),)),
]


def reseal(batch: bytearray) -> bytearray:
    """Give a changed batch the length and checksum that it would have, had a client sent it."""
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return batch


def with_section(section: bytes, *, count: int = 1, last_offset_delta: int = 10) -> bytearray:
    """A sealed batch around a hand-made records section."""
    batch = REFERENCE.encode([], last_offset_delta=last_offset_delta)
    struct.pack_into(">i", batch, 57, count)
    return reseal(batch + section)


# --- Checksums and lengths ---------------------------------------------------------------------


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("neighbour", [b"", bytes(200)], ids=["alone", "with bytes after it"])
def test_every_flipped_bit_is_found(compression: Compression, neighbour: bytes) -> None:
    batch = REFERENCE.encode(RECORDS, compression=compression)
    buffer = batch + neighbour
    stamped_later = {*range(8), *range(12, 16)}
    for byte in set(range(len(batch))) - stamped_later:
        for bit in range(8):
            buffer[byte] ^= 1 << bit
            with pytest.raises(BatchError):
                validate(buffer, 0, peek(buffer))
            buffer[byte] ^= 1 << bit
    validate(buffer, 0, peek(buffer))


def test_a_flipped_bit_under_the_checksum_is_a_checksum_mismatch() -> None:
    batch = REFERENCE.encode(RECORDS)
    batch[-1] ^= 0x10
    with pytest.raises(ChecksumMismatchError, match="CRC32C"):
        validate(batch, 0, peek(batch))


def test_a_batch_that_ends_early_is_truncated_wherever_it_ends() -> None:
    batch = REFERENCE.encode(RECORDS)
    for length in range(len(batch)):
        with pytest.raises(TruncatedBatchError):
            peek(batch[:length])


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_another_magic_is_a_foreign_format(magic: int) -> None:
    batch = REFERENCE.encode(RECORDS)
    struct.pack_into(">b", batch, 16, magic)
    with pytest.raises(ForeignMagicError, match=str(magic)):
        peek(batch)


@pytest.mark.parametrize("length", [-1, 0, 48, MAX_BATCH_BYTES + 1, 2**31 - 1])
def test_a_length_that_cannot_be_is_malformed(length: int) -> None:
    batch = REFERENCE.encode(RECORDS)
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(MalformedBatchError, match="length"):
        peek(batch)


@each_codec
@pytest.mark.parametrize("number", [5, 6, 7])
def test_a_compression_that_does_not_exist_is_named(codec: Codec, number: int) -> None:
    batch = codec.encode(RECORDS)
    batch[22] |= number
    with pytest.raises(UnknownCompressionError, match=str(number)):
        codec.decode_rows(reseal(batch))


@each_codec
def test_offsets_past_the_last_possible_one_are_malformed(codec: Codec) -> None:
    batch = codec.encode(RECORDS)
    struct.pack_into(">q", batch, 0, 2**63 - 1)
    with pytest.raises(MalformedBatchError, match="offset"):
        codec.decode_rows(batch)


# --- Records that are sealed well and do not parse ---------------------------------------------

# length 7 (varint 0e): attributes, timestamp delta, offset delta, null key, null value, no headers
LEAST = b"\x0c\x00\x00\x00\x01\x01\x00"

BAD_RECORDS = {
    "too many records": (LEAST, 2),
    "bytes left over": (LEAST * 2, 1),
    "no records, and bytes": (LEAST, 0),
    "a negative length": (b"\x01" + LEAST[1:], 1),
    "a length past the end": (b"\x0e" + LEAST[1:], 1),
    "an empty record": (b"\x00" + LEAST, 1),
    "a length shorter than its content": (b"\x0a" + LEAST[1:], 1),
    "a length longer than its content": (b"\x0e" + LEAST[1:] + b"\x00", 1),
    "a key of length -2": (b"\x0c\x00\x00\x00\x03\x01\x00", 1),
    "a value of length -2": (b"\x0c\x00\x00\x00\x01\x03\x00", 1),
    "a key past the record": (b"\x0c\x00\x00\x00\x14\x01\x00", 1),
    "a value past the record": (b"\x0c\x00\x00\x00\x01\x14\x00", 1),
    "a value past the record, into the next": (b"\x0c\x00\x00\x00\x01\x02\x00" + LEAST, 2),
    "an offset delta below zero": (b"\x0c\x00\x00\x01\x01\x01\x00", 1),
    "an offset delta over the batch's": (b"\x0c\x00\x00\x16\x01\x01\x00", 1),
    "an offset delta twice": (LEAST * 2, 2),
    "a varint of six bytes": (b"\x16\x00\x00\x80\x80\x80\x80\x80\x00\x01\x01\x00", 1),
    "a varint of 33 bits": (b"\x14\x00\x00\x80\x80\x80\x80\x10\x01\x01\x00", 1),
    "a varlong of 65 bits": (b"\x1e\x00" + b"\x80" * 9 + b"\x02\x00\x01\x01\x00", 1),
    "a varlong of eleven bytes": (b"\x20\x00" + b"\x80" * 10 + b"\x00\x00\x01\x01\x00", 1),
    "a header count that does not parse": (b"\x0c\x00\x00\x00\x01\x01\x80", 1),
}

BAD_HEADERS = {
    "fewer than no headers": b"\x0c\x00\x00\x00\x01\x01\x01",
    "a header that is not there": b"\x0c\x00\x00\x00\x01\x01\x02",
    "two thousand million headers": b"\x14\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f",
    "a name that is null": b"\x10\x00\x00\x00\x01\x01\x02\x01\x00",
    "a name past the record": b"\x10\x00\x00\x00\x01\x01\x02\x06\x00",
    "a value past the record": b"\x10\x00\x00\x00\x01\x01\x02\x00\x06",
    "a value of length -2": b"\x10\x00\x00\x00\x01\x01\x02\x00\x03",
    "a varint of 33 bits": b"\x18\x00\x00\x00\x01\x01\x02\x80\x80\x80\x80\x10\x00",
}


@each_codec
def test_the_least_record_decodes(codec: Codec) -> None:
    assert codec.decode_rows(with_section(LEAST)) == [Record(0, -1, None, None)]


@each_codec
@pytest.mark.parametrize(("section", "count"), BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_a_record_that_does_not_parse_is_malformed(
    codec: Codec, section: bytes, count: int
) -> None:
    batch = with_section(section, count=count)
    for decode in (codec.decode_rows, codec.decode_columns, codec.check_records):
        with pytest.raises(MalformedRecordError) as caught:
            decode(batch)
        assert caught.type is MalformedRecordError


@each_codec
@pytest.mark.parametrize("section", BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_headers_that_do_not_parse_are_malformed_headers(codec: Codec, section: bytes) -> None:
    for decode in (codec.decode_rows, codec.decode_columns, codec.check_records):
        with pytest.raises(MalformedHeadersError):
            decode(with_section(section))


@each_codec
def test_a_count_that_cannot_be_is_refused_and_not_allocated(codec: Codec) -> None:
    batch = with_section(LEAST, count=2**31 - 1, last_offset_delta=2**31 - 1)
    for decode in (codec.decode_rows, codec.decode_columns):
        with pytest.raises(MalformedRecordError, match="fit"):
            decode(batch)


@each_codec
def test_a_timestamp_out_of_range_is_malformed(codec: Codec) -> None:
    batch = codec.encode([Record(0, 2**63 - 1, None, None)], base_timestamp=0)
    struct.pack_into(">q", batch, 27, 1)
    with pytest.raises(MalformedRecordError, match="timestamp"):
        codec.decode_rows(reseal(batch))


@each_codec
def test_varints_longer_than_they_need_be_are_read(codec: Codec) -> None:
    section = b"\x8e\x80\x00\x00\x00\x80\x00\x01\x01\x00"
    assert codec.decode_rows(with_section(section)) == [Record(0, -1, None, None)]


# --- Fuzz --------------------------------------------------------------------------------------


def outcomes(codec: Codec, batch: bytes | bytearray) -> tuple[Any, Any, Any]:
    return (
        outcome(codec.decode_rows, batch, check_crc=False),
        outcome(codec.decode_columns, batch, check_crc=False),
        outcome(codec.check_records, batch, max_value_bytes=60, max_headers_bytes=30),
    )


@given(st.binary(max_size=60), st.integers(0, 8))
def test_any_bytes_as_records_end_alike(section: bytes, count: int) -> None:
    batch = with_section(section, count=count)
    assert outcomes(REFERENCE, batch) == outcomes(NATIVE, batch)


@given(record_lists(min_size=1), st.data())
def test_damaged_records_end_alike(records: list[Record], data: st.DataObject) -> None:
    batch = REFERENCE.encode(records)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(61, len(batch) - 1))
        batch[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
        if len(batch) == 61:
            break
    reseal(batch)
    assert outcomes(REFERENCE, batch) == outcomes(NATIVE, batch)


@given(record_lists(min_size=1), compressions, st.data())
def test_damaged_batches_end_alike(
    records: list[Record], compression: Compression, data: st.DataObject
) -> None:
    batch = REFERENCE.encode(records, compression=compression)
    batch[data.draw(st.integers(21, len(batch) - 1))] ^= data.draw(st.integers(1, 255))
    reseal(batch)
    assert outcomes(REFERENCE, batch) == outcomes(NATIVE, batch)


def test_ten_thousand_mutations_end_alike() -> None:
    dice = random.Random(20240229)
    whole = REFERENCE.encode(RECORDS * 1, last_offset_delta=400)
    for _ in range(10_000):
        batch = bytearray(whole)
        for _ in range(dice.randint(1, 4)):
            batch[dice.randrange(57, len(batch))] = dice.choice((0, 1, 3, 0x7F, 0x80, 0xFF, 14))
        if dice.random() < 0.2:
            del batch[dice.randrange(61, len(batch)) :]
        reseal(batch)
        assert outcomes(REFERENCE, batch) == outcomes(NATIVE, batch), batch.hex()


@given(st.binary(max_size=200))
def test_any_bytes_as_a_batch_end_alike(raw: bytes) -> None:
    assert outcomes(REFERENCE, raw) == outcomes(NATIVE, raw)
