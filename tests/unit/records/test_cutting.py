"""Parts of batches: the records that are meant, as they were, and the same from both codecs."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from goqueue.model.errors import MalformedRecordError
from goqueue.records import Compression, Record, decode_rows, encode, peek, validate
from goqueue.records.batch import HEADER_BYTES
from goqueue.records.choice import load
from goqueue.records.cutting import cut_batch

CODECS = [load("native"), load("reference")]
BASE = 95


@st.composite
def batches(draw):
    """Records with gaps between their offsets, in a batch that begins before the first."""
    records, offset = [], BASE
    for _ in range(draw(st.integers(1, 12))):
        offset += draw(st.integers(1, 4))
        key = draw(st.none() | st.binary(max_size=5))
        value = draw(st.none() | st.binary(max_size=200))
        headers = draw(st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3)), max_size=2))
        records.append(Record(offset, draw(st.integers(0, 10**13)), key, value, tuple(headers)))
    return records


@given(records=batches(), first=st.integers(90, 150), size=st.integers(0, 60))
def test_a_part_has_the_records_that_are_meant_and_a_sound_header(records, first, size):
    batch = memoryview(bytes(encode(records, base_offset=BASE)))
    info = peek(batch)
    part = cut_batch(batch, info, first, first + size)
    if part is batch:
        assert first <= BASE
        assert first + size > info.last_offset
        return
    validate(part, 0, peek(part))
    assert decode_rows(part) == [each for each in records if first <= each.offset < first + size]
    assert len(part) <= len(batch)


@given(records=batches(), first=st.integers(-5, 60), end=st.integers(-5, 60), data=st.data())
def test_both_codecs_find_the_same_records_also_in_damaged_ones(records, first, end, data):
    section = bytearray(encode(records, base_offset=BASE)[HEADER_BYTES:])
    if data.draw(st.booleans()):
        section[data.draw(st.integers(0, len(section) - 1))] = data.draw(st.integers(0, 255))
    found: list[object] = []
    for codec in CODECS:
        try:
            found.append(codec.find_records(bytes(section), len(records), first, end))
        except MalformedRecordError:
            found.append("malformed")
    assert found[0] == found[1]


def test_what_is_compressed_is_left_whole():
    records = [Record(offset, 0, None, b"v" * 100, ()) for offset in range(10)]
    batch = memoryview(bytes(encode(records, compression=Compression.GZIP)))
    assert cut_batch(batch, peek(batch), 3, 5) is batch


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name)
def test_records_that_do_not_parse_are_refused(codec):
    with pytest.raises(MalformedRecordError):
        codec.find_records(b"\x01", 1, 0, 1)
