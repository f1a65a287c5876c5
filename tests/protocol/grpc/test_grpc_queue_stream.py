"""Members of queue groups on their Subscribe streams, as the contract has it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import grpc
import pytest

from goqueue.model.delivery import Priority
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.grpc import deliveries, queue_subscription
from goqueue.publishing.new_messages import NewMessage
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from support.grpc_node import run

if TYPE_CHECKING:
    from goqueue.queues.runs import Run

WAIT_S = 90


class QueueStream:
    """One stream, as a test talks over it."""

    def __init__(self, node, **join):
        self.call = node.stubs.consume.Subscribe()
        self._join = pb.SubscribeJoin(
            **{"group": "g", "topics": ["t"], "assignment": pb.ASSIGNMENT_SHARED, **join}
        )
        self._events = defaultdict(asyncio.Queue)
        self._reader = None

    async def join(self):
        await self.say(join=self._join)
        self._reader = asyncio.create_task(self._read())
        self.member_id = (await self.read("assignment")).member_id
        return self

    async def _read(self):
        """Sort what comes by its kind: to give up waiting for one must not end the call."""
        with suppress(grpc.aio.AioRpcError):
            async for response in self.call:
                kind = response.WhichOneof("event")
                self._events[kind].put_nowait(getattr(response, kind))

    async def say(self, **action):
        await self.call.write(pb.SubscribeRequest(**action))

    async def read(self, kind):
        """The next event of that kind."""
        async with asyncio.timeout(WAIT_S):
            return await self._events[kind].get()

    async def messages(self, count):
        found = []
        while len(found) < count:
            found += (await self.read("batch")).messages
        return found

    async def settle(self, *ids, verdict=pb.VERDICT_ACK, **fields):
        """What was wrong, by the name of the error."""
        settle = pb.SubscribeSettle(
            delivery_ids=ids, verdict=verdict, **{"correlation_id": 7, **fields}
        )
        await self.say(settle=settle)
        result = await self.read("settled")
        assert result.correlation_id == settle.correlation_id
        if result.HasField("error"):
            return result.error.name
        return {
            each.delivery_id or each.receipt_handle: each.error.name for each in result.failures
        }

    async def is_silent(self):
        with suppress(TimeoutError):
            async with asyncio.timeout(0.3):
                await self.read("batch")
                return False
        return True

    async def leave(self):
        await self.call.done_writing()
        assert await self.ended() is grpc.StatusCode.OK

    async def ended(self):
        """How the stream ends."""
        async with asyncio.timeout(WAIT_S):
            await (self._reader or self._read())
            return await self.call.code()


@asynccontextmanager
async def member(node, **join):
    stream = await QueueStream(node, **join).join()
    try:
        yield stream
    finally:
        stream.call.cancel()


async def fill(node, count, partition=0, **fields):
    new = [NewMessage(b"%d" % number, partition=partition, **fields) for number in range(count)]
    await node.broker.writer.publish("t", new)


def played(folder, scenario, partitions=1, **settings):
    async def main(node):
        await node.broker.create_topic("t", partitions, settings)
        await scenario(node)

    run(folder, main)


def unsettled(node, group="g"):
    """The first offset of each partition that the group is not done with."""
    return [queue.start for queue in node.coordinator(group).queues.group(group).queues.values()]


def test_a_member_is_handed_messages_with_receipts_and_settles_them_by_number(tmp_path):
    async def scenario(node):
        await node.broker.writer.publish("t", [NewMessage(b"v", b"k", (("h", b"1"), ("n", None)))])
        async with member(node) as one:
            (message,) = await one.messages(1)
            assert (message.key, message.value) == (b"k", b"v")
            assert [(h.name, h.HasField("value")) for h in message.headers] == [
                ("h", True),
                ("n", False),
            ]
            assert message.receipt_handle.startswith("t:0:0:1:")
            assert (message.delivery_count, message.priority) == (1, pb.PRIORITY_NORMAL)
            assert message.visible_until_ms > node.broker.clock.now_ms()
            assert await one.settle(message.delivery_id) == {}
            assert unsettled(node) == [1]

    played(tmp_path, scenario)


def test_columns_say_the_same_as_messages(tmp_path):
    async def scenario(node):
        contents = [
            NewMessage(b"v", b"k"),
            NewMessage(None, b"k"),
            NewMessage(b"", b""),
            NewMessage(b"v", None, (("h", None), ("h", b"x"))),
            NewMessage(b"now", priority=Priority.CRITICAL),
        ]
        await node.broker.writer.publish("t", contents)
        async with member(node, group="rows") as one:
            rows = await one.messages(5)
        async with member(node, group="columns", columns=True) as two:
            urgent, normal = (await two.read("columns")).runs
        assert rows[0].value == b"now"
        assert (urgent.priority, list(urgent.values)) == (pb.PRIORITY_CRITICAL, [b"now"])
        assert list(normal.offsets) == [each.offset for each in rows[1:]] == [0, 1, 2, 3]
        assert list(normal.timestamps_ms) == [each.timestamp_ms for each in rows[1:]]
        assert list(normal.values) == [b"v", b"", b"", b"v"]
        assert list(normal.without_value) == [1]
        assert not rows[2].HasField("value")
        assert list(normal.keys) == [b"k", b"k", b"", b""]
        assert list(normal.without_key) == [3]
        assert rows[3].HasField("key")
        ((place, headers),) = [(each.place, each.headers) for each in normal.headers]
        assert place == 3
        assert list(headers) == list(rows[4].headers)
        assert len(normal.nonces) == 4
        assert not normal.delivery_counts

    played(tmp_path, scenario)


def test_no_more_is_sent_than_the_window_holds_until_something_is_settled(tmp_path):
    async def scenario(node):
        await fill(node, 30)
        async with member(node, window=10, max_messages=5) as one:
            found = await one.messages(10)
            assert await one.is_silent()
            await one.settle(*(each.delivery_id for each in found[:4]))
            assert [each.offset for each in await one.messages(4)] == [10, 11, 12, 13]
            assert await one.is_silent()

    played(tmp_path, scenario)


def test_the_group_bounds_what_a_member_has_unsettled(tmp_path):
    async def scenario(node):
        await fill(node, 30)
        async with member(node, max_unacked=3) as one:
            first, *_ = await one.messages(3)
            assert await one.is_silent()
            await one.settle(first.delivery_id)
            assert [each.offset for each in await one.messages(1)] == [3]

    played(tmp_path, scenario)


@pytest.mark.parametrize("politely", [True, False])
def test_the_end_of_a_stream_hands_what_its_member_has_to_others(tmp_path, politely):
    async def scenario(node):
        await fill(node, 4)
        one = await QueueStream(node).join()
        kept, *_ = await one.messages(4)
        await one.settle(kept.delivery_id)
        async with member(node) as two:
            assert await two.is_silent()
            if politely:
                await one.leave()
            else:
                one.call.cancel()
            again = await two.messages(3)
            assert [(each.offset, each.delivery_count) for each in again] == [
                (1, 2),
                (2, 2),
                (3, 2),
            ]

    played(tmp_path, scenario)


def test_what_is_returned_was_never_delivered(tmp_path):
    async def scenario(node):
        await fill(node, 3)
        async with member(node) as one, member(node) as two:
            found = [*(await one.messages(3))]
            ids = [each.delivery_id for each in found]
            await one.say(settle=pb.SubscribeSettle(delivery_ids=ids, verdict=pb.VERDICT_RETURN))
            again = await asyncio.wait_for(_either(one, two, 3), WAIT_S)
            assert [(each.offset, each.delivery_count) for each in again] == [
                (0, 1),
                (1, 1),
                (2, 1),
            ]

    played(tmp_path, scenario)


async def _either(one, two, count):
    """What either of two members is handed, in the order of offsets."""
    tasks = [asyncio.create_task(each.messages(count)) for each in (one, two)]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    return done.pop().result()


def test_a_nack_delays_a_reject_buries_and_a_release_is_at_once(tmp_path):
    async def scenario(node):
        await fill(node, 3)
        async with member(node) as one:
            nacked, rejected, released = (each.delivery_id for each in await one.messages(3))
            assert await one.settle(released, verdict=pb.VERDICT_RELEASE) == {}
            (first,) = await one.messages(1)
            assert (first.offset, first.delivery_count) == (2, 2)
            due_ms = node.broker.clock.now_ms() + 300
            later = {"verdict": pb.VERDICT_NACK, "delay_ms": 300, "reason": "not yet"}
            assert await one.settle(nacked, **later) == {}
            assert await one.settle(rejected, verdict=pb.VERDICT_REJECT, reason="bad") == {}
            (second,) = await one.messages(1)
            assert node.broker.clock.now_ms() >= due_ms
            assert (second.offset, second.delivery_count) == (0, 2)
            async with member(node, group="h", topics=["t.dlq"]) as undertaker:
                (dead,) = await undertaker.messages(1)
                said = {each.name: each.value for each in dead.headers}
                assert dead.value == b"1"
                assert b"bad" in said.values()

    played(tmp_path, scenario)


def test_a_message_that_is_extended_stays_and_its_number_too(tmp_path):
    async def scenario(node):
        await fill(node, 2)
        async with member(node, visibility_timeout_ms=400, max_deliveries=100) as one:
            kept, lost = await one.messages(2)
            longer = {"verdict": pb.VERDICT_EXTEND, "delay_ms": 600_000}
            while await one.settle(kept.delivery_id, **longer):  # too late: once more
                kept, lost = sorted(await one.messages(2), key=lambda each: each.offset)
            (again,) = await one.messages(1)
            assert (again.offset, again.delivery_count) == (1, lost.delivery_count + 1)
            assert await one.settle(kept.delivery_id, lost.delivery_id) == {
                lost.delivery_id: "ExpiredReceiptError"
            }
            while await one.settle(again.delivery_id):
                (again,) = await one.messages(1)
            assert unsettled(node) == [2]

    played(tmp_path, scenario)


def test_each_number_counts_once_and_strange_ones_never(tmp_path):
    async def scenario(node):
        await fill(node, 3)
        async with member(node) as one:
            a, b, c = (each.delivery_id for each in await one.messages(3))
            strange = a + 5000
            assert await one.settle(a, a) == {a: "UnknownReceiptError"}
            assert await one.settle(a, b, strange, 3) == {
                a: "UnknownReceiptError",
                strange: "UnknownReceiptError",
                3: "UnknownReceiptError",
            }
            assert await one.settle(c) == {}
            assert await one.settle(c) == {c: "UnknownReceiptError"}
            assert unsettled(node) == [3]

    played(tmp_path, scenario)


def test_receipts_settle_what_another_stream_was_handed(tmp_path):
    async def scenario(node):
        await fill(node, 2)
        async with member(node) as one, member(node) as two:
            a, b = (each.receipt_handle for each in await one.messages(2))
            forged = a[:-16] + "0" * 16
            assert await two.settle(receipt_handles=[a, forged, "no receipt", a]) == {
                forged: "UnknownReceiptError",
                "no receipt": "MalformedReceiptError",
                a: "UnknownReceiptError",
            }
            async with member(node, group="other") as foreign:
                assert await foreign.settle(receipt_handles=[b]) == {b: "ForeignReceiptError"}
            assert unsettled(node) == [1]

    played(tmp_path, scenario)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, "InvalidRequestError"),
        ({"verdict": 99, "receipt_handles": ["x"]}, "InvalidRequestError"),
        ({"receipt_handles": ["x"] * 5001}, "InvalidRequestError"),
        ({"reason": "x" * 1001, "receipt_handles": ["x"]}, "InvalidGroupRequestError"),
        ({"delay_ms": -1, "receipt_handles": ["x"]}, "InvalidGroupRequestError"),
    ],
)
def test_a_verdict_that_makes_no_sense_is_refused_and_the_stream_goes_on(tmp_path, fields, error):
    async def scenario(node):
        async with member(node) as one:
            assert await one.settle(**fields) == error
            await fill(node, 1)
            assert len(await one.messages(1)) == 1

    played(tmp_path, scenario)


def test_a_queue_stream_takes_verdicts_and_a_log_stream_offsets(tmp_path):
    async def scenario(node):
        cases: list[tuple[Any, dict[str, Any], str]] = [
            (pb.ASSIGNMENT_SHARED, {"credit": pb.SubscribeCredit(messages=1)}, "credit"),
            (pb.ASSIGNMENT_SHARED, {"join": pb.SubscribeJoin(group="g")}, "joins once"),
            (pb.ASSIGNMENT_LOG, {"settle": pb.SubscribeSettle(delivery_ids=[1])}, "settle"),
        ]
        for assignment, action, words in cases:
            group = "log" if assignment == pb.ASSIGNMENT_LOG else "queue"
            stream = await QueueStream(node, assignment=assignment, group=group).join()
            await stream.say(**action)
            assert await stream.ended() is grpc.StatusCode.INVALID_ARGUMENT
            assert words in await stream.call.details()

    played(tmp_path, scenario)


@pytest.mark.parametrize(
    ("join", "status"),
    [
        ({"assignment": 9}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"window": 5001}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"visibility_timeout_ms": -1}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"max_deliveries": 251}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"max_unacked": -1}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"group": ""}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"topics": ["nowhere"]}, grpc.StatusCode.NOT_FOUND),
        ({"assignment": pb.ASSIGNMENT_EXCLUSIVE}, grpc.StatusCode.FAILED_PRECONDITION),
    ],
)
def test_a_join_that_the_group_cannot_grant_is_refused(tmp_path, join, status):
    async def scenario(node):
        async with member(node):
            stream = QueueStream(node, **join)
            await stream.say(join=stream._join)
            assert await stream.ended() is status

    played(tmp_path, scenario)


def test_members_of_a_shared_group_share_one_partition(tmp_path):
    async def scenario(node):
        async with member(node, window=10) as one, member(node, window=10) as two:
            await fill(node, 20)
            found = [*(await one.messages(10)), *(await two.messages(10))]
            assert sorted(each.offset for each in found) == list(range(20))

    played(tmp_path, scenario)


def test_an_exclusive_group_keeps_the_order_when_a_partition_changes_hands(tmp_path):
    async def scenario(node):
        join = {"assignment": pb.ASSIGNMENT_EXCLUSIVE, "window": 5, "max_messages": 5}
        async with member(node, **join) as one:
            await fill(node, 20, 0)
            await fill(node, 20, 1)
            held = [each.delivery_id for each in await one.messages(5)]
            async with member(node, **join) as two:
                while len((await two.read("assignment")).partitions) != 1:
                    pass
                assert await one.settle(*held) == {}
                found = {}
                for each in [*(await one.messages(2)), *(await two.messages(2))]:
                    found.setdefault(each.partition, []).append(each.offset)
                assert all(offsets == sorted(offsets) for offsets in found.values())

    played(tmp_path, scenario, partitions=2)


def test_a_member_that_comes_back_goes_on_in_its_place(tmp_path):
    async def scenario(node):
        await fill(node, 2)
        async with member(node) as one:
            await one.messages(2)
            async with member(node, member_id=one.member_id) as heir:
                assert heir.member_id == one.member_id

    played(tmp_path, scenario)


def test_a_topic_that_grows_is_taken_from_whole(tmp_path):
    async def scenario(node):
        async with member(node) as one:
            await node.broker.grow_topic("t", 2)
            while len((await one.read("assignment")).partitions) != 2:
                pass
            await fill(node, 1, partition=1)
            (message,) = await one.messages(1)
            assert message.partition == 1

    played(tmp_path, scenario)


def test_large_messages_travel_in_several_answers(tmp_path):
    async def scenario(node):
        big = NewMessage(bytes(700_000))
        await node.broker.writer.publish("t", [big])
        for _ in range(5):
            await node.broker.writer.publish("t", [big])
        async with member(node) as one:
            found = await one.messages(6)
            assert [len(each.value) for each in found] == [700_000] * 6
            assert await one.settle(*(each.delivery_id for each in found)) == {}

    played(tmp_path, scenario)


async def dead_lettered_one(node):
    """Until there is a dead letter."""
    async with asyncio.timeout(WAIT_S):
        while True:
            partition = node.broker.partitions.find(TopicPartition("t.dlq", 0))
            if partition is not None and partition.high_watermark:
                return
            await asyncio.sleep(0.01)


def test_a_message_that_grpc_cannot_carry_is_handed_back_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(deliveries, "MAX_MESSAGE_BYTES", 100_000)
    monkeypatch.setattr(deliveries, "_HARMLESS", 1)
    monkeypatch.setattr(queue_subscription, "RESPONSE_BYTES", 50_000)

    async def scenario(node):
        for size in (10, 200_000, 20):
            await node.broker.writer.publish("t", [NewMessage(bytes(size))])
        async with member(node, max_deliveries=1) as one:
            found = await one.messages(2)
            assert [each.offset for each in found] == [0, 2]
            assert await one.settle(*(each.delivery_id for each in found)) == {}
            await dead_lettered_one(node)
            (dead_lettered,) = await node.records("t.dlq")
            assert len(dead_lettered.value) == 200_000
            assert any(b"gRPC" in (value or b"") for _, value in dead_lettered.headers)

    played(tmp_path, scenario)


def test_a_stream_forgets_its_oldest_messages_when_it_has_too_many(monkeypatch):
    monkeypatch.setattr(deliveries, "_MAX_REMEMBERED", 4)

    kept, run = deliveries.Deliveries(), cast("Run", SimpleNamespace(offsets=(1, 2)))
    first, second, third = (kept.add(run) for _ in range(3))
    found, unknown = kept.find([first, second, third + 1, third + 2])
    assert unknown == [first, third + 2]
    assert sorted(found.values()) == [[0], [1]]
