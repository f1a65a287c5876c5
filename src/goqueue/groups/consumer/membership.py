"""Membership of a KIP-848 group: one heartbeat does it all, and the server assigns.

The group epoch grows whenever members, subscriptions or topics change. A target assignment is then
computed for that epoch, and each member is led to it step by step in its own heartbeats, so the
members that keep their partitions never stop.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from goqueue.groups.consumer.checks import check_holder, check_released, is_leaving
from goqueue.groups.consumer.member import ConsumerMember
from goqueue.groups.consumer.state import (
    ConsumerGroupState,
    ConsumerState,
    ConsumerTimer,
    ConsumerTimerKind,
)
from goqueue.groups.consumer.target import compute_target, preferred_assignor
from goqueue.groups.messages import JOINING_EPOCH, STATIC_LEAVING_EPOCH, ConsumerHeartbeatResult
from goqueue.groups.reconciliation import MemberState, check_epoch, reconcile
from goqueue.groups.stats import LeaveReason, RebalanceReason
from goqueue.model.errors import (
    GroupMaxSizeError,
    InvalidGroupRequestError,
    UnknownMemberError,
)

if TYPE_CHECKING:
    from goqueue.groups.effects import Effects, Token
    from goqueue.groups.messages import ConsumerHeartbeat
    from goqueue.groups.topics import TopicCatalogue


_REBALANCE_REASONS = {
    LeaveReason.LEFT: RebalanceReason.MEMBER_LEFT,
    LeaveReason.SESSION_TIMEOUT: RebalanceReason.SESSION_TIMEOUT,
    LeaveReason.REBALANCE_TIMEOUT: RebalanceReason.REBALANCE_TIMEOUT,
    LeaveReason.SYNC_TIMEOUT: RebalanceReason.SYNC_TIMEOUT,
}
_LEAVE_REASONS = {
    ConsumerTimerKind.SESSION: LeaveReason.SESSION_TIMEOUT,
    ConsumerTimerKind.REVOCATION: LeaveReason.REBALANCE_TIMEOUT,
    ConsumerTimerKind.JOIN: LeaveReason.REBALANCE_TIMEOUT,
    ConsumerTimerKind.SYNC: LeaveReason.SYNC_TIMEOUT,
}


class ConsumerMembership(ConsumerGroupState):
    """Heartbeats, targets and time; `ConsumerGroup` adds offsets and administration."""

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
        member = self._advance(before, request, catalogue, now_ms)
        self.stats.heartbeat()
        is_news = member.assigned != before.assigned
        # It shows an epoch or partitions of before: an answer with what is assigned was lost.
        is_behind = request.epoch != before.epoch or request.owned not in {None, member.assigned}
        result = self._result(member.member_id, member.epoch)
        if request.epoch == JOINING_EPOCH or request.is_full or is_news or is_behind:
            result = replace(result, assignment=member.assigned)
        return result

    def _advance(
        self,
        before: ConsumerMember,
        request: ConsumerHeartbeat,
        catalogue: TopicCatalogue,
        now_ms: int,
    ) -> ConsumerMember:
        """Take over what a member says, and lead it one step towards the target."""
        self._take_in(before, request, now_ms)
        if self._subscriptions.use(catalogue):
            self._notice_topics(now_ms)
        self._assign()
        member = self._reconcile(request, now_ms)
        self._restart_session(member, now_ms)
        return member

    def _result(self, member_id: str, epoch: int) -> ConsumerHeartbeatResult:
        return ConsumerHeartbeatResult(
            member_id=member_id,
            epoch=epoch,
            heartbeat_interval_ms=self.settings.consumer_heartbeat_interval_ms,
            assignment=None,
        )

    def _known(self, request: ConsumerHeartbeat) -> ConsumerMember:
        """The member that an ongoing heartbeat speaks for."""
        member = self._speaker(request)
        check_epoch(member, request.epoch, request.owned)
        return member

    def _speaker(self, request: ConsumerHeartbeat) -> ConsumerMember:
        """The member of the KIP-848 protocol that a request comes from."""
        if request.instance_id is None:
            member = self._get(request.member_id)
        else:
            member = check_holder(self.roster.holder(request.instance_id), request)
        if member.classic is not None:
            raise UnknownMemberError(
                f"{request.member_id!r} is a member of the classic protocol: join with epoch 0"
            )
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
        return known if known is not None else self._new_member(request.member_id)

    def _new_member(self, member_id: str) -> ConsumerMember:
        """A member that is not in the group yet, if there is room for one."""
        if len(self.roster.members) >= self.settings.max_group_size:
            raise GroupMaxSizeError(
                f"group {self.group_id!r} is full: {self.settings.max_group_size} members are "
                "allowed (group.max.size)"
            )
        return ConsumerMember(member_id=member_id)

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
        member = self._speaker(request)
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

    def _cancel_timers(self, member_id: str) -> None:
        for kind in ConsumerTimerKind:
            self.timers.cancel(ConsumerTimer(kind, member_id))

    def tick(self, now_ms: int, out: Effects) -> None:
        """Take out every member that was not heard of, or did not give up partitions, in time."""
        for kind, member_id in self.timers.due(now_ms):
            if member_id not in self.roster.members:
                continue  # another timer of the member came first
            self._remove(member_id, _LEAVE_REASONS[kind], now_ms)
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
