"""A group whose members the broker leads to a target, step by step, in their own heartbeats.

The group epoch grows with every change that the target depends on. A target is then computed for
that epoch, and members that keep what they have never stop. KIP-848 groups and Streams groups
differ in what is owned, in what a target follows from, and in how members describe themselves.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec.structs import replace

from goqueue.groups.core import GroupCore, GroupTimer, TimerKind
from goqueue.groups.messages import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    NO_GENERATION,
    STATIC_LEAVING_EPOCH,
    CommitRequest,
    HeartbeatResult,
    MemberHeartbeat,
)
from goqueue.groups.reconciled.member import MemberState, Reconciling, check_epoch, reconcile
from goqueue.groups.reconciled.state import ReconciledState
from goqueue.groups.stats import GroupStats, LeaveReason, RebalanceReason
from goqueue.model.errors import (
    GroupError,
    GroupMaxSizeError,
    InvariantError,
    StaleMemberEpochError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from goqueue.groups.effects import Effects, Entry, Token
    from goqueue.groups.reconciled.roster import ReconciledRoster
    from goqueue.groups.settings import GroupSettings
    from goqueue.groups.topics import TopicCatalogue

R = TypeVar("R", bound=Reconciling[Any])
H = TypeVar("H", bound=MemberHeartbeat[Any])

_LEAVE_REASONS = {
    TimerKind.SESSION: LeaveReason.SESSION_TIMEOUT,
    TimerKind.REVOCATION: LeaveReason.REBALANCE_TIMEOUT,
    TimerKind.JOIN: LeaveReason.REBALANCE_TIMEOUT,
    TimerKind.SYNC: LeaveReason.SYNC_TIMEOUT,
}


class ReconciledGroup(GroupCore, Generic[R, H]):
    """Epochs, target and members.

    `target_epoch <= epoch` is the epoch that the target was computed for; no member's epoch is
    above `target_epoch`.
    """

    roster: ReconciledRoster[R]
    member_type: type[R]

    def __init__(
        self, group_id: str, settings: GroupSettings, stats: GroupStats, *, epoch: int = 0
    ) -> None:
        super().__init__(group_id, settings, stats)
        self.epoch = epoch
        self.target_epoch = epoch
        self.empty_since_ms = 0
        self.is_dead = False
        self._is_changed = False

    # --- What the kinds of groups differ in ----------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """There is something to assign."""
        return True

    @abstractmethod
    def _session_timeout_ms(self, member: R) -> int:
        """How long a member may be silent."""

    @abstractmethod
    def _result(self, member_id: str, epoch: int) -> HeartbeatResult[Any]:
        """The answer to a heartbeat that brings no news."""

    @abstractmethod
    def _joining(self, request: H) -> R:
        """The member as it was before it joined; raises where it may not."""

    @abstractmethod
    def _take_in(self, before: R, request: H, now_ms: int) -> None:
        """Put the member into the group as it says it is, and note what that changes."""

    @abstractmethod
    def _follow(self, request: H, catalogue: TopicCatalogue, now_ms: int) -> None:
        """Raise the epoch where something else that the target depends on has changed."""

    @abstractmethod
    def _target(self) -> Mapping[str, frozenset[Any]]:
        """What each member shall have at the epoch of the group."""

    @abstractmethod
    def entry(self) -> Entry:
        """What is stored of the group besides its members."""

    # --- Heartbeats ----------------------------------------------------------------------------

    def heartbeat(
        self, request: H, catalogue: TopicCatalogue, token: Token, now_ms: int, out: Effects
    ) -> None:
        """Join, stay or leave. The request has passed the checks of its protocol.

        Raises:
            GroupError: the member is not who or where it says.
        """
        if request.epoch in (LEAVING_EPOCH, STATIC_LEAVING_EPOCH):
            self._leave(request, now_ms)
            result = self._result(request.member_id, request.epoch)
        else:
            result = self._stay(request, catalogue, now_ms)
        self._finish(now_ms, out)
        out.reply(token, result)

    def _stay(self, request: H, catalogue: TopicCatalogue, now_ms: int) -> HeartbeatResult[Any]:
        before = self._find(request)
        # Nothing raises from here on.
        member = self._advance(before, request, catalogue, now_ms)
        self.stats.heartbeat()
        is_news = member.assigned != before.assigned
        # It shows an epoch or an assignment of before: an answer with what is assigned was lost.
        is_behind = request.epoch != before.epoch or request.owned not in {None, member.assigned}
        result = self._answer(member, request, now_ms)
        if request.epoch == JOINING_EPOCH or request.is_full or is_news or is_behind:
            result = replace(result, assignment=member.assigned)
        return result

    def _answer(self, member: R, _request: H, _now_ms: int) -> HeartbeatResult[Any]:
        return self._result(member.member_id, member.epoch)

    def _find(self, request: H) -> R:
        """The member that a heartbeat speaks for, as it was before."""
        if request.epoch == JOINING_EPOCH:
            return self._joining(request)
        member = self._speaker(request)
        check_epoch(member, request.epoch, request.owned)
        return member

    def _speaker(self, request: H) -> R:
        return self.roster.get(request.member_id, request.instance_id)

    def _new_member(self, member_id: str) -> R:
        """A member that is not in the group yet, if there is room for one."""
        if len(self.roster.members) >= self.settings.max_group_size:
            raise GroupMaxSizeError(
                f"group {self.group_id!r} is full: {self.settings.max_group_size} members are "
                "allowed (group.max.size)"
            )
        return self.member_type(member_id=member_id)

    def _put(self, member: R, before: R | None, now_ms: int) -> None:
        """Put a member in; `before` is None where it was not in the group."""
        self.roster.put(member)
        if before is None:
            self.stats.joined(member.member_id)
            self._bump(RebalanceReason.MEMBER_JOINED, now_ms)
        elif not member.is_assigned_like(before):
            self._bump(RebalanceReason.MEMBER_UPDATED, now_ms)

    # --- Epochs and targets --------------------------------------------------------------------

    def _bump(self, reason: RebalanceReason, now_ms: int) -> None:
        self.epoch += 1
        self._is_changed = True
        self.stats.started(reason, now_ms)

    def _advance(self, before: R, request: H, catalogue: TopicCatalogue, now_ms: int) -> R:
        """Take over what a member says, and lead it one step towards the target."""
        self._take_in(before, request, now_ms)
        self._follow(request, catalogue, now_ms)
        if self.epoch != self.target_epoch:
            self.roster.retarget(self._target())
            self.target_epoch = self.epoch
            self._is_changed = True
        member = self._reconcile(request, now_ms)
        self._restart_session(member, now_ms)
        return member

    def _reconcile(self, request: H, now_ms: int) -> R:
        """Lead the member one step on, and watch that it gives up in time what it must."""
        before = self.roster.members[request.member_id]
        is_free = partial(self.roster.is_free_for, request.member_id)
        after = reconcile(before, self.target_epoch, request.owned, is_free)
        if after == before:
            return before
        self.roster.put(after)
        self.stats.moved(
            revoked=len(before.owned - after.owned), assigned=len(after.assigned - before.owned)
        )
        self._watch_revocation(after, now_ms)
        return after

    def _watch_revocation(self, member: R, now_ms: int) -> None:
        timer = GroupTimer(TimerKind.REVOCATION, member.member_id)
        if member.state is MemberState.UNREVOKED:
            self.timers.set(timer, now_ms + member.rebalance_timeout_ms)
        else:
            self.timers.cancel(timer)

    # --- Members that go, and time -------------------------------------------------------------

    def _leave(self, request: H, now_ms: int) -> None:
        self._remove(self._speaker(request).member_id, LeaveReason.LEFT, now_ms)

    def _remove(self, member_id: str, reason: LeaveReason, now_ms: int) -> None:
        """Take a member out; the next heartbeat of another shares out what it had."""
        self._cancel_timers(member_id)
        member = self.roster.remove(member_id)
        self.stats.left(member_id, reason)
        self.stats.moved(revoked=len(member.owned))
        self._bump(reason.rebalance_reason, now_ms)
        if self.is_empty:
            self.empty_since_ms = now_ms

    def _cancel_timers(self, member_id: str) -> None:
        for kind in TimerKind:
            self.timers.cancel(GroupTimer(kind, member_id))

    def _restart_session(self, member: R, now_ms: int) -> None:
        timer = GroupTimer(TimerKind.SESSION, member.member_id)
        self.timers.set(timer, now_ms + self._session_timeout_ms(member))

    def tick(self, now_ms: int, out: Effects) -> None:
        """Take out every member whose session ended, or that kept too long what it must give up."""
        for kind, member_id in self.timers.due(now_ms):
            if member_id in self.roster.members:  # else another timer of the member came first
                self._remove(member_id, _LEAVE_REASONS[kind], now_ms)
        self._finish(now_ms, out)

    def _finish(self, now_ms: int, out: Effects) -> None:
        """Close an event: count a rebalance that has ended, and store what changed."""
        is_under_way = self.state in {ReconciledState.ASSIGNING, ReconciledState.RECONCILING}
        if self.stats.started_at_ms is not None and not is_under_way:
            self.stats.completed(now_ms)
        if self._is_changed:
            out.persist.append(self.entry())
            self._is_changed = False
        out.persist.extend(self.roster.take_changes())

    def abandon(self, error: GroupError, out: Effects) -> None:
        """Nobody ever waits in this protocol, so there is only time to stop."""
        del error, out
        self.timers.clear()

    # --- What can be asked ---------------------------------------------------------------------

    @property
    def state(self) -> ReconciledState:
        """Follows from the members; nothing sets it."""
        members = self.roster.members.values()
        if self.is_dead:
            return ReconciledState.DEAD
        if not members:
            return ReconciledState.EMPTY
        if self.epoch > self.target_epoch:
            return ReconciledState.ASSIGNING
        if not self.is_ready:
            return ReconciledState.NOT_READY
        if all(member.has_reached(self.target_epoch) for member in members):
            return ReconciledState.STABLE
        return ReconciledState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Nobody is in the group."""
        return not self.roster.members

    def check_commit(
        self, request: CommitRequest, now_ms: int, *, is_transactional: bool = False
    ) -> None:
        """Let a commit through, or raise. Only heartbeats keep a session alive.

        Without a member it is let through while the group is empty, or from a transactional
        producer that does not know its group.

        Raises:
            UnknownMemberError: there is no such member.
            StaleMemberEpochError: the member is at another epoch.
        """
        del now_ms
        epoch = request.generation_or_epoch
        is_anonymous = not request.member_id and request.instance_id is None
        if epoch <= NO_GENERATION and (self.is_empty or (is_transactional and is_anonymous)):
            return
        self._check_epoch_of(request.member_id, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Let a member read its group's offsets; others need not name themselves.

        Raises like `check_commit`.
        """
        if member_id is not None or epoch > NO_GENERATION:
            self._check_epoch_of(member_id or "", epoch)

    def _check_epoch_of(self, member_id: str, epoch: int) -> None:
        member = self.roster.get(member_id)
        if member.epoch != epoch:
            raise StaleMemberEpochError(
                f"{member_id!r} is at epoch {member.epoch}, not {epoch}: ask again with the epoch "
                "of the newest heartbeat"
            )

    def expires_from(self, topic: str) -> int | None:
        """The earliest moment from which offsets of a topic grow old; None while they are used."""
        if self.is_empty:
            return self.empty_since_ms
        return None if self.reads(topic) else 0

    # --- What is stored ------------------------------------------------------------------------

    def load_member(self, member_id: str, value: Any) -> None:
        """Take over what was stored of a member, or that it is gone."""
        if value is not None:
            self.roster.put(self.member_type.from_value(member_id, value))
        elif member_id in self.roster.members:
            self.roster.remove(member_id)

    def dump(self) -> Iterator[Entry]:
        """The group and its members, as the entries that would load them."""
        yield self.entry()
        yield from [self.roster.entry(each) for each in self.roster.members]

    def forget(self) -> Iterator[Entry]:
        """What removes all but the group itself from the log, when it becomes another kind."""
        return self.roster.forget()

    def resume(self, now_ms: int) -> None:
        """After a restart every member has its whole time again."""
        self.roster.finish_loading()
        for member in self.roster.members.values():
            self._restart_session(member, now_ms)
            self._watch_revocation(member, now_ms)

    def check_invariants(self) -> None:
        """Raise `InvariantError` where the state contradicts itself."""
        self.roster.check_invariants()
        if self.target_epoch > self.epoch:
            raise InvariantError(f"target epoch {self.target_epoch} is above {self.epoch}")
        for member in self.roster.members.values():
            if member.epoch > self.target_epoch:
                raise InvariantError(f"{member.member_id!r} is ahead of its group")
            if (member.state is MemberState.UNREVOKED) != bool(member.pending_revocation):
                raise InvariantError(f"{member.member_id!r} revokes nothing, or unnoticed")
            if GroupTimer(TimerKind.SESSION, member.member_id) not in self.timers:
                raise InvariantError(f"{member.member_id!r} has no session")
            if member.has_reached(self.target_epoch) and member.assigned != member.target:
                raise InvariantError(f"{member.member_id!r} is stable without its target")
