"""Where queue groups begin to read a partition."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from goqueue.groups.encoding import CommittedOffset
from goqueue.model.iso_duration import iso_duration_ms
from goqueue.partitions.partition import Isolation
from goqueue.reading.positions import Anchor, Position

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from goqueue.groups.service import Groups
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.reading.positions import Positions
    from goqueue.runtime.clock import Clock


class StartServices(Protocol):
    """What tells where a queue group begins."""

    groups: Groups
    clock: Clock
    executor: Executor
    partitions: Partitions
    positions: Positions


async def start_of(
    services: StartServices, group: QueueGroup, place: TopicPartition, *, is_new_topic: bool
) -> int:
    """Where a group begins to read a partition, by what its leader knows now.

    Where consumers of the same name stopped, if there were any; partitions by which a topic has
    grown are read whole.
    """
    group_id = group.group_id
    committed = await services.groups.told(
        lambda: services.groups.coordinator(group_id).fetch_offsets(group_id, [place])[place],
        group_id,
    )
    log_start = await _log_start(services, place)
    if isinstance(committed, CommittedOffset) and committed.offset >= log_start:
        return committed.offset
    if not is_new_topic:
        return log_start
    return await reset_start(services, group, place)


def _led_here(services: StartServices, place: TopicPartition) -> Partition | None:
    partition = services.partitions.find(place)
    return partition if partition is not None and partition.is_leading else None


async def _log_start(services: StartServices, place: TopicPartition) -> int:
    partition = _led_here(services, place)
    return (
        (await services.positions.ends(place)).log_start
        if partition is None
        else (partition.log_start)
    )


async def reset_start(services: StartServices, group: QueueGroup, place: TopicPartition) -> int:
    """Where a group begins that knows nothing of a partition."""
    partition = _led_here(services, place)
    ago_ms = iso_duration_ms(group.settings.start_ago)
    moment_ms = None if ago_ms is None else max(services.clock.now_ms() - ago_ms, 0)
    if partition is None:
        return await _remote_start(services, group, place, moment_ms)
    if moment_ms is not None:
        loop = asyncio.get_running_loop()
        hit = await loop.run_in_executor(services.executor, partition.find_time, moment_ms)
        end = partition.readable_to(group.isolation)
        return end if hit is None else min(max(hit.offset, partition.log_start), end)
    if group.settings.start_at_latest:
        return partition.readable_to(group.isolation)
    return partition.log_start


async def _remote_start(
    services: StartServices, group: QueueGroup, place: TopicPartition, moment_ms: int | None
) -> int:
    """The same of a partition that another node leads, which is asked."""
    ends = await services.positions.ends(place)
    is_committed = group.isolation is Isolation.READ_COMMITTED
    end = ends.readable_to if is_committed else ends.high_watermark
    if moment_ms is not None:
        position = Position(Anchor.TIMESTAMP, moment_ms)
        return min(await services.positions.offset_of(place, position), end)
    return end if group.settings.start_at_latest else ends.log_start
