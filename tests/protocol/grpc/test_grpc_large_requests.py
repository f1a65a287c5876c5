"""What is too much for one request is refused as a whole, and nothing of it is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from goqueue.model.limits import MAX_PUBLISHED_MESSAGES
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from support.grpc_node import run

TOO_MANY = MAX_PUBLISHED_MESSAGES + 1
TWO_MILLION_EMPTY = pb.PublishRequest(topic="t").SerializeToString() + b"\x12\x00" * 2_000_000


def as_bytes(node, method):
    return node.channel.unary_unary(f"/goqueue.v1.{method}")


def test_two_million_empty_messages_are_refused_and_none_is_stored(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        publish = as_bytes(node, "PublishService/Publish")
        calls = [publish(TWO_MILLION_EMPTY) for _ in range(8)]
        found: Any = await asyncio.gather(*calls, return_exceptions=True)
        assert {error.code() for error in found} == {grpc.StatusCode.INVALID_ARGUMENT}
        assert all("nothing of this one was done" in error.details() for error in found)
        assert await node.records("t") == []

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "sent",
    [
        {"messages": [pb.NewMessage(value=b"v")] * TOO_MANY},
        {"columns": pb.NewColumns(values=[b"v"] * TOO_MANY)},
    ],
    ids=["messages", "columns"],
)
def test_one_message_too_many_is_refused_and_none_is_stored(tmp_path, sent):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await node.stubs.publish.Publish(pb.PublishRequest(topic="t", **sent))
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert f"{TOO_MANY} messages" in caught.value.details()
        assert await node.records("t") == []

    run(tmp_path, scenario)


def test_as_many_messages_as_are_allowed_are_stored_in_their_order(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        sent = [pb.NewMessage(value=b"%d" % number) for number in range(MAX_PUBLISHED_MESSAGES)]
        response = await node.stubs.publish.Publish(pb.PublishRequest(topic="t", messages=sent))
        assert [each.offset for each in response.results] == list(range(MAX_PUBLISHED_MESSAGES))
        stored = await node.records("t")
        assert [record.value for record in stored] == [each.value for each in sent]

    run(tmp_path, scenario)


def test_a_stream_refuses_the_request_that_is_too_large_and_goes_on(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        large = pb.PublishRequest(
            topic="t", correlation_id=1, messages=[pb.NewMessage(value=b"v")] * TOO_MANY
        )
        small = pb.PublishRequest(topic="t", correlation_id=2, messages=[pb.NewMessage(value=b"s")])
        answers = [each async for each in node.stubs.publish.PublishStream(iter([large, small]))]
        assert [each.correlation_id for each in answers] == [1, 2]
        assert f"{TOO_MANY} messages" in answers[0].error.message
        assert [record.value for record in await node.records("t")] == [b"s"]

    run(tmp_path, scenario)


def test_a_stream_ends_at_what_it_does_not_parse_after_what_came_before_is_answered(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        small = pb.PublishRequest(topic="t", messages=[pb.NewMessage(value=b"s")])
        stream = node.channel.stream_stream("/goqueue.v1.PublishService/PublishStream")
        call = stream(iter([small.SerializeToString(), TWO_MILLION_EMPTY]))
        answer = pb.PublishResponse.FromString(await call.read())
        assert answer.results[0].offset == 0
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert len(await node.records("t")) == 1

    run(tmp_path, scenario)


def test_bytes_that_are_no_request_are_an_invalid_argument(tmp_path, caplog):
    async def scenario(node):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await as_bytes(node, "AckService/Nack")(b"\x0a\xff\xff")
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "goqueue.v1.NackRequest" in caught.value.details()

    run(tmp_path, scenario)
    assert "Traceback" not in caplog.text


def test_a_connection_that_never_speaks_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "goqueue.protocols.grpc.listener._OPTIONS", (("grpc.server_handshake_timeout_ms", 200),)
    )

    async def scenario(node):
        reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
        try:
            async with asyncio.timeout(60):
                while await reader.read(1 << 16):
                    pass
        except ConnectionResetError:
            pass
        writer.close()

    run(tmp_path, scenario)
