"""What handlers ask about the cluster, answered from this node's view of the metadata store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from goqueue.cluster.facts import ClusterFacts
    from goqueue.cluster.view import ClusterView, NodeView


SKEW_MS: Final = 500
"""Wall clocks that differ by more are told."""
_LAPSED_S: Final = 30.0
"""How long a node without a registration is told to clients, unless it is fenced."""


class ViewFacts:
    """A cluster as one of its nodes sees it."""

    is_cluster = True

    def __init__(
        self, view: ClusterView, node_id: int, now_s: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.node_id = node_id
        self.view = view
        self._now_s = now_s
        self.skews_ms: Callable[[], Mapping[int, int]] = dict
        """By how much the wall clocks of other nodes are ahead of this one's, by their pings."""
        self._lapsed_s: dict[int, float] = {}
        """Since when nodes have been without a registration; an entry a node at most."""

    def nodes(self) -> Sequence[NodeFacts]:
        """The nodes that are registered, not fenced and done with starting, and this one.

        One that is stopping is among them: clients talk to it until it leads nothing more. So is
        one whose registration has lapsed a moment ago: all of them lapse when etcd is away, and
        clients drop every node that is not told.
        """
        known = {*self.view.nodes, *self.view.lapsed, self.node_id}
        found = map(self.node, sorted(known))
        return [each for each in found if each is not None]

    def node(self, node_id: int) -> NodeFacts | None:
        """One of them."""
        node = self._found(node_id)
        if node is None or node.record.state is NodeState.STARTING:
            # It answers, whatever the others think of it; its addresses are its own business.
            return NodeFacts(node_id, {}) if node_id == self.node_id else None
        return NodeFacts(node_id, node.record.listeners, node.record.rack)

    def _found(self, node_id: int) -> NodeView | None:
        """The registration of a node that is alive, or may be: it has lapsed a moment ago."""
        node = self.view.nodes.get(node_id)
        if node is not None:
            self._lapsed_s.pop(node_id, None)
            return None if self.view.is_fenced(node_id) else node
        node = self.view.lapsed.get(node_id)
        if node is None:
            return None
        fence = self.view.fences.get(node_id)
        if fence is not None and fence.value.incarnation >= node.incarnation:
            return None
        now_s = self._now_s()
        is_recent = now_s - self._lapsed_s.setdefault(node_id, now_s) < _LAPSED_S
        return node if is_recent else None

    def _is_served(self, node_id: int) -> bool:
        """Whether `nodes` names it: clients of some libraries hang on a leader that they lack."""
        node = self._found(node_id)
        return node is not None and node.record.state is not NodeState.STARTING

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

    def skewed(self) -> Mapping[int, int]:
        """By how many ms the clocks of other nodes differ from this one's, where that is much."""
        return {node: ms for node, ms in sorted(self.skews_ms().items()) if abs(ms) > SKEW_MS}

    def controller_id(self) -> int | None:
        """The node that decides, if it is alive."""
        return self.view.controller_id()

    def partition(self, topic_id: UUID, number: int) -> PartitionFacts:
        """What the partition's record says; a leader that clients are not told of is none."""
        stored = self.view.partitions.get(PartitionKey(topic_id, number))
        if stored is None:
            return UNKNOWN
        record, is_served = stored.value, self._is_served
        leader = record.leader
        return PartitionFacts(
            leader if leader is not None and is_served(leader) else None,
            record.epoch,
            record.replicas,
            record.isr,
            record.elr,
            tuple(each for each in record.replicas if not is_served(each)),
        )


def view_of(facts: ClusterFacts) -> ClusterView:
    """The view that facts of a cluster come from."""
    assert isinstance(facts, ViewFacts)  # one node has none, and is not asked
    return facts.view
