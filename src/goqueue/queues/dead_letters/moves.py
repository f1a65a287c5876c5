"""Messages of queues copied to another partition, exactly once: the hand-over of `publishing`.

That messages are about to be copied is an operation of their queue, `Moving`; that they have been,
`Settled`. In between only the log of the target knows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from goqueue.model.errors import UnknownTopicError
from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
from goqueue.publishing.handover import Handover
from goqueue.queues.delivery import operations as ops
from goqueue.records import peek
from goqueue.runtime.tasks import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from concurrent.futures import Executor

    from goqueue.partitions.partition import Partition, Placed
    from goqueue.partitions.partitions import Partitions
    from goqueue.partitions.producer_ids import ProducerIds
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.delivery.operations import Operation
    from goqueue.queues.delivery.queue import PartitionQueue
    from goqueue.queues.service import Queues


class Moves:
    """Copies messages of queues, one batch at a time."""

    def __init__(
        self, queues: Queues, partitions: Partitions, producer_ids: ProducerIds, executor: Executor
    ) -> None:
        self._queues = queues
        self._partitions = partitions
        self._producer_ids = producer_ids
        self._executor = executor
        self._handover: Handover | None = None

    async def handover(self) -> Handover:
        """Whose batches the next ones are."""
        if self._handover is None:
            self._handover = Handover(await self._producer_ids.allocate())
        return self._handover

    async def move(
        self,
        group: QueueGroup,
        key: TopicIdPartition,
        offsets: Sequence[int],
        target: Partition,
        batch: bytearray,
        *,
        append: Callable[[bytearray], Awaitable[Placed]],
    ) -> Placed:
        """Copy messages as a batch of `handover`; their group is done with them then.

        Raises:
            GoQueueError: as `append` does, or the state cannot be stored; `resolve` finds out
                whether they were copied.
        """
        info = peek(batch)
        moving = ops.Moving(
            *target.id, info.base_sequence, list(offsets), info.producer_id, target.log_end
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
            StorageError: the log of the target cannot tell.
            UnknownTopicError: the topic was deleted meanwhile.
        """
        queue = group.queues.get(key)
        if queue is None:
            raise UnknownTopicError("the topic was just deleted")
        for moving in list(queue.moving):
            target = self._partitions.find(TopicPartition(moving.topic, moving.partition))
            found: set[int] = set()
            if target is not None:
                if target.failure is not None:
                    raise target.failure
                look = partial(Handover(moving.producer_id).found, target, moving.from_offset)
                found = await in_thread(self._executor, look)
            if moving.base_sequence in found:
                await self.change(group, key, ops.Settled(ops.ranges_of(moving.offsets)))
            if moving in queue.moving:
                queue.moving.remove(moving)
        return queue

    async def change(self, group: QueueGroup, key: TopicIdPartition, operation: Operation) -> None:
        """Store what happens to messages of a queue.

        Raises:
            UnknownTopicError: the topic was deleted meanwhile.
        """
        if key not in group.queues:
            raise UnknownTopicError("the topic was just deleted")
        await self._queues.shard_of(group).store(group, {key: [operation]})
