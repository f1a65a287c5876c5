"""Where queue groups begin to read a partition."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from goqueue.groups.encoding import CommittedOffset
from goqueue.model.iso_duration import iso_duration_ms
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from goqueue.groups.service import Groups
    from goqueue.partitions.partition import Partition
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.runtime.clock import Clock


class StartServices(Protocol):
    """What tells where a queue group begins."""

    groups: Groups
    clock: Clock
    executor: Executor


async def start_of(
    services: StartServices, group: QueueGroup, partition: Partition, *, is_new_topic: bool
) -> int:
    """Where a group begins to read a partition.

    Where consumers of the same name stopped, if there were any; partitions by which a topic has
    grown are read whole.
    """
    topic, number = partition.id
    coordinator = services.groups.coordinator(group.group_id)
    committed = coordinator.fetch_offsets(group.group_id, [TopicPartition(topic, number)])[
        TopicPartition(topic, number)
    ]
    if isinstance(committed, CommittedOffset) and committed.offset >= partition.log_start:
        return committed.offset
    if not is_new_topic:
        return partition.log_start
    return await reset_start(services, group, partition)


async def reset_start(services: StartServices, group: QueueGroup, partition: Partition) -> int:
    """Where a group begins that knows nothing of a partition."""
    ago_ms = iso_duration_ms(group.settings.start_ago)
    if ago_ms is not None:
        moment_ms = max(services.clock.now_ms() - ago_ms, 0)
        loop = asyncio.get_running_loop()
        hit = await loop.run_in_executor(services.executor, partition.find_time, moment_ms)
        end = partition.readable_to(group.isolation)
        return end if hit is None else min(max(hit.offset, partition.log_start), end)
    if group.settings.start_at_latest:
        return partition.readable_to(group.isolation)
    return partition.log_start
