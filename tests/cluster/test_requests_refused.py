"""What a running cluster refuses of clients and nodes, in one sentence; nothing is stored."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from goqueue.client.link.addresses import Address
from goqueue.client.link.connection import Connection
from goqueue.client.settings import ClientSettings
from goqueue.cluster.hello import NodeIdentity
from goqueue.cluster.records import NodeAddress
from goqueue.model.errors import (
    AuthenticationFailedError,
    ClusterMismatchError,
    PeerUnavailableError,
)
from goqueue.server.cluster.peers import PeerConnections
from goqueue.testing import Cluster
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from support.etcd import need_etcd
from support.kafka_wire import WireClient

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_etcd()
    with Cluster(3) as cluster:
        yield cluster


# --- Topics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        (
            NewTopic("many", 1, 4),
            "replication factor 4 in a cluster of 3 nodes: ask for 1 to 3 replicas",
        ),
        (
            NewTopic("strict", 1, 2, config={"min.insync.replicas": "3"}),
            "min.insync.replicas is 3 and topic 'strict' has 2 replicas: set it to 1 to 2",
        ),
        (
            NewTopic("unknown", 1, replica_assignment=[[1, 9]]),
            "assigned to nodes [1, 9] and there is no node 9: the nodes are [1, 2, 3]",
        ),
        (
            NewTopic("twice", 1, replica_assignment=[[1, 1]]),
            "assigned to nodes [1, 1]: name each node once",
        ),
    ],
    ids=lambda value: value.topic if isinstance(value, NewTopic) else None,
)
def test_replicas_that_cannot_be(cluster: Cluster, topic: NewTopic, said: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    with pytest.raises(KafkaException) as caught:
        admin.create_topics([topic])[topic.topic].result(20)
    error = caught.value.args[0]
    assert not error.retriable()
    assert said in error.str()
    assert topic.topic not in admin.list_topics(timeout=20).topics


def test_new_partitions_on_nodes_that_are_not_there(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("grown", 1, 3)])["grown"].result(20)
    for nodes, said in (
        ([2, 9], "assigned to nodes [2, 9] and there is no node 9: the nodes are [1, 2, 3]"),
        ([3, 3], "assigned to nodes [3, 3]: name each node once"),
    ):
        wanted = NewPartitions("grown", 2, replica_assignment=[nodes])
        with pytest.raises(KafkaException) as caught:
            admin.create_partitions([wanted])["grown"].result(20)
        error = caught.value.args[0]
        assert error.code() == KafkaError.INVALID_REPLICA_ASSIGNMENT
        assert said in error.str()
    assert len(admin.list_topics(timeout=20).topics["grown"].partitions) == 1
    wanted = NewPartitions("grown", 2, replica_assignment=[[2, 3, 1]])
    admin.create_partitions([wanted])["grown"].result(20)
    found = admin.list_topics("grown", timeout=20).topics["grown"].partitions[1]
    assert found.replicas == [2, 3, 1]


@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")
def test_replicas_that_shall_move_to_other_nodes(cluster: Cluster) -> None:
    from kafka import KafkaAdminClient, TopicPartition  # noqa: PLC0415 - it warns as it is loaded
    from kafka.errors import UnsupportedVersionError  # noqa: PLC0415 - as above

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("moved", 1, 3)])["moved"].result(20)

    def replicas() -> list[int]:
        found: list[int] = (
            admin.list_topics("moved", timeout=20).topics["moved"].partitions[0].replicas
        )
        return found

    before, place = replicas(), TopicPartition("moved", 0)
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        for wanted in ([1, 2], [9], [3, 2, 1], None):
            with pytest.raises(UnsupportedVersionError):
                client.alter_partition_reassignments({place: wanted})
        assert client.list_partition_reassignments() == {}
    finally:
        client.close()
    asked = [{"name": "moved", "partitions": [{"partition_index": 0, "replicas": [9]}]}]
    for node in (1, 2, 3):
        with WireClient(cluster.kafka_address(node)) as wire:
            told = wire.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, timeout_ms=5000, topics=asked)
        assert told.error_code == ErrorCode.unsupported_version
        assert "moving replicas to other nodes: not yet in a cluster" in told.error_message
    assert replicas() == before


# --- Replicas -------------------------------------------------------------------------------------


def test_a_replica_at_a_listener_for_clients(cluster: Cluster) -> None:
    host, _, port = cluster.kafka_address(1).rpartition(":")

    async def scenario() -> Any:
        connection = Connection(Address(host, int(port)), ClientSettings())
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: connection, host, int(port))
        try:
            return await connection.ask(
                ApiKey.FETCH,
                16,
                replica_state={"replica_id": 2, "replica_epoch": 5},
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1000,
                isolation_level=0,
                session_id=0,
                session_epoch=-1,
                topics=[],
                forgotten_topics_data=[],
                rack_id="",
            )
        finally:
            connection.close()

    answer = asyncio.run(scenario())
    assert answer.error_code == ErrorCode.cluster_authorization_failed
    assert not answer.responses


def refused(cluster: Cluster, kind: type[Exception], **changed: Any) -> str:
    """What a node says to one that calls itself node 2, in a way that is not right."""
    secret = (cluster.folder / "secret").read_bytes().strip()
    told = json.loads((cluster.data_dir(2) / "node.json").read_bytes())
    fields = {"cluster_id": told["cluster_id"], "node_id": 2, "secret": secret, "incarnation": 1}
    host, _, port = cluster.internal_address(1).rpartition(":")

    async def scenario() -> str:
        identity = NodeIdentity(**(fields | changed))
        peers = PeerConnections(identity, {1: NodeAddress(host, int(port))}.get)
        with pytest.raises(kind) as caught:
            await peers.ask(1, ApiKey.LOG_ENDS, 0, partitions=[])
        peers.close()
        return str(caught.value)

    return asyncio.run(scenario())


def test_a_node_of_another_cluster(cluster: Cluster) -> None:
    own = json.loads((cluster.data_dir(1) / "node.json").read_bytes())["cluster_id"]
    said = refused(cluster, ClusterMismatchError, cluster_id="another")
    assert "'another'" in said
    assert f"'{own}'" in said


def test_a_node_with_another_secret(cluster: Cluster) -> None:
    said = refused(cluster, AuthenticationFailedError, secret=b"another secret")
    assert "cluster.secret_file" in said


def test_a_run_of_a_node_that_is_over(cluster: Cluster) -> None:
    said = refused(cluster, PeerUnavailableError)
    assert "node 2 says incarnation 1 and is registered as" in said
    assert "has to stop" in said


def test_a_node_in_the_folder_of_another_cluster(cluster: Cluster) -> None:
    file = cluster.data_dir(3) / "node.json"
    cluster.stop(3)
    before = file.read_bytes()
    try:
        told = json.loads(before)
        file.write_text(json.dumps(told | {"cluster_id": "another"}))
        cluster.start(3, wait=False)
        with pytest.raises(Exception, match="belongs to cluster 'another' and the metadata to"):
            cluster.wait(3)
    finally:
        file.write_bytes(before)
    cluster.start(3)
