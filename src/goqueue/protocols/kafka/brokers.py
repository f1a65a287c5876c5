"""The nodes of the cluster as clients of a listener reach them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError, NotLeaderError
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.produce import NodeEndpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from uuid import UUID

    from goqueue.cluster.facts import ClusterFacts, NodeFacts, PartitionFacts
    from goqueue.cluster.records import NodeAddress
    from goqueue.protocols.kafka.settings import Address

NONE: Final = -1
"""Kafka's id of no node."""


class Brokers:
    """What answers say of nodes: their addresses under the name of the listener that was asked."""

    def __init__(self, facts: ClusterFacts, advertised: Mapping[str, Address]) -> None:
        """`advertised` are the addresses of this node."""
        self._facts = facts
        self._advertised = advertised
        self.is_cluster = facts.is_cluster

    def all(self, listener_name: str) -> list[NodeEndpoint]:
        """The nodes that serve clients; those without a listener of this name are left out."""
        found = (self._endpoint(each, listener_name) for each in self._facts.nodes())
        return [each for each in found if each is not None]

    def find(self, node_id: int | None, listener_name: str) -> NodeEndpoint | None:
        """One of them."""
        node = None if node_id is None else self._facts.node(node_id)
        return None if node is None else self._endpoint(node, listener_name)

    def _endpoint(self, node: NodeFacts, listener_name: str) -> NodeEndpoint | None:
        address: Address | NodeAddress | None
        if node.node_id == self._facts.node_id:
            address = self._advertised.get(listener_name)  # none for other nodes, which know it
        else:
            address = node.listeners.get(listener_name)
        if address is None:
            return None
        return NodeEndpoint(node.node_id, address.host, address.port, node.rack)

    def controller_id(self, listener_name: str) -> int:
        """The controller, if clients can reach it, else this node, which takes requests for it.

        Clients send changes of topics there, and have to find it among the nodes.
        """
        controller = self._facts.controller_id()
        if self.find(controller, listener_name) is None:
            return self._facts.node_id
        return NONE if controller is None else controller

    def named(
        self, leaders: Iterable[tuple[int, int] | None], listener_name: str
    ) -> list[NodeEndpoint]:
        """The addresses of the leaders that an answer names (KIP-951)."""
        ids = {each[0] for each in leaders if each is not None}
        found = (self.find(each, listener_name) for each in sorted(ids))
        return [each for each in found if each is not None]

    def partition(self, topic_id: UUID, number: int) -> PartitionFacts:
        """Who holds a partition."""
        return self._facts.partition(topic_id, number)


def leader_of(error: GoQueueError | None) -> tuple[int, int] | None:
    """The leader and its epoch that a refusal names, for the answer (KIP-951)."""
    if not isinstance(error, NotLeaderError) or error.leader is None:
        return None
    return error.leader, error.epoch


def leader_code(leader: int | None) -> ErrorCode:
    """What an answer says of a partition with this leader."""
    return ErrorCode.leader_not_available if leader is None else ErrorCode.none
