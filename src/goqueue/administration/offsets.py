"""Letting a group go on reading elsewhere: its offsets are set, or reset to a position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from goqueue.groups.messages import CommitRequest, OffsetToCommit
from goqueue.insight.lag import committed_offsets
from goqueue.model.errors import (
    InvalidGroupIdError,
    NonEmptyGroupError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.reading.positions import Position, offset_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Executor

    from goqueue.groups.service import Groups
    from goqueue.partitions.partitions import Partitions
    from goqueue.queues.service import Queues
    from goqueue.topics.catalogue import Topics


class OffsetServices(Protocol):
    """What offsets are read from and set in."""

    topics: Topics
    partitions: Partitions
    groups: Groups
    queues: Queues
    executor: Executor


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """Where a group goes on reading one partition, before and after a reset."""

    topic: str
    partition: int
    before: int | None
    """None: it had committed nothing."""
    after: int
    log_start: int
    log_end: int

    @property
    def skipped(self) -> int:
        """Messages that it will not read, and would have."""
        return (
            max(self.after - max(self.before, self.log_start), 0) if self.before is not None else 0
        )

    @property
    def again(self) -> int:
        """Messages that it will read a second time."""
        return max(self.before - self.after, 0) if self.before is not None else 0


async def reset_offsets(
    services: OffsetServices,
    group_id: str,
    topic_name: str,
    position: Position,
    *,
    partitions: Sequence[int] | None = None,
    dry_run: bool = False,
) -> list[OffsetChange]:
    """Let a group without members go on reading elsewhere; all partitions unless some are named.

    With `dry_run` nothing changes, and the group may have members.

    Raises:
        TopicError: there is no such partition.
        OffsetOutOfRangeError: the offset asked for is not in one of the partitions.
        NonEmptyGroupError: the group has members, which would go on where they are.
    """
    changes = await _plan(services, group_id, topic_name, position, partitions)
    if dry_run or not changes:
        return changes
    _refuse_members(services, group_id)
    await set_offsets(
        services, group_id, {TopicPartition(x.topic, x.partition): x.after for x in changes}
    )
    return changes


async def set_offsets(
    services: OffsetServices, group_id: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Let a group without members go on at these offsets; one that does not exist is made.

    A queue group forgets what it knew of the partitions.

    Raises:
        GroupError: the group refuses, for example because it has members.
    """
    queue_group = services.queues.find(group_id)
    if queue_group is not None and not queue_group.is_dormant:
        _refuse_members(services, group_id)
        await services.queues.reset(group_id, offsets)
        return
    outcomes = await services.groups.commit(
        CommitRequest(
            group_id=group_id,
            is_reset=True,
            offsets=tuple(
                OffsetToCommit(topic=each.topic, partition=each.partition, offset=offset)
                for each, offset in offsets.items()
            ),
        )
    )
    for _, error in outcomes.partitions:
        if error is not None:
            raise error


async def _plan(
    services: OffsetServices,
    group_id: str,
    topic_name: str,
    position: Position,
    partitions: Sequence[int] | None,
) -> list[OffsetChange]:
    if not group_id:
        raise InvalidGroupIdError("a group needs a name")
    topic = services.topics.catalogue.topic(topic_name)
    numbers = range(topic.partition_count) if partitions is None else partitions
    committed = committed_offsets(services, group_id)
    changes = []
    for number in dict.fromkeys(numbers):
        place = TopicPartition(topic_name, number)
        partition = services.partitions.partition(place)
        after = await offset_of(partition, position, services.executor)
        changes.append(
            OffsetChange(
                *place, committed.get(place), after, partition.log_start, partition.log_end
            )
        )
    return changes


def _refuse_members(services: OffsetServices, group_id: str) -> None:
    listings = services.groups.coordinator(group_id).list_groups()
    queue_group = services.queues.find(group_id)
    if any(each.member_count for each in listings if each.group_id == group_id) or (
        queue_group is not None and len(queue_group.members)
    ):
        raise NonEmptyGroupError(
            f"group {group_id!r} has members that would go on where they are: stop them first"
        )
