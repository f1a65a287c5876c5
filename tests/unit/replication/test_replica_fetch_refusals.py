"""What a node refuses of others that fetch: nothing is acknowledged, and they are told why."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from goqueue.client.errors import ConnectionLostError
from goqueue.cluster.hello import NodeIdentity
from goqueue.cluster.peers import Lane
from goqueue.cluster.records import NodeAddress, PartitionKey
from goqueue.server.cluster.peers import PeerConnections
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.fetch import FetchPartition, FetchTopic
from goqueue.wire.kafka.replica_fetch import ReplicaFetch
from support.replicating import SECRET, replicating
from support.scenarios import scenario

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.wire.kafka.fetch import FetchedPartition
    from support.replicating import ReplicaNode


class Follower:
    """Says what it likes, on a connection of node 2."""

    def __init__(self, leader: ReplicaNode, incarnation: int) -> None:
        self.identity = NodeIdentity("c", 2, SECRET, incarnation)
        self.peers = PeerConnections(self.identity, lambda _: NodeAddress("127.0.0.1", leader.port))
        self.link: Any = None

    async def fetch(self, *topics: FetchTopic, **changed: Any) -> Any:
        if self.link is None:
            self.link = await self.peers.open(1, Lane.LIVE)
        asked = ReplicaFetch(2, self.identity.incarnation, 0, 1 << 20, 0, topics)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.link.fetch(asked._replace(**changed), answer.set_result)
        return await asyncio.wait_for(answer, 5)

    async def one(self, key: PartitionKey, **changed: Any) -> FetchedPartition:
        asked = FetchPartition(key.partition, 0, 0, -1, 0, 1 << 20)._replace(**changed)
        answer = await self.fetch(FetchTopic(None, key.topic_id, [asked]))
        assert answer.error_code == 0
        told: FetchedPartition = answer.topics[0].partitions[0]
        return told

    def close(self) -> None:
        if self.link is not None:
            self.link.close()


@scenario
async def test_a_fetch_is_refused_unless_epoch_offset_and_node_are_right(folder: Path):
    async with replicating(folder, 2) as cluster:
        key = await cluster.create(min_insync_replicas="1")
        leader = await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        cluster.cut(2)
        follower = Follower(cluster[1], cluster[2].identity.incarnation)
        epoch = leader.leader_epoch
        codes = {
            "future epoch": (await follower.one(key, current_leader_epoch=epoch + 1)).error_code,
            "old epoch": (await follower.one(key, current_leader_epoch=-1)).error_code,
            "beyond the end": (await follower.one(key, fetch_offset=5)).error_code,
            "no such partition": (await follower.one(key._replace(partition=9))).error_code,
            "no such topic": (await follower.one(PartitionKey(uuid4(), 0))).error_code,
        }
        assert codes == {
            "future epoch": ErrorCode.unknown_leader_epoch,
            "old epoch": ErrorCode.fenced_leader_epoch,
            "beyond the end": ErrorCode.offset_out_of_range,
            "no such partition": ErrorCode.not_leader_or_follower,
            "no such topic": ErrorCode.unknown_topic_id,
        }
        diverging = await follower.one(key, fetch_offset=1, last_fetched_epoch=epoch + 3)
        assert diverging.diverging_epoch == (epoch, 1)
        led = cluster[1].replicas.led.by_key[key]
        assert led.progress.followers[2].position == 1
        follower.close()


@scenario
async def test_a_run_of_a_node_that_is_over_acknowledges_nothing(folder: Path):
    async with replicating(folder, 2) as cluster:
        key = await cluster.create(min_insync_replicas="1")
        await cluster.led(key, 1)
        cluster[1].publish(b"a")
        await cluster.committed(1)
        old = Follower(cluster[1], cluster[2].identity.incarnation)
        assert (await old.one(key)).error_code == 0
        await cluster[2].register_again()
        cluster[1].publish(b"b")
        await cluster.committed(2)
        told = await old.one(key, fetch_offset=1)
        assert told.error_code == ErrorCode.stale_broker_epoch
        old.close()


@scenario
async def test_a_connection_speaks_for_its_own_node_and_in_turn(folder: Path):
    async with replicating(folder, 2) as cluster:
        await cluster.create(min_insync_replicas="1")
        follower = Follower(cluster[1], cluster[2].identity.incarnation)
        assert (await follower.fetch()).error_code == 0
        other_node = await follower.fetch(node_id=3)
        other_run = await follower.fetch(incarnation=99)
        assert other_node.error_code == other_run.error_code == ErrorCode.stale_broker_epoch
        assert (await follower.fetch(session_epoch=1)).error_code == 0
        assert (await follower.fetch(session_epoch=7)).error_code != 0
        assert (await follower.fetch(session_epoch=0)).error_code == 0
        follower.close()


@scenario
async def test_a_consumer_is_not_served_where_replicas_are(folder: Path):
    async with replicating(folder, 2) as cluster:
        await cluster.create(min_insync_replicas="1")
        follower = Follower(cluster[1], cluster[2].identity.incarnation)
        await follower.fetch()
        connection = follower.link._connection
        fields = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1, "isolation_level": 0}
        answer = await connection.ask(
            ApiKey.FETCH,
            17,
            **fields,
            session_id=0,
            session_epoch=-1,
            topics=(),
            forgotten_topics_data=(),
            rack_id="",
        )
        assert answer.error_code == ErrorCode.stale_broker_epoch
        with pytest.raises(ConnectionLostError):
            await connection.ask(ApiKey.LIST_GROUPS, 0)


@scenario
async def test_a_new_request_ends_the_wait_of_the_one_before(folder: Path):
    async with replicating(folder, 2) as cluster:
        key = await cluster.create(min_insync_replicas="1")
        leader = await cluster.led(key, 1)
        follower = Follower(cluster[1], cluster[2].identity.incarnation)
        asked = FetchPartition(0, leader.leader_epoch, 0, -1, 0, 1 << 20)
        waiting = asyncio.ensure_future(
            follower.fetch(FetchTopic(None, key.topic_id, [asked]), max_wait_ms=60_000)
        )
        await asyncio.sleep(0.05)
        after = asyncio.ensure_future(follower.fetch(session_epoch=1, max_wait_ms=60_000))
        assert [each.records for topic in (await waiting).topics for each in topic.partitions] in (
            [],
            [()],
        )
        cluster[1].publish(b"a")
        (topic,) = (await after).topics
        assert topic.partitions[0].records
        follower.close()
