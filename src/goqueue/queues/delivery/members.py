"""Who is in a shared queue group.

Members over HTTP and gRPC take from every partition of their topics. Share consumers are assigned
partitions of theirs, which several may have in common.

On one node membership is not stored: after a restart every member is unknown, joins again, and
acknowledges what it had been handed with the receipts that it has. In a cluster it is, except that
of share consumers, which join again by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from goqueue.model.errors import (
    FencedMemberEpochError,
    GroupMaxSizeError,
    UnknownMemberError,
)
from goqueue.model.topic_partition import TopicIdPartition
from goqueue.queues.delivery.share_assignor import assign

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from uuid import UUID


_MAX_MEMBERS: Final = 10_000


class SharedMember(msgspec.Struct):
    """One member: what it reads, and when its session times out."""

    member_id: str
    topics: frozenset[str]
    client_id: str = ""
    client_host: str = ""
    session_ms: int = 45_000
    epoch: int = 0
    previous_epoch: int = 0
    deadline_ms: int = 0
    rack_id: str = ""
    assigned: frozenset[TopicIdPartition] | None = None
    """What a share consumer is to read; None: it takes from every partition of its topics."""
    told: frozenset[TopicIdPartition] = frozenset()
    """What it was last told to read."""
    is_stored: bool = False
    """The log of its group says that it is there."""
    polls: int = 0
    """How many are under way: the session of a member that waits for messages does not time out."""


class Members(msgspec.Struct):
    """The members of one group. The epoch counts the changes of who is there and reads what."""

    epoch: int = 0
    _members: dict[str, SharedMember] = msgspec.field(default_factory=dict)
    _assigned_at: tuple[int, int] | None = None
    """The epoch, and the version of the topics, for which share consumers were assigned theirs."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[SharedMember]:
        return iter(self._members.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def join(self, member: SharedMember, now_ms: int) -> SharedMember:
        """Let somebody in; who has the same id is the same member, come back.

        Raises:
            GroupMaxSizeError: the group is full.
        """
        if member.member_id not in self._members and len(self._members) >= _MAX_MEMBERS:
            raise GroupMaxSizeError(f"the group has {_MAX_MEMBERS} members, as many as it may")
        self.epoch += 1
        member.epoch = member.previous_epoch = self.epoch
        member.deadline_ms = now_ms + member.session_ms
        self._members[member.member_id] = member
        return member

    def find(self, member_id: str) -> SharedMember | None:
        """A member, if there is one of that name."""
        return self._members.get(member_id)

    def get(self, member_id: str) -> SharedMember:
        """A member.

        Raises:
            UnknownMemberError: it never joined, left, or its session has timed out.
        """
        member = self._members.get(member_id)
        if member is None:
            raise UnknownMemberError(
                f"the group has no member {member_id!r}: its session may have ended; join again"
            )
        return member

    def heartbeat(
        self, member_id: str, epoch: int | None, topics: Iterable[str] | None, now_ms: int
    ) -> SharedMember:
        """Note a heartbeat, and perhaps other topics.

        Raises:
            UnknownMemberError: there is no such member.
            FencedMemberEpochError: it speaks for an epoch that it never had.
        """
        member = self.get(member_id)
        if epoch is not None and epoch not in (member.epoch, member.previous_epoch):
            raise FencedMemberEpochError(
                f"member {member_id!r} is at epoch {member.epoch}, the request says {epoch}"
            )
        member.deadline_ms = now_ms + member.session_ms
        wanted = member.topics if topics is None else frozenset(topics)
        if wanted != member.topics:
            member.topics = wanted
            self.epoch += 1
        self.catch_up(member)
        return member

    def is_assigned(self, topics_version: int) -> bool:
        """Whether nothing has changed since share consumers were assigned what they read."""
        return self._assigned_at == (self.epoch, topics_version)

    def assign(
        self, topics_version: int, ids: Mapping[str, UUID], partition_counts: Mapping[UUID, int]
    ) -> None:
        """Share the partitions of topics out among share consumers, by the topics of that version.

        When topics have changed what is assigned, that is another epoch, as when members do.
        """
        sharing = {each.member_id: each for each in self if each.assigned is not None}
        found = assign(
            {
                name: {ids[topic] for topic in member.topics if topic in ids}
                for name, member in sharing.items()
            },
            partition_counts,
            {name: member.assigned or frozenset() for name, member in sharing.items()},
        )
        if self._assigned_at is not None and self._assigned_at[0] == self.epoch:
            self.epoch += any(found[name] != each.assigned for name, each in sharing.items())
        for name, member in sharing.items():
            member.assigned = found[name]
        self._assigned_at = self.epoch, topics_version

    def catch_up(self, member: SharedMember) -> None:
        """Bring a member to the epoch of the group."""
        if member.epoch != self.epoch:
            member.previous_epoch, member.epoch = member.epoch, self.epoch

    def leave(self, member_id: str) -> SharedMember:
        """Let a member go; returns it.

        Raises:
            UnknownMemberError: there is no such member.
        """
        member = self.get(member_id)
        del self._members[member_id]
        self.epoch += 1
        return member

    def expired(self, now_ms: int) -> list[str]:
        """Those whose session has timed out; the caller removes them."""
        return [
            member.member_id
            for member in self._members.values()
            if member.deadline_ms <= now_ms and not member.polls
        ]

    def next_deadline_ms(self) -> int | None:
        """When the next session times out without a heartbeat."""
        return min((each.deadline_ms for each in self if not each.polls), default=None)
