"""What is asked and answered about a cluster."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from goqueue.protocols.http.api.gathered import Gathered
from goqueue.protocols.http.api.shapes import doc
from goqueue.protocols.http.limits import MAX_FILTER_CHARS, MAX_LISTED_PARTITIONS

Status: TypeAlias = Literal["healthy", "degraded", "unhealthy"]


class ClusterNode(msgspec.Struct):
    """A node of the cluster."""

    node_id: int
    name: str
    state: Annotated[
        str,
        doc("`active`, `starting`, `stopping`, `fenced` by the controller, or `away`.", "active"),
    ]
    controller: Annotated[bool, doc("Whether it decides who leads.")]
    leads: Annotated[int, doc("Partitions that it leads.", 5)]
    replicas: Annotated[int, doc("Partitions that it holds.", 15)]
    in_sync: Annotated[int, doc("Those in which it is in sync.", 15)]
    listeners: Annotated[
        dict[str, str], doc("Advertised addresses.", {"PLAINTEXT": "broker-1:9092"})
    ]
    internal: Annotated[str | None, doc("The address for other nodes.", "broker-1:7000")]
    rack: str | None
    version: str


class ClusterNodes(msgspec.Struct):
    """The nodes of the cluster."""

    cluster_id: str
    controller: Annotated[int | None, doc("The controller; null while there is none.", 1)]
    nodes: list[ClusterNode]


class ClusterPartition(msgspec.Struct):
    """A partition and the nodes that hold it."""

    topic: str
    partition: int
    leader: Annotated[int | None, doc("Null while nobody leads it.", 1)]
    epoch: Annotated[int, doc("The leader epoch.", 3)]
    replicas: Annotated[list[int], doc("The preferred leader first.", [1, 2, 3])]
    isr: Annotated[list[int], doc("The in-sync replicas.", [1, 2, 3])]
    elr: Annotated[list[int], doc("Eligible leaders outside of it.", [])]
    offline: Annotated[list[int], doc("Replicas on nodes that are away.", [])]
    min_isr: Annotated[int, doc("`min.insync.replicas` of the topic.", 2)]


class ClusterPartitions(msgspec.Struct):
    """Partitions, in the order that was asked for."""

    total: Annotated[int, doc("How many match, listed or not.", 12)]
    partitions: list[ClusterPartition]


class ListPartitions(msgspec.Struct, forbid_unknown_fields=True):
    """Which partitions to list."""

    state: Annotated[
        Literal["all", "under_replicated", "under_min_isr", "offline"],
        doc("Only those with replicas that are not in sync, or without a leader."),
    ] = "all"
    filter: Annotated[
        str,
        doc(
            "Words, all of which occur in `TOPIC-PARTITION node LEADER`, in any case.",
            "orders node 2",
            max_length=MAX_FILTER_CHARS,
        ),
    ] = ""
    order: Annotated[
        Literal["name", "state"],
        doc("`state`: without a leader first, then those with most replicas out of sync."),
    ] = "name"
    limit: Annotated[int, doc("How many to list.", 100, ge=1, le=MAX_LISTED_PARTITIONS)] = (
        MAX_LISTED_PARTITIONS
    )


class NodeMetrics(msgspec.Struct):
    """The metrics of one node."""

    node_id: int
    text: Annotated[str, doc("As `/metrics` of that node answers.")]


class ClusterMetrics(Gathered):
    """The metrics of all nodes; the node that was asked comes first."""

    nodes: list[NodeMetrics]


class ClusterHealth(msgspec.Struct):
    """Whether all is well in the cluster."""

    status: Annotated[
        Status,
        doc("`unhealthy`: some partitions cannot be read or written.", "healthy"),
    ]
    problems: list[str]
    nodes: int
    active_nodes: int
    offline_partitions: int
    under_replicated_partitions: int
    under_min_isr_partitions: int
