from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import pytest

from goqueue.publishing.new_messages import NewMessage
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from support.grpc_node import run

WAIT_S = 90


async def ended(call):
    """How a stream ends; what is still on its way comes first."""
    async with asyncio.timeout(WAIT_S):
        with suppress(grpc.aio.AioRpcError):
            while await call.read() is not grpc.aio.EOF:
                pass
        return await call.code()


class MemberStream:
    """One Subscribe stream, as a test talks over it."""

    def __init__(self, node, **join):
        self.call = node.stubs.consume.Subscribe()
        self._join = pb.SubscribeJoin(**{"group": "g", "topics": ["t"], **join})

    async def join(self):
        await self.say(join=self._join)
        return self

    async def say(self, **action):
        await self.call.write(pb.SubscribeRequest(**action))

    async def read(self, kind):
        """The next event of that kind; others are passed over."""
        async with asyncio.timeout(WAIT_S):
            while True:
                response = await self.call.read()
                assert response is not grpc.aio.EOF
                if response.WhichOneof("event") == kind:
                    return getattr(response, kind)

    async def messages(self, count):
        found = []
        while len(found) < count:
            found += (await self.read("batch")).messages
        return found

    async def assigned(self, *partitions):
        """Wait until these are the member's; give up along the way what is taken away."""
        while True:
            event = await self.read("assignment")
            if event.revoked:
                await self.say(release=pb.SubscribeRelease())
            if {each.partition for each in event.partitions} == set(partitions):
                return event

    async def commit(self, **offsets):
        places = [
            pb.PartitionOffset(topic="t", partition=int(p[1:]), offset=o)
            for p, o in offsets.items()
        ]
        await self.say(commit=pb.SubscribeCommit(offsets=places, correlation_id=7))
        result = await self.read("committed")
        assert result.correlation_id == 7
        return {each.partition: each.error.name for each in result.outcomes}

    async def leave(self):
        await self.call.done_writing()
        assert await ended(self.call) is grpc.StatusCode.OK


async def fill(node, count, partition=0):
    new = [NewMessage(b"%d" % number, partition=partition) for number in range(count)]
    await node.broker.writer.publish("t", new)


@asynccontextmanager
async def member(node, **join):
    stream = await MemberStream(node, **join).join()
    try:
        yield stream
    finally:
        stream.call.cancel()


def members_of(node):
    return [
        each.member_id
        for each in node.coordinator("g").groups.coordinator("g").describe_consumer("g").members
    ]


def test_a_member_gets_its_partitions_and_their_messages(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 2)
        await fill(node, 5, 0)
        await fill(node, 5, 1)
        async with member(node) as one:
            event = await one.assigned(0, 1)
            assert event.member_id in members_of(node)
            found = await one.messages(10)
            by_partition = {0: [], 1: []}
            for each in found:
                by_partition[each.partition].append(each.offset)
            assert by_partition == {0: [0, 1, 2, 3, 4], 1: [0, 1, 2, 3, 4]}

    run(tmp_path, scenario)


def test_the_next_member_goes_on_where_the_last_one_committed(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        await fill(node, 10)
        one = await MemberStream(node).join()
        await one.messages(10)
        assert await one.commit(p0=4) == {0: ""}
        await one.leave()
        async with member(node) as two:
            assert [each.offset for each in await two.messages(6)] == list(range(4, 10))

    run(tmp_path, scenario)


def test_a_member_may_begin_at_the_end(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        await fill(node, 3)
        async with member(node, start_at_latest=True) as one:
            await one.assigned(0)
            # The member's place is taken with its first read, not with its assignment.
            first = asyncio.create_task(one.messages(1))
            while not first.done():
                await fill(node, 1)
                await asyncio.sleep(0.05)
            assert (await first)[0].offset >= 3

    run(tmp_path, scenario)


def test_no_more_is_sent_than_the_window_holds_until_there_is_credit(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        await fill(node, 300)
        async with member(node, max_messages=30, window=100) as one:
            assert len(await one.messages(100)) == 100
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.6):
                    await one.messages(1)

        async with member(node, group="other", max_messages=30, window=100) as two:
            await two.messages(100)
            await two.say(credit=pb.SubscribeCredit(messages=50))
            assert [each.offset for each in await two.messages(50)] == list(range(100, 150))

    run(tmp_path, scenario)


def test_a_second_member_takes_over_once_the_first_has_released(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 2)
        await fill(node, 2, 0)
        await fill(node, 2, 1)
        async with member(node) as one:
            await one.assigned(0, 1)
            await one.messages(4)
            async with member(node) as two:
                told = await one.read("assignment")
                (lost,) = told.revoked
                (kept,) = told.partitions
                # It still holds the partition: what it has done of it counts.
                assert await one.commit(**{f"p{lost.partition}": 2}) == {lost.partition: ""}
                await one.say(release=pb.SubscribeRelease())
                await two.assigned(lost.partition)
                assert await one.commit(**{f"p{lost.partition}": 1, f"p{kept.partition}": 2}) == {
                    lost.partition: "PartitionNotAssignedError",
                    kept.partition: "",
                }
                await fill(node, 1, lost.partition)
                (message,) = await two.messages(1)
                assert (message.partition, message.offset) == (lost.partition, 2)

    run(tmp_path, scenario)


def test_a_partition_stays_with_its_member_until_that_has_released_it(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        await node.broker.create_topic("u", 1)
        async with member(node, topics=["t", "u"]) as one:
            await one.read("assignment")
            async with member(node, topics=["t", "u"]) as two:
                assert (await one.read("assignment")).revoked
                assert not (await two.read("assignment")).partitions
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(1.0):
                        await two.read("assignment")
                await one.say(release=pb.SubscribeRelease())

    run(tmp_path, scenario)


@pytest.mark.parametrize("politely", [True, False])
def test_a_member_that_goes_leaves_its_partitions_to_others(tmp_path, politely):
    async def scenario(node):
        await node.broker.create_topic("t", 2)
        one = await MemberStream(node).join()
        await one.assigned(0, 1)
        async with member(node) as two:
            told = await one.read("assignment")
            assert told.revoked
            await one.say(release=pb.SubscribeRelease())
            if politely:
                await one.leave()
            else:
                one.call.cancel()
            await two.assigned(0, 1)
            assert len(members_of(node)) == 1

    run(tmp_path, scenario)


def test_a_lost_member_s_place_is_taken_over_at_once_and_its_ghost_is_fenced(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 2)
        async with member(node) as ghost:
            name = (await ghost.assigned(0, 1)).member_id
            async with member(node, member_id=name) as heir:
                assert (await heir.assigned(0, 1)).member_id == name
                assert await ended(ghost.call) is grpc.StatusCode.ABORTED
                assert members_of(node) == [name]
                await fill(node, 1)
                assert len(await heir.messages(1)) == 1

    run(tmp_path, scenario)


def test_a_stream_must_begin_with_a_join_and_have_only_one(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        cases: list[tuple[list[dict[str, Any]], str]] = [
            ([{"credit": pb.SubscribeCredit(messages=1)}], "join"),
            ([{"join": pb.SubscribeJoin(group="g")}], "topics"),
            ([{"join": pb.SubscribeJoin(group="g", topics=["t"], window=7)}], "window"),
            ([{"join": pb.SubscribeJoin(group="g", topics=["t"])}] * 2, "joins once"),
            (
                [
                    {"join": pb.SubscribeJoin(group="g", topics=["t"])},
                    {"credit": pb.SubscribeCredit(messages=-5)},
                ],
                "credit",
            ),
        ]
        for actions, words in cases:
            call = node.stubs.consume.Subscribe()
            for action in actions:
                await call.write(pb.SubscribeRequest(**action))
            assert await ended(call) is grpc.StatusCode.INVALID_ARGUMENT
            assert words in await call.details()

    run(tmp_path, scenario)


def test_a_group_without_a_name_is_refused(tmp_path):
    async def scenario(node):
        await node.broker.create_topic("t", 1)
        call = node.stubs.consume.Subscribe()
        await call.write(pb.SubscribeRequest(join=pb.SubscribeJoin(topics=["t"])))
        assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT

    run(tmp_path, scenario)
