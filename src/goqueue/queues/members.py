"""The members of queue groups: who takes messages, and how long they are believed to be there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec

from goqueue.groups.polling.member import Member
from goqueue.groups.stats import LeaveReason
from goqueue.model.errors import InternalTopicError, InvalidGroupIdError, InvalidGroupRequestError
from goqueue.model.limits import MAX_ID_CHARS
from goqueue.queues.delivery.group import is_internal_group
from goqueue.queues.delivery.members import SharedMember
from goqueue.queues.delivery.settings import Mode, QueueSettings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from goqueue.groups.polling.memberships import Memberships
    from goqueue.model.topic_partition import TopicPartition
    from goqueue.queues.service import Queues
    from goqueue.topics.catalogue import Topics

HEARTBEAT_INTERVAL_MS: Final = 5_000


class QueueMember(msgspec.Struct):
    """A member of a queue group, as protocol handlers see it."""

    group_id: str
    member_id: str
    mode: Mode
    owner: Member | None = None
    """Its place in the consumer group by which an exclusive group shares out partitions."""

    @property
    def epoch(self) -> int:
        """Of an owner of partitions; a shared group has nothing to hand over."""
        return 0 if self.owner is None else self.owner.epoch


class QueueMembers:
    """Lets members into queue groups, and out again."""

    def __init__(self, queues: Queues, topics: Topics, memberships: Memberships) -> None:
        self._queues = queues
        self._topics = topics
        self._memberships = memberships

    async def join(
        self,
        group_id: str,
        topics: Iterable[str],
        settings: QueueSettings,
        *,
        client_id: str = "",
        client_host: str = "",
        member_id: str = "",
        session_timeout_ms: int | None = None,
        assignor: str | None = None,
        releases_itself: bool = False,
    ) -> QueueMember:
        """Become a member; `settings` make the group if there is none, and say how it works.

        Raises:
            GroupError: the group refuses.
            TopicError: there is no such topic.
        """
        wanted = frozenset(topics)
        for text in (client_id, member_id):
            if len(text) > MAX_ID_CHARS:
                raise InvalidGroupRequestError(
                    f"an id of {len(text)} characters; {MAX_ID_CHARS} are allowed"
                )
        if is_internal_group(group_id):
            raise InvalidGroupIdError(f"{group_id!r} is an internal group: clients cannot join it")
        for name in wanted:
            if self._topics.catalogue.topic(name).is_internal:
                raise InternalTopicError(f"{name} belongs to the broker: no group can read it")
        group = await self._queues.join(group_id, settings)
        await self._queues.open_queues(group, self._queues.partitions_of_topics(wanted))
        if group.settings.mode is Mode.EXCLUSIVE:
            owner = await self._memberships.join(
                group_id,
                wanted,
                client_id=client_id,
                client_host=client_host,
                member_id=member_id,
                reset_to_earliest=not group.settings.start_at_latest,
                releases_itself=releases_itself,
                session_timeout_ms=session_timeout_ms,
                assignor=assignor,
            )
            return QueueMember(group_id, owner.member_id, Mode.EXCLUSIVE, owner)
        member_id = member_id or f"{client_id or 'member'}-{uuid4().hex}"
        session_ms = session_timeout_ms or group.settings.session_ms
        member = SharedMember(member_id, wanted, client_id, client_host, session_ms)
        self._queues.check_member(group, member_id)
        group.members.join(member, self._queues.now_ms(group))
        shard = self._queues.shard_of(group)
        shard.wake_at(member.deadline_ms)
        await shard.put_member(group, member)
        self._queues.tell_member(group_id, member_id, None)
        return QueueMember(group_id, member_id, Mode.SHARED)

    def find(self, group_id: str, member_id: str, epoch: int | None = None) -> QueueMember | None:
        """A member of a queue group; None when there is no queue group of that name.

        Raises:
            GroupError: there is no such member, or it speaks for another epoch.
        """
        group = self._queues.find(group_id)
        if group is None or group.is_dormant:
            return None
        if group.settings.mode is Mode.EXCLUSIVE:
            owner = self._memberships.member(group_id, member_id, epoch)
            return QueueMember(group_id, member_id, Mode.EXCLUSIVE, owner)
        group.members.get(member_id)
        return QueueMember(group_id, member_id, Mode.SHARED)

    async def heartbeat(self, member: QueueMember) -> None:
        """Stay a member; an owner of partitions takes over what is assigned to it.

        Raises:
            GroupError: it is no member any more.
        """
        if member.owner is not None:
            await self._memberships.heartbeat(member.owner)
            return
        group = self._queues.group(member.group_id)
        group.members.heartbeat(member.member_id, None, None, self._queues.now_ms(group))

    async def leave(self, member: QueueMember) -> None:
        """Go; what the member has is handed to others at once."""
        group = self._queues.group(member.group_id)
        if member.owner is not None:
            await self._memberships.leave(member.owner)
            group.forget_member(member.member_id)
        else:
            shard = self._queues.shard_of(group)
            shard.end_member(group, member.member_id, LeaveReason.LEFT)
        await self._queues.release_member(group, member.member_id)

    def partitions_of(self, member: QueueMember) -> list[TopicPartition]:
        """The partitions that a member takes from."""
        if member.owner is not None:
            return sorted(member.owner.assigned)
        topics = self._queues.group(member.group_id).members.get(member.member_id).topics
        return self._queues.partitions_of_topics(topics)

    def topics_of(self, member: QueueMember) -> Collection[str]:
        """The topics that a member takes from."""
        if member.owner is not None:
            return {each.topic for each in member.owner.assigned}
        return self._queues.group(member.group_id).members.get(member.member_id).topics
