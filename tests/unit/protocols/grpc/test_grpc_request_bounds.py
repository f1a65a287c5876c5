"""Requests are counted before they are parsed, and the count agrees with the parser."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, strategies as st

from goqueue.protocols.grpc.errors import InvalidRequestError
from goqueue.protocols.grpc.limits import MAX_ELEMENTS
from goqueue.protocols.grpc.request_bounds import _MAX_IN_ONE, BoundedParser, Walk
from goqueue.runtime.tasks import Turns
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

EMPTY_MESSAGE = b"\x12\x00"
TWO_MILLION = 2_000_000


def parse(kind: type, data: bytes) -> object:
    parser = BoundedParser(kind, Turns())
    found = [parser.parse_quickly(data)]

    async def slowly() -> None:
        found[0] = await parser.parse(data)

    if found[0] is None:
        asyncio.run(slowly())
    return found[0]


def counted(kind: type, data: bytes) -> int:
    walk = Walk(data, BoundedParser(kind, Turns())._shape)
    while not walk.advance(7):
        pass
    return walk.element_count


def in_columns(values: bytes) -> bytes:
    size = len(values)
    return bytes([0x32, size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14 & 0x7F | 0x80]) + (
        bytes([size >> 21]) + values
    )


@pytest.mark.parametrize(
    "data",
    [
        EMPTY_MESSAGE * TWO_MILLION,
        b"\x92\x00\x00" * 1_000_000,  # a tag written with a byte more than it needs
        in_columns(EMPTY_MESSAGE * 1_500_000),
        EMPTY_MESSAGE * (MAX_ELEMENTS + 1),
    ],
    ids=["empty messages", "long tags", "empty values in columns", "one too many"],
)
def test_too_many_elements_are_refused_before_they_are_parsed(data):
    with pytest.raises(InvalidRequestError, match="elements"):
        parse(pb.PublishRequest, data)


def test_headers_of_one_message_count_as_well():
    message = pb.NewMessage(headers=[pb.Header()] * (MAX_ELEMENTS + 1))
    request = pb.PublishRequest(messages=[message])
    with pytest.raises(InvalidRequestError, match="elements"):
        parse(pb.PublishRequest, request.SerializeToString())


def test_numbers_in_a_row_count_by_their_bytes():
    request = pb.ResetOffsetsRequest(partitions=range(MAX_ELEMENTS + 1))
    with pytest.raises(InvalidRequestError, match="elements"):
        parse(pb.ResetOffsetsRequest, request.SerializeToString())


def test_values_that_look_like_many_elements_are_taken():
    values = [EMPTY_MESSAGE * 1_000_000, b"\x1a\x00" * 500_000]
    request = pb.PublishRequest(topic="t", messages=[pb.NewMessage(value=v) for v in values])
    assert parse(pb.PublishRequest, request.SerializeToString()) == request


def test_as_many_elements_as_are_allowed_are_taken():
    value = bytes(range(256)) * 10  # so that the request is walked over
    headers = [pb.Header(name="h")] * 3
    message = pb.NewMessage(value=value, headers=headers)
    messages = [message] * 1000 + [pb.NewMessage(headers=headers)] * (_MAX_IN_ONE - 1000)
    request = pb.PublishRequest(messages=messages)
    assert parse(pb.PublishRequest, request.SerializeToString()) == request


def test_what_is_no_message_is_refused_with_its_kind():
    with pytest.raises(InvalidRequestError, match=r"goqueue\.v1\.PublishRequest"):
        parse(pb.PublishRequest, b"\x0a\xff")


messages = st.builds(
    pb.NewMessage,
    key=st.none() | st.binary(max_size=20),
    value=st.none() | st.binary(max_size=300),
    headers=st.lists(st.builds(pb.Header, name=st.text(max_size=5)), max_size=4),
    delay_ms=st.integers(0, 1 << 40),
)


@given(st.lists(messages, max_size=20), st.integers(0, 1 << 63))
def test_the_walk_counts_what_the_parser_makes(sent, correlation_id):
    request = pb.PublishRequest(topic="topic", messages=sent, correlation_id=correlation_id)
    expected = len(sent) + sum(len(each.headers) for each in sent)
    assert counted(pb.PublishRequest, request.SerializeToString()) == expected


@given(st.binary(max_size=400))
def test_damaged_requests_are_walked_to_their_end(data):
    assert counted(pb.PublishRequest, data) >= 0
