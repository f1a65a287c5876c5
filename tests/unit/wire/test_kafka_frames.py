from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.errors import FrameTooLargeError
from goqueue.wire.kafka.frames import FrameReader


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


@given(
    bodies=st.lists(st.binary(max_size=40), max_size=12),
    cuts=st.lists(st.integers(0, 500), max_size=30),
    eager=st.lists(st.booleans(), min_size=40, max_size=40),
)
def test_frames_come_out_as_they_went_in_however_the_stream_is_cut(bodies, cuts, eager):
    stream = b"".join(map(framed, bodies))
    edges = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    reader, out, fed = FrameReader(), [], 0
    for turn, (start, stop) in enumerate(pairwise(edges)):
        reader.feed(stream[start:stop])
        fed += stop - start
        # Some turns take nothing, as when a request may not start yet.
        while eager[turn] and (frame := reader.next_frame(1000, 1000)) is not None:
            out.append(frame)
        assert reader.buffered_bytes == fed - sum(4 + len(frame) for frame in out)
    while (frame := reader.next_frame(1000, 1000)) is not None:
        out.append(frame)
    assert [bytes(frame) for frame in out] == bodies
    assert reader.frame_count == len(bodies)
    assert reader.buffered_bytes == 0


@given(
    bodies=st.lists(st.binary(max_size=40), max_size=12),
    cuts=st.lists(st.integers(0, 500), max_size=30),
)
def test_frames_may_be_used_where_they_lie(bodies, cuts):
    stream = memoryview(b"".join(map(framed, bodies)))
    edges = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    reader, out, looked_at = FrameReader(), [], []
    for start, stop in pairwise(edges):
        data = stream[start:stop]
        missing = reader.missing_bytes
        if missing is not None and missing <= len(data):
            out.append(bytes(reader.completed(data[:missing])[4:]))
            reader.clear()
            data = data[missing:]
        reader.feed(data)
        arrived, at = reader.arrived, 0
        while arrived and len(arrived) - at >= 4:
            end = at + 4 + struct.unpack_from(">i", arrived, at)[0]
            if end > len(arrived):
                break
            out.append(bytes(arrived[at + 4 : end]))
            at = end
        if at:
            looked_at.append(arrived)  # whoever still looks at it does no harm
        reader.skip(at)
        while (frame := reader.next_frame(1000, 1000)) is not None:
            out.append(bytes(frame))  # of which only a part of its length had arrived
    assert out == bodies
    assert reader.buffered_bytes == 0


@given(body=st.binary(max_size=20), cut=st.integers(0, 30))
def test_every_frame_is_a_writable_buffer_of_its_own(body, cut):
    reader = FrameReader()
    stream = framed(body) + framed(body)
    reader.feed(stream[:cut])
    first = reader.next_frame(100, 100)
    reader.feed(stream[cut:])
    first = reader.next_frame(100, 100) if first is None else first
    second = reader.next_frame(100, 100)
    assert not first.readonly
    assert not second.readonly
    first[:] = bytes(len(body))
    assert bytes(second) == body


@pytest.mark.parametrize("size", [-1, -(2**31), 101, 2**31 - 1])
@pytest.mark.parametrize("pieces", [1, 4])
def test_a_length_outside_the_bounds_is_refused_before_its_bytes_arrive(size, pieces):
    reader = FrameReader()
    prefix = struct.pack(">i", size)
    step = len(prefix) // pieces
    for at in range(0, 4 - step, step):
        reader.feed(prefix[at : at + step])
        assert reader.next_frame(100, 100) is None
    reader.feed(prefix[4 - step :])
    with pytest.raises(FrameTooLargeError):
        reader.next_frame(100, 100)


@pytest.mark.parametrize("arrived", [6, 20])
def test_a_long_frame_of_an_api_without_data_is_refused_before_it_has_arrived(arrived):
    reader = FrameReader()
    join_group = struct.pack(">ih", 200, ApiKey.JOIN_GROUP) + bytes(14)
    reader.feed(join_group[:arrived])
    with pytest.raises(FrameTooLargeError, match="API 11"):
        reader.next_frame(1000, 100)


def test_a_long_produce_frame_is_read():
    reader = FrameReader()
    produce = struct.pack(">ih", 200, ApiKey.PRODUCE) + bytes(198)
    for at in range(0, len(produce), 5):
        assert reader.next_frame(1000, 100) is None
        reader.feed(produce[at : at + 5])
    frame = reader.next_frame(1000, 100)
    assert frame is not None
    assert bytes(frame) == produce[4:]
    assert reader.buffered_bytes == 0
