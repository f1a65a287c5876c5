"""One bad record costs itself, or what follows it in its batch, and never what comes before."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from crc32c import crc32c
from hypothesis import given, strategies as st

from goqueue.records import HEADER_BYTES, Compression, Record
from goqueue.records.compression import compress
from goqueue.records.salvage import _MAX_FAULTS, Fault
from unit.records.record_strategies import CODECS, REFERENCE, compressions, record_lists

if TYPE_CHECKING:
    from goqueue.records.codec import Codec

each_codec = pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)


def _pieces(records: list[Record]) -> list[bytearray]:
    """Each record as it lies in its batch, with its length before it."""
    base = records[0].timestamp_ms
    return [
        REFERENCE.encode([each], base_offset=0, base_timestamp=base)[HEADER_BYTES:]
        for each in records
    ]


def _batch(records: list[Record], pieces: list[Any], compression: Compression) -> bytes:
    """A batch with the header of these records and the section of those pieces, sealed."""
    return _sealed(records, compress(compression, b"".join(pieces)), compression)


def _sealed(records: list[Record], section: Any, compression: Compression) -> bytes:
    batch = REFERENCE.encode(records)[:HEADER_BYTES] + section
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, 21, compression)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return bytes(batch)


def _garble(piece: bytearray) -> None:
    """Leave the length as it is; what it is the length of is no record."""
    start = next(at for at, byte in enumerate(piece) if byte < 0x80) + 1
    piece[start:] = b"\xff" * (len(piece) - start)


def _ranges(offsets: list[int]) -> list[tuple[int, int]]:
    return [(each, each + 1) for each in offsets]


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for first, end in ranges:
        if found and found[-1][1] == first:
            found[-1] = (found[-1][0], end)
        else:
            found.append((first, end))
    return found


def _faults(faults: list[Fault]) -> list[tuple[int, int]]:
    assert all(each.reason for each in faults)
    return [(each.first, each.end) for each in faults]


@each_codec
@given(record_lists(dense=True, min_size=1), st.sets(st.integers(0, 5)), compressions)
def test_records_around_those_that_do_not_decode_are_read(
    codec: Codec, records: list[Record], bad: set[int], compression: Compression
) -> None:
    pieces = _pieces(records)
    bad = {each for each in bad if each < len(records)}
    for each in bad:
        _garble(pieces[each])
    found = codec.decode_readable(_batch(records, pieces, compression))
    assert found.records == [each for each in records if each.offset not in bad]
    assert _faults(found.faults) == _joined(_ranges(sorted(bad)))


@each_codec
@given(record_lists(dense=True, min_size=1), st.data())
def test_a_length_that_leads_nowhere_costs_the_rest_of_the_batch(
    codec: Codec, records: list[Record], data: Any
) -> None:
    pieces = _pieces(records)
    at = data.draw(st.integers(0, len(records) - 1))
    garbage = data.draw(st.binary(min_size=7 * len(records), max_size=7 * len(records) + 20))
    pieces[at] = bytearray(b"\xff" * 5 + garbage)
    found = codec.decode_readable(_batch(records, pieces, Compression.NONE))
    assert found.records == records[:at]
    assert _faults(found.faults) == [(at, len(records))]


@each_codec
@given(st.binary(max_size=200), st.integers(1, 30), compressions)
def test_garbage_is_never_an_error(
    codec: Codec, garbage: bytes, count: int, compression: Compression
) -> None:
    records = [Record(at, 0, None, None) for at in range(count)]
    found = codec.decode_readable(_sealed(records, garbage, compression))
    covered = [(each.offset, each.offset + 1) for each in found.records]
    assert _joined(sorted([*covered, *_faults(found.faults)])) == [(0, count)]


@each_codec
def test_what_does_not_decompress_is_lost_as_a_whole(codec: Codec) -> None:
    batch = _sealed([Record(0, 0, None, b"v")], b"garbage", Compression.ZSTD)
    found = codec.decode_readable(batch)
    assert found.records == []
    assert _faults(found.faults) == [(0, 1)]


@each_codec
def test_a_batch_in_which_too_many_records_are_bad_is_not_searched_to_the_end(
    codec: Codec,
) -> None:
    records = [Record(at, 0, None, b"v") for at in range(100)]
    pieces = _pieces(records)
    for at in range(0, 100, 2):
        _garble(pieces[at])
    found = codec.decode_readable(_batch(records, pieces, Compression.NONE))
    assert len(found.records) == _MAX_FAULTS
    assert _faults(found.faults)[-1] == (2 * _MAX_FAULTS, 100)


@each_codec
def test_a_bad_record_in_a_large_batch_costs_one_record(codec: Codec) -> None:
    records = [Record(at, 0, None, b"%d" % at) for at in range(5000)]
    pieces = _pieces(records)
    _garble(pieces[3210])
    found = codec.decode_readable(_batch(records, pieces, Compression.LZ4))
    assert len(found.records) == 4999
    assert _faults(found.faults) == [(3210, 3211)]


@each_codec
def test_a_compacted_batch_loses_what_is_behind_the_first_bad_record(codec: Codec) -> None:
    records = [Record(at, 0, b"k", b"v") for at in (2, 5, 9)]
    pieces = [
        REFERENCE.encode([each], base_offset=0, base_timestamp=0)[HEADER_BYTES:] for each in records
    ]
    _garble(pieces[1])
    batch = bytearray(REFERENCE.encode(records, base_offset=0)[:HEADER_BYTES] + b"".join(pieces))
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    found = codec.decode_readable(bytes(batch))
    assert [each.offset for each in found.records] == [2]
    assert _faults(found.faults) == [(3, 10)]
