"""A coordinator dies between its decision and the last marker: the next one writes that marker."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from http.client import HTTPException
from typing import TYPE_CHECKING

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.wire.kafka.api_keys import ApiKey
from support.cluster_nodes import ClusterNodes
from support.cluster_queue import call
from support.committed import committed
from support.etcd import need_etcd
from support.kafka_wire import WireClient
from support.waiting import WAIT_S, eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.cluster_nodes import ClusterNode

TOPIC = "t"
PARTITIONS = 6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterNodes]:
    need_etcd()
    cluster = ClusterNodes(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(WAIT_S)
        yield cluster
    finally:
        cluster.close()


def leaders(cluster: ClusterNodes) -> dict[int, int]:
    """By partition: who leads it."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    found = admin.list_topics(TOPIC, timeout=WAIT_S).topics[TOPIC].partitions
    return {number: each.leader for number, each in found.items()}


def coordinator(cluster: ClusterNodes, name: str) -> ClusterNode:
    def found() -> ClusterNode | None:
        for node in cluster.nodes.values():
            with suppress(OSError), WireClient(node.kafka_address) as client:
                asked = {"key_type": 1, "coordinator_keys": [name]}
                (one,) = client.call(ApiKey.FIND_COORDINATOR, 4, **asked).coordinators
                if one.error_code == 0:
                    return cluster.nodes[one.node_id]
        return None

    node: ClusterNode = eventually(found, "somebody coordinates it")
    return node


def state(node: ClusterNode, name: str) -> str:
    """What a coordinator says of a transaction."""
    with suppress(OSError, HTTPException):
        status, answer = call(node.http_url, "GET", "/transactions")
        if status == 200:
            for each in answer["transactions"]:
                if each["transactional_id"] == name:
                    return str(each["state"])
    return ""


def has_markers(cluster: ClusterNodes, name: str, partitions: set[int]) -> bool:
    """Whether what was written to these partitions is seen by readers of committed messages."""
    found = committed(cluster.bootstrap, TOPIC)
    return partitions <= {each.partition for each in found if each.value == name.encode()}


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "is_committed",
    [pytest.param(True, id="commit"), pytest.param(False, id="abort", marks=pytest.mark.slow)],
)
def test_what_a_dead_coordinator_has_prepared_is_finished_by_the_next_one(
    cluster: ClusterNodes, is_committed: bool
) -> None:
    name = f"tx-{is_committed}"
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "log_level": 0}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(WAIT_S)
    here, by_partition = coordinator(cluster, name), leaders(cluster)
    far = next(node for node in by_partition.values() if node != here.number)
    there = {partition for partition, node in by_partition.items() if node == far}
    producer.begin_transaction()
    for partition in by_partition:
        producer.produce(TOPIC, name, partition=partition)
    assert producer.flush(WAIT_S) == 0
    cluster.network.cut(here.number, far)
    end = producer.commit_transaction if is_committed else producer.abort_transaction
    ending = threading.Thread(target=_quietly, args=(end,), daemon=True)
    ending.start()
    try:
        decided = "PrepareCommit" if is_committed else "PrepareAbort"
        eventually(lambda: state(here, name) == decided, "the decision is stored")
        if is_committed:
            eventually(
                lambda: has_markers(cluster, name, set(by_partition) - there),
                "the other markers are written",
            )
        time.sleep(0.5)
        assert state(here, name) == decided, "a marker is missing"
        assert not has_markers(cluster, name, there)
    finally:
        here.kill()
        cluster.network.heal()
        cluster.launch(here)
    eventually(lambda: coordinator(cluster, name) is not here, "another node coordinates it")
    if is_committed:
        eventually(lambda: has_markers(cluster, name, there), "the last markers are written")
    # Whoever begins with the same id finds it finished; no partition is held by what was open.
    ending.join(WAIT_S)
    again = confluent_kafka.Producer(settings)
    again.init_transactions(WAIT_S)
    again.begin_transaction()
    for partition in by_partition:
        again.produce(TOPIC, f"{name}-again", partition=partition)
    again.commit_transaction(WAIT_S)
    eventually(
        lambda: has_markers(cluster, f"{name}-again", set(by_partition)), "nothing is held up"
    )
    found = [each.value for each in committed(cluster.bootstrap, TOPIC)]
    assert found.count(name.encode()) == (PARTITIONS if is_committed else 0)
    cluster.wait_ready(here)


def _quietly(end: object) -> None:
    """A client whose coordinator dies meanwhile; what it is told is its own business."""
    assert callable(end)
    with suppress(confluent_kafka.KafkaException):
        end(WAIT_S)
