"""The cluster: its nodes, who holds which partition, and whether all is well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.insight.cluster_views import ClusterViews, NodeLine, PartitionLine
from goqueue.protocols.http.api.places import LOCAL
from goqueue.protocols.http.api.rights import DESCRIBE, on_cluster
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.operations.cluster_shapes import (
    ClusterHealth,
    ClusterNode,
    ClusterNodes,
    ClusterPartition,
    ClusterPartitions,
    ListPartitions,
    Status,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.broker.broker import Broker

_TAG: Final = "cluster"
_STATES: Final[dict[str, Callable[[PartitionLine], bool]]] = {
    "all": lambda _: True,
    "under_replicated": lambda line: line.is_under_replicated,
    "under_min_isr": lambda line: line.is_under_minimum,
    "offline": lambda line: line.is_offline,
}


class ClusterRoutes:
    """Clusters; a server on its own is a cluster of one node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._views = ClusterViews(broker.facts, broker.topics)

    @route("GET", "/cluster/nodes", right=on_cluster(DESCRIBE), tag=_TAG, place=LOCAL)
    async def nodes(self) -> ClusterNodes:
        """List the nodes of the cluster."""
        return ClusterNodes(
            self._broker.settings.cluster_id,
            self._broker.facts.controller_id(),
            [_node(line) for line in self._views.nodes()],
        )

    @route("GET", "/cluster/partitions", right=on_cluster(DESCRIBE), tag=_TAG, place=LOCAL)
    async def partitions(self, query: ListPartitions) -> ClusterPartitions:
        """List partitions with their leaders and replicas."""
        is_meant, words = _STATES[query.state], query.filter.lower().split()
        found = [
            line
            for line in self._views.partitions()
            if is_meant(line) and (not words or _has_each(line, words))
        ]
        if query.order == "state":
            found.sort(key=_in_sync_missing)
        return ClusterPartitions(len(found), [_partition(line) for line in found[: query.limit]])

    @route("GET", "/cluster/health", right=on_cluster(DESCRIBE), tag=_TAG, place=LOCAL)
    async def health(self) -> ClusterHealth:
        """Whether every partition has a leader and enough in-sync replicas."""
        verdict = self._views.verdict()
        status: Status = "degraded" if verdict.problems else "healthy"
        return ClusterHealth(
            status if verdict.is_serving else "unhealthy",
            list(verdict.problems),
            verdict.node_count,
            verdict.active_count,
            verdict.offline_count,
            verdict.under_replicated_count,
            verdict.under_minimum_count,
        )


def _node(line: NodeLine) -> ClusterNode:
    member = line.member
    return ClusterNode(
        member.node_id,
        member.name,
        member.state,
        line.is_controller,
        line.leads,
        line.replicas,
        line.in_sync,
        {name: f"{each.host}:{each.port}" for name, each in (member.listeners or {}).items()},
        None if member.internal is None else f"{member.internal.host}:{member.internal.port}",
        member.rack,
        member.version,
    )


def _in_sync_missing(line: PartitionLine) -> tuple[bool, int]:
    return not line.is_offline, len(line.facts.isr) - len(line.facts.replicas)


def _has_each(line: PartitionLine, words: list[str]) -> bool:
    leader = "none" if line.facts.leader is None else line.facts.leader
    text = f"{line.topic}-{line.number} node {leader}".lower()
    return all(word in text for word in words)


def _partition(line: PartitionLine) -> ClusterPartition:
    facts = line.facts
    return ClusterPartition(
        line.topic,
        line.number,
        facts.leader,
        facts.epoch,
        list(facts.replicas),
        list(facts.isr),
        list(facts.elr),
        list(facts.offline),
        line.min_isr,
    )
