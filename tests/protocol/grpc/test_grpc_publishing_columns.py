"""Messages that are published in columns, and messages that say how they are to be delivered."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from support.grpc_node import run

ODD: Any = 6  # no such priorities
BELOW: Any = -1


def played(folder, scenario):
    async def main(node):
        await node.broker.create_topic("t", 2)
        await scenario(node)

    run(folder, main)


def test_columns_are_stored_in_a_row(tmp_path):
    async def scenario(node):
        columns = pb.NewColumns(partition=0, values=[b"a", b"", b"c"], keys=[b"1", b"", b"3"])
        await node.stubs.publish.Publish(pb.PublishRequest(topic="t", columns=columns))
        columns = pb.NewColumns(partition=0, values=[b"d"])
        request = pb.PublishRequest(topic="t", columns=columns, correlation_id=9)
        answer = await node.stubs.publish.Publish(request)
        assert not answer.results
        assert (answer.correlation_id, answer.stored.first_offset) == (9, 3)
        records = await node.records("t")
        assert [(each.key, each.value) for each in records] == [
            (b"1", b"a"),
            (b"", b""),
            (b"3", b"c"),
            (None, b"d"),
        ]
        assert answer.stored.timestamp_ms == records[-1].timestamp_ms

    played(tmp_path, scenario)


def test_columns_that_are_refused_say_so_message_by_message(tmp_path):
    async def scenario(node):
        columns = pb.NewColumns(partition=7, values=[b"a", b"b"])
        request = pb.PublishRequest(topic="t", columns=columns)
        answer = await node.stubs.publish.Publish(request)
        assert [each.error.name for each in answer.results] == ["UnknownPartitionError"] * 2
        assert not answer.HasField("stored")

    played(tmp_path, scenario)


@pytest.mark.parametrize(
    "request_",
    [
        pb.PublishRequest(
            topic="t", columns=pb.NewColumns(values=[b"a"]), messages=[pb.NewMessage(value=b"b")]
        ),
        pb.PublishRequest(topic="t", columns=pb.NewColumns(values=[b"a", b"b"], keys=[b"k"])),
        pb.PublishRequest(topic="t", messages=[pb.NewMessage(delay_ms=5, deliver_at_ms=5)]),
        pb.PublishRequest(topic="t", messages=[pb.NewMessage(delay_ms=-1)]),
        pb.PublishRequest(topic="t", messages=[pb.NewMessage(deliver_at_ms=-1)]),
        pb.PublishRequest(topic="t", messages=[pb.NewMessage(ttl_ms=-1)]),
    ],
)
def test_a_request_that_contradicts_itself_is_refused_whole(tmp_path, request_):
    async def scenario(node):
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await node.stubs.publish.Publish(request_)
        assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert not await node.records("t")

    played(tmp_path, scenario)


def test_a_priority_that_does_not_exist_is_told_of_its_message_alone(tmp_path):
    async def scenario(node):
        messages = [
            pb.NewMessage(value=b"fine", partition=0, priority=pb.PRIORITY_CRITICAL),
            pb.NewMessage(value=b"odd", partition=0, priority=ODD),
            pb.NewMessage(value=b"odd", partition=0, priority=BELOW),
        ]
        answer = await node.stubs.publish.Publish(pb.PublishRequest(topic="t", messages=messages))
        fine, *odd = answer.results
        assert not fine.HasField("error")
        for each in odd:
            assert each.error.name == "PriorityError"
            assert "critical, high, normal, low, background" in each.error.message
        (record,) = await node.records("t")
        assert record.value == b"fine"

    played(tmp_path, scenario)


def test_a_delayed_message_has_a_number_in_place_of_an_offset(tmp_path):
    async def scenario(node):
        due_ms = node.broker.clock.now_ms() + 3_600_000
        messages = [
            pb.NewMessage(value=b"in an hour", partition=0, delay_ms=3_600_000),
            pb.NewMessage(value=b"then", partition=0, deliver_at_ms=due_ms),
            pb.NewMessage(value=b"past", partition=0, deliver_at_ms=1),
        ]
        answer = await node.stubs.publish.Publish(pb.PublishRequest(topic="t", messages=messages))
        in_an_hour, then, past = answer.results
        assert in_an_hour.HasField("delayed_id")
        assert 0 <= in_an_hour.deliver_at_ms - due_ms < 60_000
        assert (then.HasField("delayed_id"), then.deliver_at_ms) == (True, due_ms)
        assert not past.HasField("deliver_at_ms")
        (record,) = await node.records("t")
        assert record.value == b"past"

    played(tmp_path, scenario)


def test_a_reader_sees_what_was_said_about_the_delivery(tmp_path):
    async def scenario(node):
        message = pb.NewMessage(value=b"v", partition=0, priority=pb.PRIORITY_LOW, ttl_ms=10**7)
        await node.stubs.publish.Publish(pb.PublishRequest(topic="t", messages=[message]))
        found = []
        async for response in node.stubs.consume.Consume(
            pb.ConsumeRequest(topic="t", until_end=True)
        ):
            found += response.messages
        assert [each.priority for each in found] == [pb.PRIORITY_LOW]

    played(tmp_path, scenario)
