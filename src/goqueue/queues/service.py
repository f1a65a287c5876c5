"""Queue groups: where they are kept, and what they read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from goqueue.model import internal_topics
from goqueue.model.errors import (
    CoordinatorUnavailableError,
    GroupModeError,
    GroupNotFoundError,
    InvalidGroupIdError,
    NonEmptyGroupError,
    TooManyGroupsError,
)
from goqueue.model.limits import MAX_ID_CHARS
from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
from goqueue.partitions.damage import DamageKind, DamageReports
from goqueue.partitions.waiting import Waiters
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.settings import Mode, QueueSettings
from goqueue.queues.entries import QueueSource
from goqueue.queues.shard import QueueShard
from goqueue.queues.start import StartServices, reset_start, start_of
from goqueue.state.coordinators import Family
from goqueue.state.shard import ShardStatus
from goqueue.storage.snapshot_kinds import SnapshotKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from goqueue.model.ranges import Range
    from goqueue.partitions.measures import Measures
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.queues.delivery.group import QueueGroup
    from goqueue.queues.delivery.members import SharedMember
    from goqueue.queues.delivery.operations import Operation
    from goqueue.queues.traces import QueueTraces
    from goqueue.reading.record_reader import RecordReader
    from goqueue.state.logs import StateLogs
    from goqueue.topics.catalogue import Topics

QUEUE_TOPIC: Final = internal_topics.QUEUE_STATE
QUEUE_PARTITIONS: Final = 8
_MAX_GROUPS: Final = 100_000
"""In one partition of the queue state topic; one more is refused."""


class QueueServices(StartServices, Protocol):
    """What queue groups need."""

    state_logs: StateLogs
    topics: Topics
    damage: DamageReports
    partitions: Partitions
    measures: Measures
    queue_traces: QueueTraces
    record_reader: RecordReader

    async def create_internal_topic(self, name: str, partition_count: int) -> None:
        """Make one of the broker's own topics, if it is not there."""


class Queues:
    """Every queue group of this broker."""

    def __init__(self, services: QueueServices) -> None:
        self._services = services
        self._family = Family(QUEUE_TOPIC, QUEUE_PARTITIONS, self._new_shard)
        self.now_ms = services.state_logs.clock.now_ms
        """The time by which leases, retries and sessions are counted."""
        self.on_dead: Callable[[QueueGroup], None] = lambda _group: None
        """Told of groups that may have dead messages; set by whoever moves them."""
        self._making = asyncio.Lock()
        self._waiters: dict[str, Waiters] = {}
        self.max_groups = _MAX_GROUPS

    async def start(self) -> None:
        """Load every group that is stored."""
        await self._services.state_logs.coordinators.start(self._family)

    async def stop(self) -> None:
        """Keep the state, and let everyone who waits go."""
        for waiters in self._waiters.values():
            waiters.wake()
        await asyncio.gather(*(shard.close() for shard in self._family.opened()))

    # --- Finding ---------------------------------------------------------------------------------

    def find(self, group_id: str) -> QueueGroup | None:
        """A queue group, if there is one of that name.

        Raises:
            CoordinatorUnavailableError: another node knows.
        """
        shard = self._family.find(group_id)
        if shard is not None and shard.state.is_open:
            return shard.groups.get(group_id)
        if QUEUE_TOPIC not in self._services.topics.catalogue.by_name:
            return None
        raise _led_elsewhere()

    def knows(self, group_id: str) -> bool:
        """Whether there is a queue group of that name, as far as this node knows."""
        shard = self._family.find(group_id)
        return shard is not None and group_id in shard.groups

    def shares(self, group_id: str) -> bool:
        """Whether its members share out messages rather than partitions."""
        group = self.find(group_id)
        return group is not None and group.settings.mode is Mode.SHARED and not group.is_dormant

    def group(self, group_id: str) -> QueueGroup:
        """A queue group.

        Raises:
            GroupNotFoundError: there is none of that name.
        """
        group = self.find(group_id)
        if group is None:
            raise GroupNotFoundError(f"there is no queue group {group_id!r}")
        return group

    def __iter__(self) -> Iterator[QueueGroup]:
        return (each for shard in self._family.opened() for each in shard.groups.values())

    def reading(self, key: TopicIdPartition) -> list[QueueGroup]:
        """The groups that read a partition, also those that another node coordinates by now."""
        shards = self._family.shards.values()
        return [each for shard in shards for each in shard.groups.values() if key in each.queues]

    def shard_of(self, group: QueueGroup) -> QueueShard:
        """The shard that keeps a group."""
        return self._family.shards[self._family.number_of(group.group_id)]

    async def ready(self, group_id: str | None = None) -> None:
        """Wait while groups, or this one, are being built, except where a log refuses changes."""
        found = None if group_id is None else self._family.find(group_id)
        for shard in self._family.opened() if group_id is None else filter(None, (found,)):
            if shard.state.is_open and shard.state.status is not ShardStatus.ACTIVE:
                with suppress(CoordinatorUnavailableError):
                    await shard.state.active()

    def waiters(self, group_id: str) -> Waiters:
        """Those who wait until a group has something for them."""
        return self._waiters.setdefault(group_id, Waiters())

    @property
    def snapshot_bytes(self) -> int:
        """The size of the newest snapshots of all groups."""
        return self._family.snapshot_bytes

    async def _shard(self, group_id: str) -> QueueShard:
        """The shard of a group, made with the topic that it lives in where it is not there."""
        async with self._making:
            await self._services.create_internal_topic(QUEUE_TOPIC, QUEUE_PARTITIONS)
        shard = self._family.find(group_id)
        if shard is None:
            raise _led_elsewhere()
        await shard.state.active()
        return shard

    def _new_shard(self, number: int) -> QueueShard:
        services = self._services
        log = services.state_logs.change_log(QUEUE_TOPIC, number, SnapshotKind.QUEUES)
        return QueueShard(
            log,
            self._source,
            self.now_ms,
            services.executor,
            on_lost=partial(self._on_lost, str(log.partition.id)),
            on_change=self._on_change,
            on_timeout=self._on_timeout,
            on_gone=services.queue_traces.member_gone,
        )

    def _on_lost(self, place: str, detail: str) -> None:
        self._services.damage.note(DamageKind.STATE, place, detail, hash(detail))

    def _source(self, key: TopicIdPartition) -> QueueSource | None:
        partition = self.partition(key)
        return None if partition is None else QueueSource(partition.lanes, partition.log_start)

    def partition(self, key: TopicIdPartition) -> Partition | None:
        """The partition of a queue, if it is still there."""
        services, (topic_id, number) = self._services, key
        topic = services.topics.catalogue.by_id.get(topic_id)
        return (
            None if topic is None else services.partitions.find(TopicPartition(topic.name, number))
        )

    def _on_change(self, group: QueueGroup) -> None:
        """Time has changed something in a group."""
        self.waiters(group.group_id).wake()
        self.on_dead(group)

    def _on_timeout(self, group: QueueGroup, key: TopicIdPartition, ranges: list[Range]) -> None:
        topic = self._services.topics.catalogue.by_id.get(key[0])
        if topic is not None:
            count = sum(end - first for first, end in ranges)
            self._services.measures.timed_out(topic.name, group.group_id, count)
        if self._services.queue_traces.is_on:
            self._services.queue_traces.timed_out(group, key, ranges)

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
            return await shard.put_group(group_id, settings)
        if group.is_dormant and settings.mode is Mode.SHARED:
            self._refuse_log_group(group_id, settings.mode)
        if group.settings_are_lost:
            await shard.put_group(group_id, settings)
        if group.settings.mode is not settings.mode:
            raise GroupModeError(
                f"group {group_id!r} hands out messages in {group.settings.mode} mode, not "
                f"{settings.mode}: join it so, or delete it first"
            )
        return group

    def _refuse_log_group(self, group_id: str, mode: Mode) -> None:
        """Refuse to share a group with members that read by offsets.

        An exclusive group may take over from a consumer group that everyone has left, and goes on
        where that one stopped.
        """
        listings = self._services.groups.coordinator(group_id).list_groups()
        for each in listings:
            if each.group_id == group_id and (mode is Mode.SHARED or each.member_count):
                raise GroupModeError(
                    f"{group_id!r} is a consumer group, which reads by offsets: choose another "
                    "name for a group that hands its messages out one by one"
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
            for key in [key for key in group.queues if key[0] == topic_id]:
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
        """Begin to read those of the partitions that the group does not read yet."""
        known = {topic_id for topic_id, _ in group.queues}
        missing = {
            key: self._services.partitions.partition(each)
            for each in partitions
            if (key := self.key(each)) not in group.queues
        }
        starts = {
            key: await start_of(self._services, group, each, is_new_topic=key[0] not in known)
            for key, each in missing.items()
        }
        changes: dict[TopicIdPartition, list[Operation]] = {}
        for key, start in starts.items():
            if key not in group.queues:  # as it was before it was looked up
                changes[key] = [ops.Opened(start)]
        if changes:
            await self.shard_of(group).store(group, changes)

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
        found = {each: self._services.partitions.partition(each) for each in offsets}
        starts = {
            self.key(each): ops.Opened(offset, is_set=True)
            if offset >= 0
            else ops.Opened(await reset_start(self._services, group, found[each]))
            for each, offset in offsets.items()
        }
        changes: dict[TopicIdPartition, list[Operation]] = {
            key: [opened] for key, opened in starts.items() if self.partition(key) is not None
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

    async def release_member(self, group: QueueGroup, member_id: str) -> None:
        """Take back what a member has, and hand it to others at once."""
        if await self.shard_of(group).release_member(group, member_id, self.now_ms()):
            self._on_change(group)


def _led_elsewhere() -> CoordinatorUnavailableError:
    return CoordinatorUnavailableError("this node does not coordinate the group; try again")
