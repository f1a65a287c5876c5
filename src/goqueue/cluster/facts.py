"""What handlers ask about the cluster: which nodes there are, who leads a partition, who holds it.

One node answers for itself at no cost. In a cluster the answers come from the view of the metadata
store (`goqueue.cluster.view_facts`), a moment old: they tell clients where to try, and whoever is
asked there decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from goqueue.model.errors import (
    GoQueueError,
    LeaderUnavailableError,
    NotInClusterError,
    NotLeaderError,
)
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from goqueue.cluster.records import NodeAddress


HTTP_LISTENER: Final = "HTTP"
GRPC_LISTENER: Final = "GRPC"
"""The names under which nodes tell where they take requests besides Kafka's."""

ACTIVE: Final = "active"
STOPPING: Final = "stopping"
FENCED: Final = "fenced"
AWAY: Final = "away"


class NodeFacts(NamedTuple):
    """A node that clients may ask."""

    node_id: int
    listeners: Mapping[str, NodeAddress]
    """Advertised addresses by the names of listeners; of a node on its own, none is noted here."""
    rack: str | None = None


class MemberFacts(NamedTuple):
    """A node that belongs to the cluster, whether it is running or not."""

    node_id: int
    state: str
    """`active`, `starting` or `stopping` as it says itself, `fenced` as the controller says, or
    `away`."""
    name: str = ""
    listeners: Mapping[str, NodeAddress] | None = None
    """None of a node that is away, or on its own."""
    internal: NodeAddress | None = None
    rack: str | None = None
    version: str = ""

    @property
    def is_active(self) -> bool:
        """Whether it may lead partitions."""
        return self.state == ACTIVE


class PartitionFacts(NamedTuple):
    """Who holds a partition."""

    leader: int | None
    """None while no node that is alive leads it."""
    epoch: int
    """-1 when nothing is known of the partition."""
    replicas: Sequence[int]
    isr: Sequence[int]
    elr: Sequence[int] = ()
    offline: Sequence[int] = ()
    """Replicas on nodes that are not alive."""

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is not in sync."""
        return len(self.isr) < len(self.replicas) or not set(self.offline).isdisjoint(self.isr)


UNKNOWN: Final = PartitionFacts(None, -1, (), ())
"""Of a partition that has no record, or none yet."""


class ClusterFacts(Protocol):
    """The cluster, as far as answers to clients need it."""

    node_id: int
    """Of this node."""
    is_cluster: bool
    """Whether there may be other nodes."""

    def nodes(self) -> Sequence[NodeFacts]:
        """The nodes that serve clients, by their ids."""

    def node(self, node_id: int) -> NodeFacts | None:
        """One of them."""

    def members(self) -> Sequence[MemberFacts]:
        """Every node that belongs to the cluster, by its id."""

    def skewed(self) -> Mapping[int, int]:
        """By how many ms the clocks of other nodes differ from this one's, where that is much."""

    def controller_id(self) -> int | None:
        """The node that decides who leads; None while there is none."""

    def partition(self, topic_id: UUID, number: int) -> PartitionFacts:
        """Who holds a partition of a topic that exists."""


class OneNode:
    """A node without others: it leads everything and holds the only replica of it."""

    is_cluster = False

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self._nodes = (NodeFacts(node_id, {}),)
        self._partition = PartitionFacts(node_id, 0, (node_id,), (node_id,))

    def nodes(self) -> Sequence[NodeFacts]:
        """This one."""
        return self._nodes

    def node(self, node_id: int) -> NodeFacts | None:
        """This one, if it is meant."""
        return self._nodes[0] if node_id == self.node_id else None

    def members(self) -> Sequence[MemberFacts]:
        """This one."""
        return (MemberFacts(self.node_id, ACTIVE),)

    def skewed(self) -> Mapping[int, int]:
        """There is no other clock."""
        return {}

    def controller_id(self) -> int:
        """This one."""
        return self.node_id

    def partition(self, topic_id: UUID, number: int) -> PartitionFacts:  # noqa: ARG002 - the same for all
        """This node has it, in the only epoch there is."""
        return self._partition


def as_refused(error: GoQueueError) -> GoQueueError:
    """What protocols say that cannot send their clients to another node.

    Clients of Kafka's protocol find leaders and coordinators by themselves.
    """
    if isinstance(error, NotLeaderError) and error.leader is None:
        return LeaderUnavailableError(f"{error.partition} has no leader at the moment: try again")
    if isinstance(error, NotLeaderError):
        return LeaderUnavailableError(
            f"{error.partition} is led by node {error.leader} and has just moved: try again"
        )
    return error


def not_in_cluster(what: str) -> NotInClusterError:
    """The refusal of something that a cluster does not serve."""
    return NotInClusterError(
        f"{what}: not yet in a cluster. Use a server of one node for it; a cluster serves topics, "
        "producers, consumers and consumer groups over the Kafka protocol"
    )
