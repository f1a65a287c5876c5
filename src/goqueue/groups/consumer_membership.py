"""Membership of a KIP-848 group: one heartbeat does it all, and the server assigns.

The group epoch grows whenever members, subscriptions or topics change. A target assignment is then
computed for that epoch, and each member is led to it step by step in its own heartbeats, so the
members that keep their partitions never stop.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, StrEnum, auto
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from goqueue.groups.assignors import DEFAULT_ASSIGNOR
from goqueue.groups.consumer_checks import check_epoch, check_holder, check_released, is_leaving
from goqueue.groups.consumer_member import ConsumerMember, MemberState, reconcile
from goqueue.groups.consumer_roster import ConsumerRoster
from goqueue.groups.consumer_target import Subscriptions, compute_target, preferred_assignor
from goqueue.groups.encoding import ConsumerGroupValue, GroupKey, put
from goqueue.groups.messages import JOINING_EPOCH, STATIC_LEAVING_EPOCH, ConsumerHeartbeatResult
from goqueue.groups.stats import LeaveReason, RebalanceReason
from goqueue.groups.timers import Timers
from goqueue.model.errors import (
    GroupMaxSizeError,
    InvalidGroupRequestError,
    InvariantError,
    UnknownMemberError,
)

if TYPE_CHECKING:
    from goqueue.groups.consumer_target import TopicsSeen
    from goqueue.groups.effects import Effects, Entry, Token
    from goqueue.groups.encoding import ConsumerMemberValue
    from goqueue.groups.messages import ConsumerHeartbeat
    from goqueue.groups.settings import GroupSettings
    from goqueue.groups.stats import GroupStats
    from goqueue.groups.topics import TopicCatalogue


class ConsumerState(StrEnum):
    """The names are the ones that Kafka's tools show."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """The group epoch is ahead of the target; the next heartbeat computes one."""
    RECONCILING = "Reconciling"
    """Some member has not reached the target."""
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerTimerKind(Enum):
    """What a deadline is about."""

    SESSION = auto()
    REVOCATION = auto()


class ConsumerTimer(NamedTuple):
    """One deadline of one member."""

    kind: ConsumerTimerKind
    member_id: str


_REBALANCE_REASONS = {
    LeaveReason.LEFT: RebalanceReason.MEMBER_LEFT,
    LeaveReason.SESSION_TIMEOUT: RebalanceReason.SESSION_TIMEOUT,
    LeaveReason.REBALANCE_TIMEOUT: RebalanceReason.REBALANCE_TIMEOUT,
}


class ConsumerMembership:
    """Members, epochs and targets; `ConsumerGroup` adds offsets and administration.

    `epoch` grows with every change that the target depends on; `target_epoch <= epoch` is the one
    that the target was computed for; no member's epoch is above `target_epoch`.
    """

    def __init__(
        self, group_id: str, settings: GroupSettings, stats: GroupStats, *, epoch: int = 0
    ) -> None:
        self.group_id = group_id
        self.settings = settings
        self.stats = stats
        self.roster = ConsumerRoster(group_id)
        self.epoch = epoch
        self.target_epoch = epoch
        self.assignor = DEFAULT_ASSIGNOR
        self.topics: TopicsSeen = ()
        self.empty_since_ms = 0
        self.is_dead = False
        self.timers: Timers[ConsumerTimer] = Timers()
        self._subscriptions = Subscriptions(settings.max_regex_chars)
        self._is_changed = False

    @property
    def state(self) -> ConsumerState:
        """Follows from the members; nothing sets it."""
        members = self.roster.members
        if self.is_dead:
            return ConsumerState.DEAD
        if not members:
            return ConsumerState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerState.ASSIGNING
        if all(member.has_reached(self.target_epoch) for member in members.values()):
            return ConsumerState.STABLE
        return ConsumerState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Nobody is in the group."""
        return not self.roster.members

    # --- Heartbeats ----------------------------------------------------------------------------

    def heartbeat(
        self,
        request: ConsumerHeartbeat,
        catalogue: TopicCatalogue,
        token: Token,
        now_ms: int,
        out: Effects,
    ) -> None:
        """Join, stay or leave. The request has passed `check_heartbeat`.

        Raises:
            GroupError: the member is not who or where it says.
        """
        if is_leaving(request):
            self._leave(request, now_ms)
            result = self._result(request.member_id, request.epoch)
        else:
            result = self._stay(request, catalogue, now_ms)
        self._finish(now_ms, out)
        out.reply(token, result)

    def _stay(
        self, request: ConsumerHeartbeat, catalogue: TopicCatalogue, now_ms: int
    ) -> ConsumerHeartbeatResult:
        before = self._joining(request) if request.epoch == JOINING_EPOCH else self._known(request)
        if request.subscribed_regex:
            self._subscriptions.check(request.subscribed_regex)
        # Nothing raises from here on.
        self._take_in(before, request, now_ms)
        if self._subscriptions.use(catalogue):
            self._notice_topics(now_ms)
        self._assign()
        member = self._reconcile(request, now_ms)
        self.stats.heartbeat()
        self._restart_session(member, now_ms)
        is_news = member.assigned != before.assigned
        # It shows an epoch or partitions of before: an answer with what is assigned was lost.
        is_behind = request.epoch != before.epoch or request.owned not in {None, member.assigned}
        result = self._result(member.member_id, member.epoch)
        if request.epoch == JOINING_EPOCH or request.is_full or is_news or is_behind:
            result = replace(result, assignment=member.assigned)
        return result

    def _result(self, member_id: str, epoch: int) -> ConsumerHeartbeatResult:
        return ConsumerHeartbeatResult(
            member_id=member_id,
            epoch=epoch,
            heartbeat_interval_ms=self.settings.consumer_heartbeat_interval_ms,
            assignment=None,
        )

    def _known(self, request: ConsumerHeartbeat) -> ConsumerMember:
        """The member that an ongoing heartbeat speaks for."""
        if request.instance_id is None:
            member = self._get(request.member_id)
        else:
            member = check_holder(self.roster.holder(request.instance_id), request)
        check_epoch(member, request)
        return member

    def _get(self, member_id: str) -> ConsumerMember:
        member = self.roster.members.get(member_id)
        if member is None:
            raise UnknownMemberError(
                f"{member_id!r} is not a member of group {self.group_id!r}: join again with epoch 0"
            )
        return member

    def _joining(self, request: ConsumerHeartbeat) -> ConsumerMember:
        """The member as it was before it joined: itself, its former process, or nobody."""
        known = self.roster.members.get(request.member_id)
        holder = None if request.instance_id is None else self.roster.holder(request.instance_id)
        if holder is not None and holder is not known:
            check_released(holder, request)
            if known is not None:
                raise InvalidGroupRequestError(
                    f"the member id {request.member_id!r} is in use by another member"
                )
            return holder
        if known is not None:
            return known
        if len(self.roster.members) >= self.settings.max_group_size:
            raise GroupMaxSizeError(
                f"group {self.group_id!r} is full: {self.settings.max_group_size} members are "
                "allowed (group.max.size)"
            )
        return ConsumerMember(member_id=request.member_id)

    def _take_in(self, before: ConsumerMember, request: ConsumerHeartbeat, now_ms: int) -> None:
        """Put the member into the group as it says it is, and note what that changes."""
        is_new = before.member_id not in self.roster.members
        if before.member_id != request.member_id:
            # A static member's next process takes over all that the last one had.
            self._cancel_timers(before.member_id)
            self.roster.remove(before.member_id)
            before = replace(before, member_id=request.member_id, epoch=0, previous_epoch=0)
        member = before.updated_by(request)
        self.roster.put(member)
        if is_new:
            self.stats.joined()
            self._bump(RebalanceReason.MEMBER_JOINED, now_ms)
        elif not member.subscribes_like(before):
            self._bump(RebalanceReason.MEMBER_UPDATED, now_ms)

    # --- Epochs and targets --------------------------------------------------------------------

    def _bump(self, reason: RebalanceReason, now_ms: int) -> None:
        self.epoch += 1
        self._is_changed = True
        self.stats.started(reason, now_ms)

    def _notice_topics(self, now_ms: int) -> None:
        """A topic that somebody reads appeared, grew or went: the target must follow."""
        seen = self._subscriptions.seen(self.roster.members.values())
        if self.epoch == self.target_epoch and seen != self.topics:
            self._bump(RebalanceReason.TOPICS_CHANGED, now_ms)

    def _assign(self) -> None:
        """Compute the target when the epoch has moved on."""
        if self.epoch == self.target_epoch:
            return
        members = self.roster.members
        self._subscriptions.keep_patterns(m.subscribed_regex for m in members.values())
        self.assignor = preferred_assignor(members.values())
        self.topics = self._subscriptions.seen(members.values())
        self.roster.retarget(compute_target(members, self._subscriptions, self.assignor))
        self.target_epoch = self.epoch
        self._is_changed = True

    def _reconcile(self, request: ConsumerHeartbeat, now_ms: int) -> ConsumerMember:
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
        timer = ConsumerTimer(ConsumerTimerKind.REVOCATION, after.member_id)
        if after.state is MemberState.UNREVOKED:
            self.timers.set(timer, now_ms + after.rebalance_timeout_ms)
        else:
            self.timers.cancel(timer)
        return after

    # --- Members that go, and time -------------------------------------------------------------

    def _leave(self, request: ConsumerHeartbeat, now_ms: int) -> None:
        if request.instance_id is None:
            member = self._get(request.member_id)
        else:
            member = check_holder(self.roster.holder(request.instance_id), request)
        if request.epoch == STATIC_LEAVING_EPOCH:
            self._step_out(member)
        else:
            self._remove(member.member_id, LeaveReason.LEFT, now_ms)

    def _step_out(self, member: ConsumerMember) -> None:
        """A static member is away: its partitions wait for it until its session ends."""
        self.timers.cancel(ConsumerTimer(ConsumerTimerKind.REVOCATION, member.member_id))
        self.stats.moved(revoked=len(member.pending_revocation))
        self.roster.put(
            replace(
                member,
                epoch=STATIC_LEAVING_EPOCH,
                state=MemberState.STABLE,
                pending_revocation=frozenset(),
            )
        )

    def _remove(self, member_id: str, reason: LeaveReason, now_ms: int) -> None:
        """Take a member out; the next heartbeat of another shares out what it had."""
        self._cancel_timers(member_id)
        member = self.roster.remove(member_id)
        self.stats.left(reason)
        self.stats.moved(revoked=len(member.owned))
        self._bump(_REBALANCE_REASONS[reason], now_ms)
        if self.is_empty:
            self.empty_since_ms = now_ms

    def _restart_session(self, member: ConsumerMember, now_ms: int) -> None:
        timer = ConsumerTimer(ConsumerTimerKind.SESSION, member.member_id)
        self.timers.set(timer, now_ms + self.settings.consumer_session_timeout_ms)

    def _cancel_timers(self, member_id: str) -> None:
        for kind in ConsumerTimerKind:
            self.timers.cancel(ConsumerTimer(kind, member_id))

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self.timers.next_ms()

    def tick(self, now_ms: int, out: Effects) -> None:
        """Take out every member that was not heard of, or did not give up partitions, in time."""
        for kind, member_id in self.timers.due(now_ms):
            if member_id not in self.roster.members:
                continue  # the other timer of the member came first
            is_session = kind is ConsumerTimerKind.SESSION
            reason = LeaveReason.SESSION_TIMEOUT if is_session else LeaveReason.REBALANCE_TIMEOUT
            self._remove(member_id, reason, now_ms)
        self._finish(now_ms, out)

    # --- Storing and loading -------------------------------------------------------------------

    def _finish(self, now_ms: int, out: Effects) -> None:
        """Close an event: count a rebalance that has ended, and store what changed."""
        has_ended = self.state in (ConsumerState.STABLE, ConsumerState.EMPTY)
        if self.stats.started_at_ms is not None and has_ended:
            self.stats.completed(now_ms)
        if self._is_changed:
            out.persist.append(self.entry())
            self._is_changed = False
        out.persist.extend(self.roster.take_changes())

    def entry(self) -> Entry:
        """What is stored of the group besides its members."""
        return put(
            GroupKey(self.group_id),
            ConsumerGroupValue(
                self.epoch, self.target_epoch, self.assignor, self.topics, self.empty_since_ms
            ),
        )

    def load_group(self, value: ConsumerGroupValue) -> None:
        """Take over what was stored of the group."""
        self.epoch = value.epoch
        self.target_epoch = value.target_epoch
        self.assignor = value.assignor
        self.topics = value.topics
        self.empty_since_ms = value.empty_since_ms

    def load_member(self, member_id: str, value: ConsumerMemberValue | None) -> None:
        """Take over what was stored of a member, or that it is gone."""
        if value is not None:
            self.roster.put(ConsumerMember.from_value(member_id, value))
        elif member_id in self.roster.members:
            self.roster.remove(member_id)

    def resume(self, now_ms: int) -> None:
        """After a restart every member has its whole time again."""
        self.roster.finish_loading()
        for member in self.roster.members.values():
            self._restart_session(member, now_ms)
            if member.state is MemberState.UNREVOKED:
                timer = ConsumerTimer(ConsumerTimerKind.REVOCATION, member.member_id)
                self.timers.set(timer, now_ms + member.rebalance_timeout_ms)

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
            if ConsumerTimer(ConsumerTimerKind.SESSION, member.member_id) not in self.timers:
                raise InvariantError(f"{member.member_id!r} has no session")
            if member.has_reached(self.target_epoch) and member.assigned != member.target:
                raise InvariantError(f"{member.member_id!r} is stable without its target")
