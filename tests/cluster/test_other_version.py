"""A node of another version, which cannot serve what the others forward to it.

Clients are told so, and that they may try again; everything that needs no forwarding goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest

import goqueue
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from support.cluster_nodes import ClusterNodes
from support.etcd import need_etcd
from support.hooked_nodes import hook_environment
from support.node_hooks.sitecustomize import VERSION
from support.node_requests import NODES, Nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

OTHER = 3
"""The node of the other version."""
THEIRS = "0.0.1"
TOPIC = "t"


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    need_etcd()
    folder = tmp_path_factory.mktemp("cluster")
    cluster = ClusterNodes(folder)
    cluster.nodes[OTHER].environment |= hook_environment(folder, OTHER) | {VERSION: THEIRS}
    try:
        cluster.start()
        nodes = Nodes(cluster)  # type: ignore[arg-type]  # it has the same addresses
        nodes.surely(1, "POST", "/topics", {"name": TOPIC, "num_partitions": 3})
        yield nodes
    finally:
        cluster.close()


def says_why(text: str) -> bool:
    return f"node {OTHER} runs goqueue {THEIRS} and this node {goqueue.__version__}" in text


def test_a_request_is_refused_until_the_node_is_upgraded_and_served_by_the_node_itself(nodes):
    group = nodes.group_at(OTHER)
    path, offsets = f"/groups/{group}/offsets", {"offsets": {TOPIC: {"0": 7}}}
    for node in set(NODES) - {OTHER}:
        refused = nodes.ask(node, "POST", path, offsets)
        assert refused.is_retriable, refused
        assert refused.body["code"] == "peer_version"
        assert says_why(refused.body["detail"])
    nodes.surely(OTHER, "POST", path, offsets)
    assert nodes.surely(OTHER, "GET", path)["offsets"] == offsets["offsets"]


def test_a_call_is_refused_until_the_node_is_upgraded(nodes):
    request = pb.CommitOffsetsRequest(
        group=nodes.group_at(OTHER),
        offsets=[pb.PartitionOffset(topic=TOPIC, partition=0, offset=7)],
    )
    told: Any = None
    with grpc.insecure_channel(nodes.cluster.grpc_address(1)) as channel:
        with pytest.raises(grpc.RpcError) as refused:
            services.OffsetServiceStub(channel).CommitOffsets(request, timeout=60)
        told = refused.value
    assert told.code() is grpc.StatusCode.UNAVAILABLE
    assert says_why(told.details())


def test_lists_name_it_and_messages_go_through_every_node(nodes):
    (missing,) = nodes.ask(1, "GET", "/groups").body["unanswered"]
    assert missing["node_id"] == OTHER
    assert says_why(missing["error"])
    values = {f"{node}-{at}" for node in NODES for at in range(3)}
    for node in NODES:
        nodes.known(node, TOPIC)
        messages = [{"value": f"{node}-{at}", "partition": at} for at in range(3)]
        answer = nodes.surely(node, "POST", f"/topics/{TOPIC}/messages", {"messages": messages})
        assert {each["status"] for each in answer["results"]} == {200}
    for node in NODES:
        read = nodes.surely(node, "GET", f"/topics/{TOPIC}/messages?limit=100")["messages"]
        assert {each["value"] for each in read} == values
