"""gRPC on a node of a cluster, over a socket: what is served, and the status of what is not."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from grpc import aio

from goqueue.protocols.grpc.listener import GrpcListener, GrpcSettings
from goqueue.publishing import router
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from support.cluster_brokers import OneOfThree, one_of_three
from support.grpc_stubs import Stubs
from support.scenarios import scenario

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from pathlib import Path

    import pytest


@asynccontextmanager
async def _stubs(made: OneOfThree) -> AsyncIterator[Any]:
    listener = GrpcListener(made.broker, GrpcSettings(port=0, reflection=False))
    await listener.start()
    try:
        async with aio.insecure_channel(f"127.0.0.1:{listener.port}") as channel:
            yield Stubs(channel)
    finally:
        await listener.stop(0.1)


async def _done(call: Awaitable[Any]) -> Any:
    return await call


@scenario
async def test_grpc_refuses_delayed_messages_where_no_unit_is_led(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        topic = await made.topic("t", (1, 2, 3))
        later = pb.NewMessage(value=b"v", partition=0, delay_ms=60_000)
        publish = pb.PublishRequest(topic="t", messages=[later])
        async with _stubs(made) as stubs:
            (result,) = (await stubs.publish.Publish(publish)).results
            assert (result.error.name, result.error.retriable) == ("DelaysUnavailableError", True)
        assert [each.log_end for each in made.broker.partitions.of_topic(topic)] == [0]


@scenario
async def test_grpc_says_that_the_leader_of_a_partition_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "PATIENCE_S", 0.1)
    async with one_of_three(tmp_path) as made:
        topic = await made.topic("t", (2, 1, 3), (1, 2, 3))
        async with _stubs(made) as stubs:
            message = pb.NewMessage(value=b"v", partition=0)
            request = pb.PublishRequest(topic="t", messages=[message])
            (result,) = (await stubs.publish.Publish(request)).results
            assert (result.error.name, result.error.retriable) == ("PeerUnavailableError", True)
            assert [each.log_end for each in made.broker.partitions.of_topic(topic)] == [0, 0]
            request.messages[0].partition = 1
            async with made.committing("t"):
                await stubs.publish.Publish(request)
            assert [each.log_end for each in made.broker.partitions.of_topic(topic)] == [0, 1]


@scenario
async def test_grpc_tells_offsets_of_groups_once_they_are_committed(tmp_path: Path) -> None:
    async with one_of_three(tmp_path) as made:
        await made.topic("t", (1, 2, 3))
        partition = made.broker.partitions.of_topic(await made.offsets_topic(1))[0]
        await made.loaded("g")
        offsets = [pb.PartitionOffset(topic="t", partition=0, offset=3)]
        request = pb.CommitOffsetsRequest(group="g", offsets=offsets)
        async with _stubs(made) as stubs:
            committing = asyncio.ensure_future(_done(stubs.offsets.CommitOffsets(request)))
            while partition.log_end == 0:  # noqa: ASYNC110 - the server's side of a call
                await asyncio.sleep(0.001)
            asking = [
                asyncio.ensure_future(_done(call))
                for call in (
                    stubs.offsets.FetchOffsets(pb.FetchOffsetsRequest(group="g")),
                    stubs.admin.DescribeGroup(pb.GroupRequest(name="g")),
                    stubs.admin.ListGroups(pb.ListGroupsRequest()),
                )
            ]
            done, _ = await asyncio.wait([committing, *asking], timeout=0.2)
            assert not done, "a follower may never get what they would tell"
            async with made.committing("__consumer_offsets"):
                fetched, described, listed = await asyncio.gather(*asking)
                await committing
        assert [each.offset for each in fetched.offsets] == [3]
        assert [each.offset for each in described.offsets] == [3]
        assert [each.name for each in listed.groups] == ["g"]
