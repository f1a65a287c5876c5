"""Asking whoever leads a partition, this node or another, about it.

What is asked so changes nothing, or may be asked twice: when the leader moves, or is away for a
moment, the next one is asked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.model.errors import (
    DamagedRangeError,
    GoQueueError,
    InternalTopicError,
    LeaderUnavailableError,
    LogFailedError,
    NotEnoughReplicasAfterAppendError,
    NotLeaderError,
    OffsetNotAvailableError,
    OffsetOutOfRangeError,
    PeerUnavailableError,
    UnknownPartitionError,
    UnknownTopicError,
    UnknownTopicIdError,
)
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.cluster.facts import ClusterFacts
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.runtime.tasks import Sleep
    from goqueue.topics.catalogue import Topics
    from goqueue.topics.routes import Routes

_T = TypeVar("_T")

PATIENCE_S: Final = 5.0
"""How long a leader is waited for: longer than an election takes."""
RETRY_S: Final = 0.05
MOVING: Final = (
    NotLeaderError,
    LeaderUnavailableError,
    UnknownTopicError,
    UnknownTopicIdError,
    UnknownPartitionError,
)
"""Refusals of a node that does not lead the partition, yet or any more: nothing was done."""
_PASSING: Final = (*MOVING, OffsetNotAvailableError, PeerUnavailableError)


class Leaders:
    """Finds the leaders of partitions, again while they move."""

    def __init__(
        self,
        topics: Topics,
        partitions: Partitions,
        facts: ClusterFacts,
        routes: Routes,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._facts = facts
        self.routes = routes
        self._sleep = sleep

    def replica(self, partition_id: TopicPartition) -> Partition | None:
        """A replica here that has all that is committed, but for a moment; None: there is none."""
        found = self._partitions.find(partition_id)
        topic = self._topics.catalogue.by_name.get(partition_id.topic)
        if found is None or topic is None or found.is_leading:
            return found
        known = self._facts.partition(topic.topic_id, partition_id.partition)
        return found if self._facts.node_id in known.isr else None

    async def ask(
        self,
        partition_id: TopicPartition,
        here: Callable[[Partition], Awaitable[_T]],
        there: Callable[[int], Awaitable[_T]],
    ) -> _T:
        """Ask the leader: `here` with the partition, or `there` with the id of the other node.

        Raises:
            UnknownTopicError, UnknownPartitionError: there is no such partition.
            LeaderUnavailableError, PeerUnavailableError: no leader has answered for a while.
            GoQueueError: what the leader has said.
        """
        if not self.routes.is_cluster:
            return await here(self._partitions.partition(partition_id))
        for _ in range(round(PATIENCE_S / RETRY_S)):
            leader = None
            try:
                leader = self.routes.leader_of(partition_id)
                if leader != self.routes.node_id:
                    return await there(leader)
                return await here(self._partitions.partition(partition_id))
            except _PASSING as error:
                if leader is None and not isinstance(error, LeaderUnavailableError):
                    raise  # there is no such partition
                last: GoQueueError = error
            await self._sleep(RETRY_S)
        if isinstance(last, PeerUnavailableError | OffsetNotAvailableError):
            raise last
        raise LeaderUnavailableError(
            f"{partition_id} had no leader that answers for {PATIENCE_S:g} s: try again ({last})"
        )


_REFUSALS: Final[dict[int, type[GoQueueError]]] = {
    ErrorCode.unknown_topic_or_partition: UnknownPartitionError,
    ErrorCode.unknown_topic_id: UnknownTopicIdError,
    ErrorCode.leader_not_available: LeaderUnavailableError,
    ErrorCode.not_leader_or_follower: LeaderUnavailableError,
    ErrorCode.fenced_leader_epoch: LeaderUnavailableError,
    ErrorCode.unknown_leader_epoch: LeaderUnavailableError,
    ErrorCode.offset_not_available: OffsetNotAvailableError,
    ErrorCode.kafka_storage_error: LogFailedError,
    ErrorCode.invalid_topic_exception: InternalTopicError,
    ErrorCode.not_enough_replicas_after_append: NotEnoughReplicasAfterAppendError,
}


def check_answer(
    partition_id: TopicPartition,
    code: int,
    *,
    offset: int = -1,
    log_start: int = -1,
    log_end: int = -1,
) -> None:
    """Raise what a leader has answered about a partition by a code of Kafka's; 0 is nothing."""
    if not code:
        return
    if code == ErrorCode.offset_out_of_range:
        raise OffsetOutOfRangeError(offset, log_start, log_end)
    if code == ErrorCode.corrupt_message:
        raise DamagedRangeError(offset, offset + 1, f"the leader of {partition_id} says so")
    try:
        name = ErrorCode(code).name
    except ValueError:
        name = f"error code {code}"
    kind = _REFUSALS.get(code, PeerUnavailableError)
    raise kind(f"{partition_id}: its leader answers {name}")
