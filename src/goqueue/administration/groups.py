"""What operators change in groups of either kind: their offsets, and whether they are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from goqueue.groups.messages import CommitRequest, OffsetToCommit
from goqueue.model.errors import GroupNotFoundError, InvalidGroupIdError, NonEmptyGroupError
from goqueue.model.topic_partition import TopicPartition
from goqueue.queues.delivery.settings import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goqueue.groups.service import Groups
    from goqueue.insight.group_views import GroupViews
    from goqueue.insight.lag import GroupLag
    from goqueue.partitions.measures import Measures
    from goqueue.queues.service import Queues
    from goqueue.reading.positions import Position, Positions
    from goqueue.topics.catalogue import Topics


class OffsetChange(msgspec.Struct, frozen=True):
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


class GroupAdministrator:
    """Deletes groups, and lets them go on reading elsewhere."""

    def __init__(
        self,
        topics: Topics,
        positions: Positions,
        groups: Groups,
        queues: Queues,
        *,
        views: GroupViews,
        lag: GroupLag,
        measures: Measures,
    ) -> None:
        self._topics = topics
        self._positions = positions
        self._groups = groups
        self._queues = queues
        self._views = views
        self._lag = lag
        self._measures = measures

    async def delete(self, group_id: str) -> None:
        """Forget a group without members, and how far it has read.

        Raises:
            GroupNotFoundError: there is none of that name.
            NonEmptyGroupError: it has members.
        """
        view = self._views.view(group_id)
        if view.listing.member_count:
            raise NonEmptyGroupError(f"group {group_id!r} still has members: stop them first")
        mode = view.listing.mode
        if mode is not Mode.SHARED:
            outcomes = await self._groups.delete(group_id)
            for _, error in outcomes.groups:
                # The consumer group behind a queue group is only there once somebody has joined.
                if error is not None and not (mode and isinstance(error, GroupNotFoundError)):
                    raise error
        if mode is not None:
            await self._queues.delete(group_id)
            self._measures.forget_group(group_id)

    async def reset_offsets(
        self,
        group_id: str,
        topic_name: str,
        position: Position,
        *,
        partitions: Sequence[int] | None = None,
        dry_run: bool = False,
    ) -> list[OffsetChange]:
        """Let a group without members go on reading elsewhere, in all partitions or in some.

        With `dry_run` nothing changes, and the group may have members.

        Raises:
            TopicError: there is no such partition.
            OffsetOutOfRangeError: the offset asked for is not in one of the partitions.
            NonEmptyGroupError: the group has members, which would go on where they are.
        """
        changes = await self._plan(group_id, topic_name, position, partitions)
        if dry_run or not changes:
            return changes
        self._refuse_members(group_id)
        await self.set_offsets(
            group_id, {TopicPartition(x.topic, x.partition): x.after for x in changes}
        )
        return changes

    async def set_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Let a group without members go on at these offsets; one that does not exist is made.

        A queue group forgets what it knew of the partitions.

        Raises:
            GroupError: the group refuses, for example because it has members.
        """
        queue_group = self._queues.find(group_id)
        if queue_group is not None and not queue_group.is_dormant:
            self._refuse_members(group_id)
            await self._queues.reset(group_id, offsets)
            return
        outcomes = await self._groups.commit(
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
        self,
        group_id: str,
        topic_name: str,
        position: Position,
        partitions: Sequence[int] | None,
    ) -> list[OffsetChange]:
        if not group_id:
            raise InvalidGroupIdError("a group needs a name")
        topic = self._topics.catalogue.topic(topic_name)
        numbers = range(topic.partition_count) if partitions is None else partitions
        committed = self._lag.committed(group_id)
        changes = []
        for number in dict.fromkeys(numbers):
            place = TopicPartition(topic_name, number)
            after = await self._positions.offset_of(place, position)
            start, _, end = await self._positions.ends(place)
            changes.append(OffsetChange(*place, committed.get(place), after, start, end))
        return changes

    def _refuse_members(self, group_id: str) -> None:
        listings = self._groups.coordinator(group_id).list_groups()
        queue_group = self._queues.find(group_id)
        if any(each.member_count for each in listings if each.group_id == group_id) or (
            queue_group is not None and len(queue_group.members)
        ):
            raise NonEmptyGroupError(
                f"group {group_id!r} has members that would go on where they are: stop them first"
            )
