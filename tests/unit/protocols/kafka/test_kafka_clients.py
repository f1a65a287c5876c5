"""Clients nobody here wrote get through their first requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import UUID

from aiokafka.client import AIOKafkaClient
from confluent_kafka.admin import AdminClient

from goqueue.protocols.kafka.registry import api
from goqueue.protocols.kafka.rights import ANYONE
from goqueue.wire.kafka.api_keys import ApiKey
from unit.protocols.kafka.live import SmallApi, listening, run

if TYPE_CHECKING:
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.wire.kafka.frames import Response


class OneBroker:
    """One broker with one topic of two partitions."""

    def __init__(self) -> None:
        self.port = 0
        self.versions: set[int] = set()
        self.client_ids: set[str | None] = set()

    @api(ApiKey.METADATA, 0, 13, right=ANYONE)
    async def metadata(self, ctx: RequestContext, request: Any) -> Response:
        self.versions.add(ctx.version)
        self.client_ids.add(ctx.client_id)
        partitions = [
            {
                "partition_index": index,
                "leader_id": 1,
                "leader_epoch": 0,
                "replica_nodes": [1],
                "isr_nodes": [1],
            }
            for index in range(2)
        ]
        topic = {"name": "orders", "topic_id": UUID(int=7), "partitions": partitions}
        return {
            "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": self.port}],
            "cluster_id": "test-cluster",
            "controller_id": 1,
            "topics": [topic],
        }


def test_librdkafka_learns_the_cluster():
    async def scenario():
        broker = OneBroker()
        async with listening(broker, SmallApi()) as listener:
            broker.port = listener.port
            admin = AdminClient(
                {"bootstrap.servers": f"127.0.0.1:{listener.port}", "client.id": "rd"}
            )
            cluster = await asyncio.to_thread(admin.list_topics, timeout=60)
            assert cluster.cluster_id == "test-cluster"
            assert sorted(cluster.topics["orders"].partitions) == [0, 1]
            assert cluster.brokers[1].port == listener.port
            assert broker.client_ids == {"rd"}
            assert max(broker.versions) >= 12

    run(scenario())


def test_aiokafka_learns_the_cluster():
    async def scenario():
        broker = OneBroker()
        async with listening(broker, SmallApi()) as listener:
            broker.port = listener.port
            client = AIOKafkaClient(bootstrap_servers=f"127.0.0.1:{listener.port}")
            await client.bootstrap()
            try:
                assert client.cluster.partitions_for_topic("orders") == {0, 1}
                assert [node.port for node in client.cluster.brokers()] == [listener.port]
                assert broker.client_ids == {client._client_id}
            finally:
                await client.close()

    run(scenario())
