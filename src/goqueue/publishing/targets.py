"""The way to whoever leads a partition, for those who hand messages over."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from goqueue.publishing.local_target import LocalTarget
from goqueue.publishing.remote_target import RemoteTarget
from goqueue.runtime.byte_room import ByteRoom

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partitions import Partitions
    from goqueue.publishing.publish import Publisher
    from goqueue.topics.catalogue import Topics
    from goqueue.topics.routes import Routes


_MAX_MOVED_BYTES: Final = 4 * 1024 * 1024
"""Batches on their way to the partitions of one other node, with their copies. A further one waits,
and what falls due for its partition meanwhile is not made into batches; one that is larger is sent
while there is no other."""


class Targets:
    """Partitions to hand messages over to. Each is good for one hand-over: leaders change."""

    def __init__(
        self,
        topics: Topics,
        partitions: Partitions,
        routes: Routes,
        publisher: Publisher,
        executor: Executor,
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._routes = routes
        self.is_cluster = routes.is_cluster
        self._publisher = publisher
        self._executor = executor
        self._rooms: defaultdict[int, ByteRoom] = defaultdict(lambda: ByteRoom(_MAX_MOVED_BYTES))
        """Of batches on their way to other nodes; as many as there are nodes."""

    def of(self, partition_id: TopicPartition) -> LocalTarget | RemoteTarget:
        """A partition, by who leads it now.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is none.
            NotLeaderError, LeaderUnavailableError: it is being moved; try again.
        """
        routes = self._routes
        if routes.is_here(partition_id):
            return self.local(partition_id)
        topic = self._topics.catalogue.require(partition_id)
        leader = routes.leader_of(partition_id)
        room = self._rooms[leader]
        return RemoteTarget(partition_id, topic.topic_id, leader, routes.peers, room)

    def local(self, partition_id: TopicPartition) -> LocalTarget:
        """A partition that this node leads. Raises like `of`, `NotLeaderError` for any other."""
        partition = self._partitions.partition(partition_id)
        return LocalTarget(partition, self._publisher, self._executor, is_cluster=self.is_cluster)
