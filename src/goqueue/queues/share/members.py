"""Share consumers (KIP-932) as members of shared queue groups: one heartbeat says everything."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.groups.stats import LeaveReason
from goqueue.model.errors import (
    GroupModeError,
    GroupNotFoundError,
    InternalTopicError,
    InvalidGroupIdError,
    InvalidGroupRequestError,
)
from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.queues.delivery.group import QueueGroup, is_internal_group
from goqueue.queues.delivery.members import SharedMember
from goqueue.queues.delivery.settings import NEW_SHARE_GROUP, Mode

if TYPE_CHECKING:
    from collections.abc import Collection

    from goqueue.queues.service import Queues
    from goqueue.topics.catalogue import Topics

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
_MAX_MEMBER_ID_CHARS: Final = 256
_MAX_SUBSCRIPTION_CHARS: Final = 64 * 1024
"""Names of the topics of one member, its client id and its rack; more are refused."""


class ShareMemberServices(Protocol):
    """What members of share groups need."""

    queues: Queues
    topics: Topics


class ShareHeartbeat(NamedTuple):
    """What a share consumer says."""

    group_id: str
    member_id: str
    """It gives itself one."""
    epoch: int
    topics: frozenset[str] | None = None
    """None: the same as before."""
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""


class ShareHeartbeatResult(NamedTuple):
    """What it is told."""

    member_id: str
    epoch: int
    heartbeat_ms: int = 0
    assigned: tuple[TopicIdPartition, ...] | None = None
    """None: the same as before."""


class ShareMembers:
    """Lets share consumers into groups, and out again."""

    def __init__(self, services: ShareMemberServices) -> None:
        self._queues = services.queues
        self._topics = services.topics

    def find(self, group_id: str) -> QueueGroup | None:
        """A group that share consumers may speak of, if there is one of that name."""
        group = self._queues.find(group_id)
        if group is None or group.is_dormant or group.is_internal:
            return None
        return group if group.settings.mode is Mode.SHARED else None

    def group(self, group_id: str) -> QueueGroup:
        """A group that share consumers may speak of.

        Raises:
            GroupNotFoundError: there is none of that name.
        """
        group = self.find(group_id)
        if group is None:
            raise GroupNotFoundError(f"there is no share group {group_id!r}")
        return group

    async def make(self, group_id: str) -> QueueGroup:
        """A group that share consumers may speak of, made if there is none of that name.

        Raises:
            GroupNotFoundError: there is a group of that name which is no share group.
        """
        check_is_free(group_id)
        try:
            return await self._queues.join(group_id, NEW_SHARE_GROUP)
        except GroupModeError as error:
            raise GroupNotFoundError(f"{group_id!r} is no share group") from error

    def partition(self, place: TopicIdPartition) -> TopicPartition:
        """A partition that share groups may read.

        Raises:
            TopicError: it is not there, or of an internal topic.
        """
        topic = self._topics.catalogue.topic_with_id(place[0])
        if topic.is_internal:
            raise InternalTopicError(
                f"{topic.name} is an internal topic: share groups cannot read it"
            )
        partition = TopicPartition(topic.name, place[1])
        self._topics.catalogue.require(partition)
        return partition

    def is_member(self, group_id: str, member_id: str) -> bool:
        """Whether a member is there."""
        group = self._queues.find(group_id)
        return group is not None and member_id in group.members

    async def heartbeat(self, said: ShareHeartbeat) -> ShareHeartbeatResult:
        """Join, stay or go.

        Topics that are not there yet are assigned when they are.

        Raises:
            InvalidGroupRequestError: the request contradicts itself.
            GroupError: the group refuses.
        """
        _check(said)
        if said.epoch == LEAVING_EPOCH:
            return self._leave(said)
        if said.epoch == JOINING_EPOCH:
            group = await self._queues.join(said.group_id, NEW_SHARE_GROUP)
            member = self._join(group, said)
        else:
            group = self.group(said.group_id)
            now_ms = self._queues.now_ms(group)
            member = group.members.heartbeat(said.member_id, said.epoch, said.topics, now_ms)
        await self._assign(group)
        group.members.catch_up(member)
        self._queues.shard_of(group).wake_at(member.deadline_ms)
        assigned = member.assigned or frozenset()
        is_news = said.topics is not None or assigned != member.told or said.epoch != member.epoch
        member.told = assigned
        return ShareHeartbeatResult(
            member.member_id,
            member.epoch,
            group.settings.heartbeat_ms,
            tuple(sorted(assigned)) if is_news else None,
        )

    async def _assign(self, group: QueueGroup) -> None:
        """Share out the partitions anew if members or topics have changed since it was done.

        The group begins to read every partition of its topics first, so that it misses nothing
        that is published before a member asks for it.
        """
        members = group.members
        while not members.is_assigned((catalogue := self._topics.catalogue).version):
            epoch = members.epoch
            wanted = {name for member in members for name in member.topics}
            partitions = self._queues.partitions_of_topics(wanted)
            await self._queues.open_queues(group, partitions)
            if members.epoch != epoch:
                continue  # somebody came or went meanwhile
            counts = Counter(partition.topic for partition in partitions)
            ids = {name: catalogue.by_name[name].topic_id for name in counts}
            members.assign(
                catalogue.version, ids, {ids[name]: count for name, count in counts.items()}
            )

    def _join(self, group: QueueGroup, said: ShareHeartbeat) -> SharedMember:
        known = group.members.find(said.member_id)
        member = SharedMember(
            said.member_id,
            said.topics or frozenset(),
            said.client_id,
            said.client_host,
            group.settings.session_ms,
            rack_id=said.rack_id or "",
            assigned=frozenset() if known is None else known.assigned or frozenset(),
        )
        self._queues.check_member(group, said.member_id)
        joined = group.members.join(member, self._queues.now_ms(group))
        if known is None:
            self._queues.tell_member(said.group_id, said.member_id, None)
        return joined

    def _leave(self, said: ShareHeartbeat) -> ShareHeartbeatResult:
        """Let a member go, and leave it what it has: it may yet say what became of that.

        Consumers leave the group by one connection and acknowledge by another, which may be later.
        """
        group = self.group(said.group_id)
        group.members.leave(said.member_id)
        group.forget_member(said.member_id)
        self._queues.tell_member(said.group_id, said.member_id, LeaveReason.LEFT)
        return ShareHeartbeatResult(said.member_id, LEAVING_EPOCH)

    async def release(
        self,
        group_id: str,
        member_id: str,
        keys: Collection[TopicIdPartition] | None = None,
    ) -> None:
        """Hand what a member has, or has of some partitions, to others at once."""
        group = self._queues.find(group_id)
        if group is not None:
            await self._queues.release_member(group, member_id, keys)


def check_is_free(group_id: str) -> None:
    """Raise `InvalidGroupIdError` for the name of a group that the broker keeps for itself."""
    if is_internal_group(group_id):
        raise InvalidGroupIdError(f"{group_id!r} is an internal group: clients cannot join it")


def _check(said: ShareHeartbeat) -> None:
    if not said.group_id:
        raise InvalidGroupRequestError("the group id is empty")
    check_is_free(said.group_id)
    if not 0 < len(said.member_id) <= _MAX_MEMBER_ID_CHARS:
        raise InvalidGroupRequestError(
            f"a member id has 1 to {_MAX_MEMBER_ID_CHARS} characters, this one has "
            f"{len(said.member_id)}"
        )
    if said.rack_id is not None and not said.rack_id:
        raise InvalidGroupRequestError("the rack id is empty; leave it out")
    size = sum(map(len, said.topics or ())) + len(said.client_id) + len(said.rack_id or "")
    if size > _MAX_SUBSCRIPTION_CHARS:
        raise InvalidGroupRequestError(
            f"a member describes itself in up to {_MAX_SUBSCRIPTION_CHARS} characters, this one in "
            f"{size}: subscribe to fewer topics"
        )
    if said.epoch < LEAVING_EPOCH:
        raise InvalidGroupRequestError(f"member epoch {said.epoch}: the lowest is {LEAVING_EPOCH}")
    if said.epoch == JOINING_EPOCH and not said.topics:
        raise InvalidGroupRequestError("a joining member must name its topics")
