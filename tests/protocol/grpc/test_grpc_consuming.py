from __future__ import annotations

import asyncio

import grpc
import pytest

from goqueue.publishing.new_messages import NewMessage
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from support.grpc_node import run


async def fill(node, count, *, topic="t", size=1, **fields):
    values = [b"%d" % number + b"x" * (size - 1) for number in range(count)]
    new = [NewMessage(value, partition=0, **fields) for value in values]
    await node.broker.writer.publish(topic, new)


async def consume(node, **fields):
    """Every response of a stream that ends by itself."""
    call = node.stubs.consume.Consume(pb.ConsumeRequest(topic="t", **fields))
    return [response async for response in call]


async def _drain(call):
    while await call.read() is not grpc.aio.EOF:
        pass


def offsets(responses):
    return [each.offset for response in responses for each in response.messages]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"start": pb.START_EARLIEST}, range(10)),
        ({"start": pb.START_LATEST}, []),
        ({"start": pb.START_OFFSET, "offset": 7}, range(7, 10)),
        ({"start": pb.START_TIMESTAMP, "timestamp_ms": 1005}, range(5, 10)),
        ({"start": pb.START_TIMESTAMP, "timestamp_ms": 5000}, []),
        ({"until_offset": 3}, range(3)),
    ],
)
def test_a_stream_begins_and_ends_where_it_was_told_to(tmp_path, fields, expected):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        for number in range(10):
            await node.broker.writer.publish("t", [NewMessage(b"v", timestamp_ms=1000 + number)])
        assert offsets(await consume(node, until_end=True, **fields)) == list(expected)

    run(tmp_path, scenario)


def test_every_message_names_its_trace(tmp_path):
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"

    async def scenario(node):
        await node.broker.create_topic("t", 1)
        parent = ("traceparent", f"00-{trace_id}-00f067aa0ba902b7-01".encode())
        await fill(node, 1, headers=(parent,))
        await fill(node, 1)
        responses = await consume(node, until_end=True)
        named, own = (each for response in responses for each in response.messages)
        assert named.trace_id == trace_id
        assert len(bytes.fromhex(own.trace_id)) == 16
        assert own.trace_id != trace_id

    run(tmp_path, scenario)


def test_the_first_response_says_where_the_stream_begins(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        await fill(node, 4)
        first, *_ = await consume(node, start=pb.START_OFFSET, offset=2, until_end=True)
        assert (first.next_offset, first.high_watermark, list(first.messages)) == (2, 4, [])

    run(tmp_path, scenario)


def test_messages_come_whole_and_in_portions_of_what_was_asked_for(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        headers = (("a", b"1"), ("b", None))
        await fill(node, 25, key=b"k", headers=headers, timestamp_ms=77)
        responses = await consume(node, until_end=True, max_messages=10)
        assert [len(each.messages) for each in responses if each.messages] == [10, 10, 5]
        one = responses[1].messages[3]
        assert (one.topic, one.partition, one.offset, one.timestamp_ms) == ("t", 0, 3, 77)
        assert (one.key, one.value) == (b"k", b"3")
        assert [(h.name, h.HasField("value"), h.value) for h in one.headers] == [
            ("a", True, b"1"),
            ("b", False, b""),
        ]

    run(tmp_path, scenario)


def test_a_response_never_outgrows_what_grpc_carries(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        for _ in range(12):
            await fill(node, 1, size=900_000)
        assert offsets(await consume(node, until_end=True)) == list(range(12))

    run(tmp_path, scenario)


def test_a_stream_without_an_end_waits_for_what_comes(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        call = node.stubs.consume.Consume(pb.ConsumeRequest(topic="t", max_wait_ms=30_000))
        assert not (await call.read()).messages
        await fill(node, 1)
        response = await asyncio.wait_for(call.read(), 60)
        assert [each.value for each in response.messages] == [b"0"]
        call.cancel()

    run(tmp_path, scenario)


def test_a_quiet_stream_shows_that_it_is_alive(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        call = node.stubs.consume.Consume(pb.ConsumeRequest(topic="t", max_wait_ms=20))
        for _ in range(3):
            response = await asyncio.wait_for(call.read(), 60)
            assert (list(response.messages), response.next_offset) == ([], 0)
        call.cancel()

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"topic": "nowhere"}, grpc.StatusCode.NOT_FOUND, "nowhere"),
        ({"partition": 3}, grpc.StatusCode.NOT_FOUND, "partitions 0 to 0"),
        ({"start": pb.START_OFFSET, "offset": 99}, grpc.StatusCode.OUT_OF_RANGE, "99"),
        ({"start": pb.START_OFFSET, "offset": -1}, grpc.StatusCode.OUT_OF_RANGE, "-1"),
        ({"start": 12}, grpc.StatusCode.INVALID_ARGUMENT, "start"),
        ({"max_messages": 1001}, grpc.StatusCode.INVALID_ARGUMENT, "max_messages"),
        ({"max_wait_ms": 30_001}, grpc.StatusCode.INVALID_ARGUMENT, "max_wait_ms"),
    ],
)
def test_a_request_that_cannot_be_served_says_which_field_is_wrong(tmp_path, fields, code, words):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        call = node.stubs.consume.Consume(pb.ConsumeRequest(**{"topic": "t", **fields}))
        with pytest.raises(grpc.aio.AioRpcError, match=words) as caught:
            await call.read()
        assert caught.value.code() is code

    run(tmp_path, scenario)


def test_a_topic_that_goes_takes_its_readers_along(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        call = node.stubs.consume.Consume(pb.ConsumeRequest(topic="t"))
        await call.read()
        await node.broker.delete_topic("t")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await asyncio.wait_for(_drain(call), 60)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND

    run(tmp_path, scenario)


def test_a_stop_sends_readers_elsewhere_at_once(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        call = node.stubs.consume.Consume(pb.ConsumeRequest(topic="t", max_wait_ms=30_000))
        await call.read()
        await asyncio.wait_for(node.stop_listening(600.0), 60)
        assert await call.code() is grpc.StatusCode.UNAVAILABLE

    run(tmp_path, scenario)
