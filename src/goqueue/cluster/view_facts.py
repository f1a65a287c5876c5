"""What handlers ask about the cluster, answered from this node's view of the metadata store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.cluster.facts import (
    AWAY,
    FENCED,
    UNKNOWN,
    MemberFacts,
    NodeFacts,
    PartitionFacts,
)
from goqueue.cluster.records import NodeState, PartitionKey

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from goqueue.cluster.facts import ClusterFacts
    from goqueue.cluster.view import ClusterView


class ViewFacts:
    """A cluster as one of its nodes sees it."""

    is_cluster = True

    def __init__(self, view: ClusterView, node_id: int) -> None:
        self.node_id = node_id
        self.view = view

    def nodes(self) -> Sequence[NodeFacts]:
        """The nodes that are registered, not fenced and done with starting.

        One that is stopping is among them: clients talk to it until it leads nothing more.
        """
        found = map(self.node, sorted(self.view.nodes))
        return [each for each in found if each is not None]

    def node(self, node_id: int) -> NodeFacts | None:
        """One of them."""
        node = self.view.nodes.get(node_id)
        if node is None or node.record.state is NodeState.STARTING or self.view.is_fenced(node_id):
            return None
        return NodeFacts(node_id, node.record.listeners, node.record.rack)

    def members(self) -> Sequence[MemberFacts]:
        """The nodes that have ever had a folder in the cluster, and those that are registered."""
        ids = self.view.members.keys() | self.view.nodes.keys()
        return [self._member(each) for each in sorted(ids)]

    def _member(self, node_id: int) -> MemberFacts:
        node, known = self.view.nodes.get(node_id), self.view.members.get(node_id)
        if node is None:
            return MemberFacts(node_id, AWAY, "" if known is None else known.value.name)
        record = node.record
        state = FENCED if self.view.is_fenced(node_id) else record.state.value
        return MemberFacts(
            node_id,
            state,
            record.name,
            record.listeners,
            record.internal,
            record.rack,
            record.version,
        )

    def controller_id(self) -> int | None:
        """The node that decides, if it is alive."""
        return self.view.controller_id()

    def partition(self, topic_id: UUID, number: int) -> PartitionFacts:
        """What the partition's record says; a leader that is not alive is no leader."""
        stored = self.view.partitions.get(PartitionKey(topic_id, number))
        if stored is None:
            return UNKNOWN
        record, is_alive = stored.value, self.view.is_alive
        leader = record.leader
        return PartitionFacts(
            leader if leader is not None and is_alive(leader) else None,
            record.epoch,
            record.replicas,
            record.isr,
            record.elr,
            tuple(each for each in record.replicas if not is_alive(each)),
        )


def view_of(facts: ClusterFacts) -> ClusterView:
    """The view that facts of a cluster come from."""
    assert isinstance(facts, ViewFacts)  # one node has none, and is not asked
    return facts.view
