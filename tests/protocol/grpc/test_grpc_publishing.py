from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from goqueue.protocols.grpc.limits import MAX_IN_FLIGHT
from goqueue.wire.grpc.contract import ERROR_KEY
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from support.grpc_node import run

if TYPE_CHECKING:
    from support.grpc_node import GrpcNode


ODD: Any = 50  # no such value


def messages(*values: bytes, **fields: Any) -> list[pb.NewMessage]:
    return [pb.NewMessage(value=value, **fields) for value in values]


async def publish(node: GrpcNode, *values: bytes, topic: str = "t", **fields: Any):
    request = pb.PublishRequest(topic=topic, messages=messages(*values, **fields))
    return await node.stubs.publish.Publish(request)


def test_a_publish_says_where_each_message_is(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 3)
        response = await publish(node, b"a", b"b", partition=2)
        assert [(each.partition, each.offset) for each in response.results] == [(2, 0), (2, 1)]
        assert all(each.timestamp_ms > 1_600_000_000_000 for each in response.results)

    run(tmp_path, scenario)


def test_what_is_missing_is_told_from_what_is_empty(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        sent = [
            pb.NewMessage(),
            pb.NewMessage(value=b"", key=b"", headers=[pb.Header(name="a", value=b"")]),
            pb.NewMessage(value=b"v", headers=[pb.Header(name="a")], timestamp_ms=5),
        ]
        await node.stubs.publish.Publish(pb.PublishRequest(topic="t", messages=sent))
        tombstone, empty, full = await node.records("t")
        assert (tombstone.key, tombstone.value, tombstone.headers) == (None, None, ())
        assert (empty.key, empty.value, empty.headers) == (b"", b"", (("a", b""),))
        assert (full.value, full.headers, full.timestamp_ms) == (b"v", (("a", None),), 5)

    run(tmp_path, scenario)


def test_a_key_always_goes_to_the_same_partition_and_no_key_takes_turns(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 3)
        keyed = await publish(node, *[b"v"] * 6, key=b"k")
        turns = await publish(node, *[b"v"] * 6)
        assert len({each.partition for each in keyed.results}) == 1
        assert sorted(each.partition for each in turns.results) == [0, 0, 1, 1, 2, 2]

    run(tmp_path, scenario)


def test_an_unknown_topic_is_not_found_and_the_error_says_so_in_full(tmp_path):
    async def scenario(node):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await publish(node, b"v", topic="nowhere")
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        error = pb.Error.FromString(dict(caught.value.trailing_metadata())[ERROR_KEY])
        assert (error.code, error.name, error.retriable) == (100, "UnknownTopicError", True)
        assert "nowhere" in error.message

    run(tmp_path, scenario)


def test_one_bad_message_does_not_cost_its_neighbours(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        sent = [*messages(b"a"), *messages(b"b", partition=7), *messages(b"c")]
        response = await node.stubs.publish.Publish(pb.PublishRequest(topic="t", messages=sent))
        assert [each.error.name for each in response.results] == ["", "UnknownPartitionError", ""]
        assert [each.value for each in await node.records("t")] == [b"a", b"c"]

    run(tmp_path, scenario)


def test_acks_that_do_not_exist_are_refused_by_name(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        request = pb.PublishRequest(topic="t", messages=messages(b"a"), acks=ODD)
        with pytest.raises(grpc.aio.AioRpcError, match="acks") as caught:
            await node.stubs.publish.Publish(request)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert await node.records("t") == []

    run(tmp_path, scenario)


def test_internal_topics_are_not_for_clients(tmp_path):
    async def scenario(node):
        response = await publish(node, b"v", topic="__consumer_offsets", partition=0)
        assert response.results[0].error.name == "InternalTopicError"

    run(tmp_path, scenario)


# --- Producers ------------------------------------------------------------------------------------


def sequenced(producer, first, *values, partition=0):
    return pb.PublishRequest(
        topic="t",
        messages=messages(*values, partition=partition),
        producer=pb.ProducerSequence(
            producer_id=producer.producer_id, epoch=producer.epoch, first_sequence=first
        ),
    )


def test_a_sequence_sent_twice_is_stored_once_and_answered_the_same(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        producer = await node.stubs.publish.InitProducer(pb.InitProducerRequest())
        ask = node.stubs.publish.Publish
        first = await ask(sequenced(producer, 0, b"a", b"b"))
        again = await ask(sequenced(producer, 0, b"a", b"b"))
        await ask(sequenced(producer, 2, b"c"))
        assert [each.offset for each in first.results] == [each.offset for each in again.results]
        assert [each.value for each in await node.records("t")] == [b"a", b"b", b"c"]

    run(tmp_path, scenario)


def test_a_gap_in_the_sequence_is_refused(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        producer = await node.stubs.publish.InitProducer(pb.InitProducerRequest())
        await node.stubs.publish.Publish(sequenced(producer, 0, b"a"))
        response = await node.stubs.publish.Publish(sequenced(producer, 5, b"b"))
        assert response.results[0].error.name == "OutOfOrderSequenceError"

    run(tmp_path, scenario)


@pytest.mark.parametrize("partitions", [(0, 1), (None,), (0, None)])
def test_a_sequence_is_for_one_partition_that_is_named(tmp_path, partitions):
    async def scenario(node):
        await node.broker.create_topic("t", 2)
        request = sequenced(pb.InitProducerResponse(), 0)
        for number in partitions:
            request.messages.add(value=b"v", partition=number)
        with pytest.raises(grpc.aio.AioRpcError, match="same partition"):
            await node.stubs.publish.Publish(request)

    run(tmp_path, scenario)


def test_no_two_producers_have_the_same_id(tmp_path):
    async def scenario(node):
        asked = [node.stubs.publish.InitProducer(pb.InitProducerRequest()) for _ in range(20)]
        assert len({(await each).producer_id for each in asked}) == 20

    run(tmp_path, scenario)


# --- Streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fsync", ["interval", "always"])
def test_a_stream_answers_in_order_while_more_comes_in(tmp_path, fsync):
    count = 3 * MAX_IN_FLIGHT

    async def scenario(node):
        await node.broker.create_topic("t", 1, {"goqueue.fsync": fsync})
        call = node.stubs.publish.PublishStream()

        async def write():
            for number in range(count):
                request = pb.PublishRequest(
                    topic="t", messages=messages(b"%d" % number), correlation_id=number
                )
                await call.write(request)
            await call.done_writing()

        writing = asyncio.create_task(write())
        seen = [(response.correlation_id, response.results[0].offset) async for response in call]
        await writing
        assert seen == [(number, number) for number in range(count)]

    run(tmp_path, scenario)


def test_a_refused_request_does_not_end_the_stream(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        call = node.stubs.publish.PublishStream()
        for number, topic in enumerate(["t", "nowhere", "t"]):
            request = pb.PublishRequest(topic=topic, messages=messages(b"v"), correlation_id=number)
            await call.write(request)
        await call.done_writing()
        answers = [response async for response in call]
        assert [each.error.name for each in answers] == ["", "UnknownTopicError", ""]
        assert [each.correlation_id for each in answers] == [0, 1, 2]

    run(tmp_path, scenario)


def test_a_stop_answers_what_a_stream_has_stored(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        call = node.stubs.publish.PublishStream()
        await call.write(pb.PublishRequest(topic="t", messages=messages(b"v"), correlation_id=1))
        assert (await call.read()).correlation_id == 1
        await asyncio.wait_for(node.stop_listening(600.0), 60)
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK

    run(tmp_path, scenario)
