"""Messages of queues copied to another partition, exactly once: the hand-over of `publishing`.

That messages are about to be copied is an operation of their queue, `Moving`; that they have been,
`Settled`. In between only the log of the target knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import UnknownTopicError
from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
from goqueue.publishing.handover import FIRST_EPOCH, Handover
from goqueue.queues.delivery import operations as ops
from goqueue.records import peek

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from goqueue.partitions.partition import Placed
    from goqueue.partitions.producer_ids import ProducerIds
    from goqueue.publishing.handover import Position, Target
    from goqueue.publishing.targets import Targets
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.delivery.operations import Operation
    from goqueue.queues.delivery.queue import PartitionQueue
    from goqueue.queues.service import Queues
    from goqueue.topics.catalogue import Topics


class Moves:
    """Copies messages of queues, one batch at a time."""

    def __init__(
        self, queues: Queues, topics: Topics, targets: Targets, producer_ids: ProducerIds
    ) -> None:
        self._queues = queues
        self._topics = topics
        self._targets = targets
        self._producer_ids = producer_ids
        self._handover: Handover | None = None

    async def next_to(self, target: Target) -> tuple[Handover, Position]:
        """Whose batch the next one is, and where it goes.

        Raises:
            GoQueueError: whoever leads the target cannot say, or not now.
        """
        if self._handover is None:
            self._handover = Handover(await self._producer_ids.allocate())
        return self._handover, await target.position(self._handover)

    async def move(
        self,
        group: QueueGroup,
        key: TopicIdPartition,
        offsets: Sequence[int],
        *,
        place: TopicPartition,
        batch: bytearray,
        from_offset: int,
        append: Callable[[bytearray], Awaitable[Placed]],
    ) -> Placed:
        """Copy messages as the batch of `next_to`; their group is done with them then.

        Nothing that `append` appends to the partition there lies before `from_offset`.

        Raises:
            GoQueueError: as `append` does, or the state cannot be stored; `resolve` finds out
                whether they were copied.
        """
        info = peek(batch)
        moving = ops.Moving(
            *place, info.base_sequence, list(offsets), info.producer_id, from_offset
        )
        try:
            await self.change(group, key, moving)
            placed = await append(batch)
            await self.change(group, key, ops.Settled(ops.ranges_of(offsets)))
        except BaseException:
            self._handover = None  # no other batch may have the sequence of this one
            raise
        return placed

    async def resolve(self, group: QueueGroup, key: TopicIdPartition) -> PartitionQueue:
        """A queue, once it is known whether messages that were about to be copied have been.

        Raises:
            StorageError, ClusterError: the log of the target cannot tell, or not now.
            UnknownTopicError: the topic was deleted meanwhile.
        """
        queue = group.queues.get(key)
        if queue is None:
            raise UnknownTopicError("the topic was just deleted")
        for moving in list(queue.moving):
            if moving.base_sequence in await self._found(moving):
                await self.change(group, key, ops.Settled(ops.ranges_of(moving.offsets)))
            if moving in queue.moving:
                queue.moving.remove(moving)
        return queue

    async def _found(self, moving: ops.Moving) -> set[int]:
        """The sequences that are in the log of the target; none of one that is gone."""
        try:
            target = self._targets.of(TopicPartition(moving.topic, moving.partition))
            return await target.found(moving.producer_id, FIRST_EPOCH, moving.from_offset)
        except UnknownTopicError:
            if await self._topics.is_gone(moving.topic):
                return set()
            raise  # this node has not heard of it yet

    async def change(self, group: QueueGroup, key: TopicIdPartition, operation: Operation) -> None:
        """Store what happens to messages of a queue.

        Raises:
            UnknownTopicError: the topic was deleted meanwhile.
        """
        if key not in group.queues:
            raise UnknownTopicError("the topic was just deleted")
        await self._queues.shard_of(group).store(group, {key: [operation]})
