"""Where in the cluster something is served, for those who have to ask there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import LeaderUnavailableError, PeerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.cluster.facts import ClusterFacts
    from goqueue.cluster.peers import Peers
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.topics.catalogue import Topics


class Routes:
    """Who leads what, as far as this node knows: whoever is asked there decides."""

    def __init__(self, topics: Topics, facts: ClusterFacts) -> None:
        self.node_id = facts.node_id
        self.is_cluster = facts.is_cluster
        self._topics = topics
        self._facts = facts
        self._peers: Peers | None = None

    @property
    def peers(self) -> Peers:
        """The connections to the other nodes.

        Raises:
            PeerUnavailableError: this node is on its own.
        """
        if self._peers is None:
            raise PeerUnavailableError("this node has no others to ask: it is not in a cluster")
        return self._peers

    def connect(self, peers: Peers) -> None:
        """Ask other nodes over these connections from now on."""
        self._peers = peers

    def leader_of(self, partition_id: TopicPartition) -> int:
        """The node that leads a partition.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is no such partition.
            LeaderUnavailableError: nobody leads it at the moment.
        """
        topic = self._topics.catalogue.require(partition_id)
        leader = self._facts.partition(topic.topic_id, partition_id.partition).leader
        if leader is None:
            raise LeaderUnavailableError(f"{partition_id} has no leader at the moment: try again")
        return leader

    def is_here(self, partition_id: TopicPartition) -> bool:
        """Whether this node leads a partition. Raises like `leader_of`."""
        return not self.is_cluster or self.leader_of(partition_id) == self.node_id

    def others(self) -> Sequence[int]:
        """The other nodes that serve clients."""
        return [each.node_id for each in self._facts.nodes() if each.node_id != self.node_id]
