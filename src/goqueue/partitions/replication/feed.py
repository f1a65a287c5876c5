"""What followers get of the partitions that this node leads; see `feed_session`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.partitions.replication.feed_session import FeedSession
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor
    from uuid import UUID

    from goqueue.cluster.records import PartitionKey
    from goqueue.partitions.replication.led import LedPartition
    from goqueue.partitions.replication.traffic import ReplicationTraffic
    from goqueue.runtime.clock import Clock


class ReplicaFeed:
    """The sessions of all followers of this node."""

    def __init__(
        self,
        led: Mapping[PartitionKey, LedPartition],
        clock: Clock,
        executor: Executor,
        known_topic: Callable[[UUID], bool] = lambda _: True,
        *,
        traffic: ReplicationTraffic,
    ) -> None:
        """Feed the followers of `led`; what is not in memory is read by the executor."""
        self._led = led
        self.clock = clock
        self.executor = executor
        self._known_topic = known_topic
        self.traffic = traffic

    def open(self, node_id: int, incarnation: int) -> FeedSession:
        """A session for a connection of a node, in one run of it."""
        return FeedSession(self, node_id, incarnation)

    def find(self, key: PartitionKey) -> LedPartition | ErrorCode:
        """A partition that this node leads, or why there is nothing to be had of it."""
        led = self._led.get(key)
        if led is not None:
            return led
        if self._known_topic(key.topic_id):
            return ErrorCode.not_leader_or_follower
        return ErrorCode.unknown_topic_id
