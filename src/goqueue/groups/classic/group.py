"""A classic consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup as Kafka answers them.

The server hands out generations and passes bytes between the members and their leader. Eager and
cooperative clients differ only in those bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goqueue.groups.classic.join import ClassicJoin
from goqueue.groups.classic.state import ClassicState
from goqueue.groups.consumer.protocol import PROTOCOL_TYPE
from goqueue.groups.core import GroupTimer, TimerKind
from goqueue.groups.effects import Effects, Entry, Token, refusal
from goqueue.groups.encoding import ClassicGroupValue, GroupKey, put
from goqueue.groups.messages import (
    DONE,
    NO_GENERATION,
    CommitRequest,
    HeartbeatRequest,
    LeaveRequest,
    LeaveResult,
    LeavingMember,
    SyncRequest,
)
from goqueue.groups.stats import GroupStats, LeaveReason, RebalanceReason
from goqueue.model.errors import (
    GroupError,
    IllegalGenerationError,
    InvariantError,
    RebalanceInProgressError,
    UnknownMemberError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.groups.classic.member import ClassicMember
    from goqueue.groups.reconciled.group import ReconciledGroup
    from goqueue.groups.settings import GroupSettings


class ClassicGroup(ClassicJoin):
    """The requests of a classic group. Each either answers, parks its token, or raises."""

    @classmethod
    def load(
        cls,
        group_id: str,
        value: ClassicGroupValue,
        settings: GroupSettings,
        stats: GroupStats,
    ) -> ClassicGroup:
        """A group as it was stored: stable, or empty. `resume` sets its clocks going."""
        group = cls(group_id, settings, stats)
        group.generation = value.generation
        group.protocol_name = value.protocol_name
        group._state = ClassicState.STABLE if value.members else ClassicState.EMPTY
        group.state_since_ms = value.state_since_ms
        for member in value.members:
            group.roster.add(member, value.protocol_type)
        group.roster.protocol_type = value.protocol_type
        group.roster.leader_id = value.leader_id
        group.subscribed = group.roster.subscribed_topics(value.protocol_name)
        group._partitions = group._read_assignments()
        group.stored = put(GroupKey(group_id), value)
        return group

    @classmethod
    def in_place_of(cls, group: ReconciledGroup[Any, Any], out: Effects) -> ClassicGroup:
        """A classic group in place of an empty one of another kind; its generations count on."""
        successor = cls(group.group_id, group.settings, group.stats)
        successor.generation = group.epoch
        successor.state_since_ms = group.empty_since_ms
        successor.roster.protocol_type = PROTOCOL_TYPE
        successor._store(out)
        return successor

    def take_over(
        self, members: list[ClassicMember], generation: int, now_ms: int, out: Effects
    ) -> None:
        """Go on with the members of the KIP-848 group that this group was before."""
        self.generation = generation
        for member in members:
            self.roster.add(member, PROTOCOL_TYPE)
            self._heard_from(member, now_ms)
        self.protocol_name = self.roster.elect_protocol()
        self.subscribed = self.roster.subscribed_topics(self.protocol_name)
        self._partitions = self._read_assignments()
        self._state, self.state_since_ms = ClassicState.STABLE, now_ms
        self._store(out)
        self._rebalance(RebalanceReason.MEMBER_LEFT, now_ms, out)

    def dump(self) -> Iterator[Entry]:
        """What the log holds of this group: never a rebalance that has not ended."""
        if self.stored is not None:
            yield self.stored

    def resume(self, now_ms: int) -> None:
        """After a restart every member has a whole session to be heard again."""
        for member in self.roster.members.values():
            self._heard_from(member, now_ms)
        if any(m.carried_generation is not None for m in self.roster.members.values()):
            # The conversion to a classic group was stored, its first rebalance was not.
            self._prepare(RebalanceReason.MEMBER_REJOINED, now_ms)

    @property
    def is_empty(self) -> bool:
        """Nobody is in the group, and nobody is on the way in."""
        return self.state is ClassicState.EMPTY and not self.roster.pending

    # --- Sync, heartbeat, leave ----------------------------------------------------------------

    def sync(self, request: SyncRequest, token: Token, now_ms: int, out: Effects) -> None:
        """Hand a member its assignment, now or when the leader has brought it.

        Raises:
            GroupError: the member is not in this generation, or the group is between two.
        """
        member = self._member_of_generation(
            request.member_id, request.instance_id, request.generation
        )
        self._check_protocol(request, (self.roster.protocol_type, self.protocol_name))
        if self.state is ClassicState.PREPARING_REBALANCE:
            raise self._rebalancing_error()
        self._synced(member.member_id)
        if self.state is ClassicState.STABLE:
            out.reply(token, self._sync_result(member))
            self._heard_from(member, now_ms)
            return
        self._dismiss_waiting(member.member_id, self._rebalancing_error(), out)
        self.roster.syncing[member.member_id] = token
        if member.member_id == self.roster.leader_id:
            self._settle(request.assignments, now_ms, out)

    def heartbeat(self, request: HeartbeatRequest, token: Token, now_ms: int, out: Effects) -> None:
        """A member is alive; it hears of a rebalance here.

        Raises:
            GroupError: the member is not in this generation, or must join the next.
        """
        member = self._member_of_generation(
            request.member_id, request.instance_id, request.generation
        )
        self.stats.heartbeat()
        self._heard_from(member, now_ms)
        if self.state is ClassicState.PREPARING_REBALANCE:
            raise self._rebalancing_error()
        out.reply(token, DONE)

    def leave(self, request: LeaveRequest, token: Token, now_ms: int, out: Effects) -> None:
        """Members go; one rebalance covers them all."""
        before = len(self.roster.members)
        results = tuple(
            (each, refusal(self._leave_one, each, now_ms, out)) for each in request.members
        )
        if len(self.roster.members) < before:
            self._rebalance(RebalanceReason.MEMBER_LEFT, now_ms, out)
        out.reply(token, LeaveResult(results))

    def _leave_one(self, leaving: LeavingMember, now_ms: int, out: Effects) -> None:
        if leaving.member_id in self.roster.pending:
            self._forget_pending(leaving.member_id, now_ms, out)
        else:
            self._forget(self._leaving(leaving), LeaveReason.LEFT, out)

    def _member_of_generation(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> ClassicMember:
        member = self.roster.get(member_id, instance_id)
        if generation not in {self.generation, member.carried_generation}:
            raise IllegalGenerationError(
                f"group {self.group_id!r} is in generation {self.generation}, {member_id!r} "
                f"sent generation {generation}: rejoin the group"
            )
        return member

    # --- Offsets and administration ------------------------------------------------------------

    def check_commit(
        self, request: CommitRequest, now_ms: int, *, is_transactional: bool = False
    ) -> None:
        """Let a commit through, or raise.

        A consumer that assigns itself partitions has no member id and no generation. It may commit
        while the group is empty. Transactional commits without a member come from producers older
        than the check.

        Raises:
            GroupError: the committer is not (or no longer) entitled to.
        """
        generation = request.generation_or_epoch
        if generation <= NO_GENERATION and self.state is ClassicState.EMPTY:
            return
        named = generation > NO_GENERATION or request.member_id or request.instance_id is not None
        if named:
            member = self._member_of_generation(request.member_id, request.instance_id, generation)
            self._heard_from(member, now_ms)
        elif not is_transactional:
            raise UnknownMemberError(
                f"group {self.group_id!r} has members, so only they may commit: stop them first, "
                "or commit as a member"
            )
        if not is_transactional and self.state is ClassicState.COMPLETING_REBALANCE:
            raise RebalanceInProgressError(
                f"group {self.group_id!r} awaits its assignment: commit after the sync"
            )

    def reads(self, topic: str) -> bool:
        """Whether the members subscribe to the topic, as far as that is known."""
        return self.state is not ClassicState.EMPTY and topic in (self.subscribed or ())

    def expires_from(self, topic: str) -> int | None:
        """The earliest moment from which offsets of a topic grow old; None while they are used."""
        if self.state is ClassicState.EMPTY:
            return 0 if self.roster.protocol_type is None else self.state_since_ms
        if self.state is not ClassicState.STABLE or self.subscribed is None:
            return None
        return None if self.reads(topic) else 0

    def abandon(self, error: GroupError, out: Effects) -> None:
        """Answer everyone who waits; the group is not used any more."""
        for waiting in (self.roster.joining, self.roster.syncing):
            for token in waiting.values():
                out.reply(token, error)
            waiting.clear()
        self.timers.clear()

    def check_invariants(self) -> None:
        """Raise `InvariantError` where the state contradicts itself."""
        self.roster.check_invariants()
        roster = self.roster
        if (self.state is ClassicState.EMPTY) and roster.members:
            raise InvariantError(f"{len(roster.members)} members in an empty group")
        if self.state is not ClassicState.PREPARING_REBALANCE and roster.joining:
            raise InvariantError(f"a join waits in state {self.state}")
        if self.state is not ClassicState.COMPLETING_REBALANCE and roster.syncing:
            raise InvariantError(f"a sync waits in state {self.state}")
        if self.state is ClassicState.PREPARING_REBALANCE and self.timers.next_ms() is None:
            raise InvariantError("a rebalance has no deadline")
        for member_id in roster.members:
            waits = member_id in roster.joining or member_id in roster.syncing
            if not waits and GroupTimer(TimerKind.SESSION, member_id) not in self.timers:
                raise InvariantError(f"{member_id!r} has no session")
