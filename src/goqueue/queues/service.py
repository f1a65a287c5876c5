"""Queue groups: their settings, and what they read."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import (
    ClusterError,
    CoordinatorUnavailableError,
    GoQueueError,
    GroupModeError,
    InvalidGroupIdError,
    NonEmptyGroupError,
    NotLeaderError,
    TooManyGroupsError,
    TopicError,
)
from goqueue.model.limits import MAX_ID_CHARS
from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.settings import Mode, QueueSettings
from goqueue.queues.shards import QueueShards
from goqueue.queues.start import reset_start, start_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from goqueue.partitions.partition import Partition
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.delivery.members import SharedMember
    from goqueue.queues.delivery.operations import Operation

_MAX_GROUPS: Final = 100_000
"""In one partition of the queue state topic; one more is refused."""
_MAX_ASKED: Final = 8
"""Partitions whose leaders are asked at the same time where a group begins; others wait."""


class Queues(QueueShards):
    """Every queue group of this broker."""

    max_groups = _MAX_GROUPS

    # --- Groups ----------------------------------------------------------------------------------

    async def open(self, group_id: str, settings: QueueSettings) -> QueueGroup:
        """The group of that name, made with these settings if there is none.

        Raises:
            InvalidGroupIdError: no group can have that name.
            GroupModeError: there is a group of that name that works in another way.
            TooManyGroupsError: there are as many as there may be.
            CoordinatorUnavailableError: it could not be stored.
        """
        if not group_id:
            raise InvalidGroupIdError("a group needs a name that is not empty")
        if len(group_id) > MAX_ID_CHARS:
            raise InvalidGroupIdError(
                f"the group id has {len(group_id)} characters; {MAX_ID_CHARS} are allowed"
            )
        shard = await self._shard(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            self._refuse_log_group(group_id, settings.mode)
            if len(shard.groups) >= self.max_groups:
                raise TooManyGroupsError(
                    f"cannot create group {group_id!r}: its shard has {len(shard.groups)} groups, "
                    "which is the limit; delete unused ones"
                )
            if self.limits is not None:
                self.limits.admit_group(group_id)
            return await shard.put_group(group_id, settings)
        if group.is_dormant and settings.mode is Mode.SHARED:
            self._refuse_log_group(group_id, settings.mode)
        if group.settings_are_lost:
            await shard.put_group(group_id, settings)
        if group.settings.mode is not settings.mode:
            raise GroupModeError(
                f"group {group_id!r} is in {group.settings.mode} mode, expected {settings.mode}: "
                f"join it in {group.settings.mode} mode, or delete it first"
            )
        return group

    def check_member(self, group: QueueGroup, member_id: str) -> None:
        """Raise `GroupQuotaExceededError` where a member would be one too many for a tenant."""
        if self.limits is not None and member_id not in group.members:
            self.limits.admit_member(group.group_id, len(group.members) + 1)

    def _refuse_log_group(self, group_id: str, mode: Mode) -> None:
        """Refuse to share a group with members that read by offsets.

        An exclusive group may take over from a consumer group that everyone has left, and goes on
        where that one stopped.
        """
        listings = self._services.groups.coordinator(group_id).list_groups()
        for each in listings:
            if each.group_id == group_id and (mode is Mode.SHARED or each.member_count):
                raise GroupModeError(
                    f"group {group_id!r} is a consumer group, expected a queue group: choose "
                    "another group name"
                )

    async def join(self, group_id: str, settings: QueueSettings) -> QueueGroup:
        """`open` for a member: the group stays until it is deleted, also without topics."""
        group = await self.open(group_id, msgspec.structs.replace(settings, was_joined=True))
        if group.is_dormant:
            return await self.follow(group_id, group.settings.joined_by(settings))
        if not group.settings.was_joined:
            joined = msgspec.structs.replace(group.settings, was_joined=True)
            return await self.follow(group_id, joined)
        return group

    async def configure(self, group_id: str, changes: Mapping[str, object]) -> QueueGroup:
        """Let a group follow other settings from now on, which an administrator has chosen.

        Raises:
            GroupNotFoundError: there is none of that name.
        """
        return await self.follow(group_id, self.group(group_id).settings.with_changes(changes))

    async def follow(self, group_id: str, settings: QueueSettings) -> QueueGroup:
        """Let a group follow these settings, all of them. Raises like `configure`."""
        return await self.shard_of(self.group(group_id)).put_group(group_id, settings)

    async def delete(self, group_id: str) -> None:
        """Forget a group and everything that it knows.

        Raises:
            GroupNotFoundError: there is none of that name.
            NonEmptyGroupError: it has members.
        """
        group = self.group(group_id)
        if len(group.members):
            raise NonEmptyGroupError(f"group {group_id!r} still has members: stop them first")
        await self.shard_of(group).forget_group(group)
        self._waiters.pop(group_id, None)

    def forget_topic(self, topic_id: object, partitions: Iterable[Partition]) -> None:
        """A topic is gone; its messages are nobody's any more."""
        for group in self:
            for key in [key for key in (*group.queues, *group.absent) if key[0] == topic_id]:
                group.close(key)
        for partition in partitions:
            self._services.record_reader.forget(partition)

    # --- What a group reads ----------------------------------------------------------------------

    def partitions_of_topics(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Every partition of those of the topics that exist, and are not the broker's own.

        To hand out a message of the queue state would be one more message of it.
        """
        by_name = self._services.topics.catalogue.by_name
        return [
            TopicPartition(name, number)
            for name in sorted(topics)
            if name in by_name and not by_name[name].is_internal
            for number in range(by_name[name].partition_count)
        ]

    def key(self, partition_id: TopicPartition) -> TopicIdPartition:
        """What a partition is called in the state of groups."""
        topic = self._services.topics.catalogue.topic(partition_id.topic)
        return topic.topic_id, partition_id.partition

    def keys_of(self, member: SharedMember) -> list[TopicIdPartition]:
        """The partitions that a member of a shared group takes from, in order."""
        if member.assigned is not None:
            return sorted(member.assigned)
        return [self.key(each) for each in self.partitions_of_topics(member.topics)]

    async def open_queues(self, group: QueueGroup, partitions: Iterable[TopicPartition]) -> None:
        """Begin to read those of the partitions that the group does not read yet.

        Those whose leaders do not answer are left out and tried again at the next look, beside
        which the others are read.

        Raises:
            TopicError: one of the topics is gone.
            ClusterError: no leader of any of the partitions answers.
            CoordinatorUnavailableError: it could not be stored.
        """
        wanted = {self.key(each): each for each in partitions}
        missing = {key: each for key, each in wanted.items() if key not in group.queues}
        if missing and len(missing) < len(wanted) and missing.keys() <= group.absent.keys():
            self._open_beside(group, missing)
            return
        error = await self._open(group, missing)
        if error is not None and wanted.keys().isdisjoint(group.queues):
            raise error

    def _open_beside(
        self, group: QueueGroup, missing: Mapping[TopicIdPartition, TopicPartition]
    ) -> None:
        """Try again to open partitions while others are read; one try a group at a time."""
        if group.group_id in self._opening:
            return

        async def tried() -> None:
            with suppress(ClusterError, TopicError, CoordinatorUnavailableError):
                await self._open(group, missing)
            if not missing.keys().isdisjoint(group.queues):
                self.waiters(group.group_id).wake()

        task = asyncio.get_running_loop().create_task(tried())
        self._opening[group.group_id] = task
        task.add_done_callback(lambda _: self._opening.pop(group.group_id))

    async def _open(
        self, group: QueueGroup, missing: Mapping[TopicIdPartition, TopicPartition]
    ) -> GoQueueError | None:
        """Open partitions; why one of them is left out, if any is."""
        read = {topic_id for topic_id, _ in group.queues}
        is_new = {key: group.absent.get(key, key[0] not in read) for key in missing}
        for each in missing.values():
            self.sources.of(each)  # asked for together
        asking = asyncio.Semaphore(_MAX_ASKED)
        starts = await asyncio.gather(
            *(self._start(group, each, asking, is_new[key]) for key, each in missing.items())
        )
        error: GoQueueError | None = None
        changes: dict[TopicIdPartition, list[Operation]] = {}
        for key, start in zip(missing, starts, strict=True):
            # As both were before it was looked up: the topic may be gone meanwhile.
            if key in group.queues or key[0] not in self._services.topics.catalogue.by_id:
                continue
            if isinstance(start, int):
                changes[key] = [ops.Opened(start)]
            else:
                group.absent[key], error = is_new[key], start
        if changes:
            await self.shard_of(group).store(group, changes)
        return error

    async def _start(
        self,
        group: QueueGroup,
        place: TopicPartition,
        asking: asyncio.Semaphore,
        is_new_topic: bool,  # noqa: FBT001 - named where it is computed
    ) -> int | GoQueueError:
        """Where a group begins to read a partition, or why its leader does not tell."""
        try:
            async with asking if self._has_leader(place) else nullcontext():
                start = await start_of(self._services, group, place, is_new_topic=is_new_topic)
            with suppress(TopicError):  # it is gone meanwhile
                # or the first poll would not give the most urgent messages
                await self.sources.known(place)
        except CoordinatorUnavailableError:
            raise
        except (ClusterError, NotLeaderError) as error:
            return error
        return start

    def _has_leader(self, place: TopicPartition) -> bool:
        """Whether there is somebody to ask; to wait for a leader takes no connection."""
        try:
            self._services.routes.leader_of(place)
        except GoQueueError:
            return False
        return True

    async def reset(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Let a group without members go on elsewhere; it forgets what it knew of the partitions.

        A negative offset is where the group begins by its settings.

        Raises:
            GroupNotFoundError, NonEmptyGroupError: it cannot be reset.
        """
        group = self.group(group_id)
        if len(group.members) or group.unacked:
            raise NonEmptyGroupError(
                f"group {group_id!r} has members, or messages that they have not acknowledged: "
                "stop them, and wait for the visibility timeout"
            )
        for each in offsets:
            self._services.topics.catalogue.require(each)
        starts = {
            self.key(each): ops.Opened(offset, is_set=True)
            if offset >= 0
            else ops.Opened(await reset_start(self._services, group, each))
            for each, offset in offsets.items()
        }
        changes: dict[TopicIdPartition, list[Operation]] = {
            key: [opened]
            for key, opened in starts.items()
            if key[0] in self._services.topics.catalogue.by_id
        }
        await self.shard_of(group).store(group, changes)

    async def close_topics(self, group_id: str, topics: Iterable[str]) -> None:
        """Let a group forget what it knew of topics. Raises like `reset`."""
        group = self.group(group_id)
        if len(group.members):
            raise NonEmptyGroupError(f"group {group_id!r} still has members: stop them first")
        ids = {self._services.topics.catalogue.topic(name).topic_id for name in topics}
        places = [key for key in group.queues if key[0] in ids]
        await self.shard_of(group).forget_queues(group, places)

    async def release_member(
        self,
        group: QueueGroup,
        member_id: str,
        keys: Collection[TopicIdPartition] | None = None,
    ) -> None:
        """Take back what a member has, or has of some partitions; others get it at once."""
        if await self.shard_of(group).release_member(group, member_id, self.now_ms(group), keys):
            self._on_change(group)
