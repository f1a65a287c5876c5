"""A KIP-848 consumer group: its membership, and what members and administrators may do with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.groups.consumer.classic_members import ConsumerClassic
from goqueue.groups.messages import NO_GENERATION, LeaveResult
from goqueue.groups.stats import LeaveReason
from goqueue.model.errors import (
    FencedInstanceError,
    GroupError,
    GroupSubscribedError,
    IllegalGenerationError,
    NonEmptyGroupError,
    StaleMemberEpochError,
    UnknownMemberError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.groups.consumer.member import ConsumerMember
    from goqueue.groups.effects import Effects, Entry, Token
    from goqueue.groups.messages import CommitRequest, LeaveRequest, LeavingMember


class ConsumerGroup(ConsumerClassic):
    """What offsets and administration ask of a KIP-848 group."""

    def dump(self) -> Iterator[Entry]:
        """The group and its members, as the entries that would load them."""
        yield self.entry()
        yield from [self.roster.entry(each) for each in self.roster.members]

    def leave(self, request: LeaveRequest, token: Token, now_ms: int, out: Effects) -> None:
        """An administrator removes members."""
        results = tuple((each, self._leave_one(each, now_ms)) for each in request.members)
        self._finish(now_ms, out)
        out.reply(token, LeaveResult(results))

    def _leave_one(self, leaving: LeavingMember, now_ms: int) -> GroupError | None:
        member_id = leaving.member_id
        if leaving.instance_id is not None:
            holder_id = self.roster.static_ids.get(leaving.instance_id)
            if holder_id is None:
                return UnknownMemberError(f"no member has instance id {leaving.instance_id!r}")
            if member_id and member_id != holder_id:
                return FencedInstanceError(
                    f"the instance id {leaving.instance_id!r} belongs to {holder_id!r}"
                )
            member_id = holder_id
        try:
            self._get(member_id)
        except GroupError as error:
            return error
        self._remove(member_id, LeaveReason.LEFT, now_ms)
        return None

    def check_commit(
        self, request: CommitRequest, now_ms: int, *, is_transactional: bool = False
    ) -> None:
        """Let a commit through, or raise.

        Without a member it is let through while the group is empty, or from a transactional
        producer that does not know its group.

        Raises:
            UnknownMemberError: there is no such member.
            StaleMemberEpochError: the member is at another epoch.
            IllegalGenerationError: the same of a member of the classic protocol.
        """
        epoch = request.generation_or_epoch
        if epoch <= NO_GENERATION and self.is_empty:
            return
        names_member = bool(request.member_id) or request.instance_id is not None
        if is_transactional and epoch <= NO_GENERATION and not names_member:
            return
        member = self._member_at(request.member_id, epoch)
        if member.classic is not None:  # else only heartbeats keep a session alive
            self._restart_session(member, now_ms)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Let a member read its group's offsets, or raise; others need not name themselves.

        Raises:
            UnknownMemberError: there is no such member.
            StaleMemberEpochError: the member is at another epoch.
            IllegalGenerationError: the same of a member of the classic protocol.
        """
        if member_id is None and epoch <= NO_GENERATION:
            return
        self._member_at(member_id or "", epoch)

    def _member_at(self, member_id: str, epoch: int) -> ConsumerMember:
        member = self._get(member_id)
        if member.epoch == epoch:
            return member
        if member.classic is not None:
            raise IllegalGenerationError(
                f"{member_id!r} is in generation {member.epoch}, not in {epoch}: join again"
            )
        raise StaleMemberEpochError(
            f"{member_id!r} is at epoch {member.epoch}, not {epoch}: ask again with the epoch of "
            "the newest heartbeat"
        )

    def check_delete(self) -> None:
        """Let the group be deleted, or raise `NonEmptyGroupError`."""
        if not self.is_empty:
            raise NonEmptyGroupError(
                f"group {self.group_id!r} has {len(self.roster.members)} members: stop them first"
            )

    def reads(self, topic: str) -> bool:
        """Whether some member subscribes to the topic."""
        return any(topic in m.subscribed_names for m in self.roster.members.values()) or (
            not self.is_empty and any(topic == name for name, _, _ in self.topics)
        )

    def check_delete_offset(self, topic: str) -> None:
        """Let the offsets of a topic be deleted, or raise `GroupSubscribedError`."""
        if self.reads(topic):
            raise GroupSubscribedError(
                f"group {self.group_id!r} reads {topic!r}: its offsets are in use"
            )

    def expires_from(self, topic: str) -> int | None:
        """The earliest moment from which offsets of a topic grow old; None while they are used."""
        if self.is_empty:
            return self.empty_since_ms
        return None if self.reads(topic) else 0

    def abandon(self, error: GroupError, out: Effects) -> None:
        """Nobody ever waits in this protocol, so there is only time to stop."""
        del error, out
        self.timers.clear()
