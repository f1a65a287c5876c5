"""Joining a classic group: new members, members that come back, and static ones that restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from goqueue.groups.classic.member import ClassicMember
from goqueue.groups.classic.rebalance import ClassicRebalance
from goqueue.groups.classic.state import ClassicState
from goqueue.groups.consumer.protocol import PROTOCOL_TYPE, subscribed_topics
from goqueue.groups.core import GroupTimer, TimerKind
from goqueue.groups.stats import LeaveReason, RebalanceReason
from goqueue.model.errors import (
    FencedInstanceError,
    GroupMaxSizeError,
    InconsistentGroupProtocolError,
    MemberIdRequiredError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.groups.effects import Effects, Token
    from goqueue.groups.messages import JoinRequest


class ClassicJoin(ClassicRebalance):
    """Every way into a classic group."""

    def join(
        self,
        request: JoinRequest,
        new_uuid: Callable[[], str],
        token: Token,
        now_ms: int,
        out: Effects,
    ) -> None:
        """Take a member into the next generation; the reply comes when that begins.

        Raises:
            GroupError: the member may not join, or not like this.
        """
        self._make_room(request, now_ms, out)
        if not self.roster.can_run_with(request.protocol_type, request.protocols):
            raise InconsistentGroupProtocolError(
                f"group {self.group_id!r} runs protocols of type {self.roster.protocol_type!r}; "
                f"type {request.protocol_type!r} with {[name for name, _ in request.protocols]} "
                "shares none that all members can run"
            )
        if request.member_id:
            self._join_known(request, token, now_ms, out)
        elif request.instance_id is not None:
            self._join_static(request, f"{request.instance_id}-{new_uuid()}", token, now_ms, out)
        elif request.require_known_member_id:
            member_id = f"{request.client_id}-{new_uuid()}"
            self.roster.expect(member_id)
            timer = GroupTimer(TimerKind.PENDING, member_id)
            self.timers.set(timer, now_ms + request.session_timeout_ms)
            raise MemberIdRequiredError(member_id)
        else:
            self._admit(f"{request.client_id}-{new_uuid()}", request, token, now_ms, out)

    def _make_room(self, request: JoinRequest, now_ms: int, out: Effects) -> None:
        """Refuse a member that would be one too many.

        While members join, those who have joined count, so that the last ones to come back to a
        group that was made smaller are the ones refused.
        """
        roster, limit = self.roster, self.settings.max_group_size
        if self.state is ClassicState.PREPARING_REBALANCE:
            fits = request.member_id in roster.joining or len(roster.joining) < limit
        else:
            fits = request.member_id in roster.members or len(roster.members) < limit
        if fits and (request.member_id or len(roster.pending) < limit):
            return
        member = roster.members.get(request.member_id)
        if member is not None:
            self._forget(member, LeaveReason.GROUP_FULL, out)
            self._begin_if_all_joined(now_ms, out)
        raise GroupMaxSizeError(
            f"group {self.group_id!r} is full: {limit} members are allowed (group.max.size)"
        )

    def _join_known(self, request: JoinRequest, token: Token, now_ms: int, out: Effects) -> None:
        """A join with a member id: one we handed out, or one of a member that joins again."""
        if request.member_id in self.roster.pending and request.instance_id is None:
            self.timers.cancel(GroupTimer(TimerKind.PENDING, request.member_id))
            self._admit(request.member_id, request, token, now_ms, out)
            return
        member = self.roster.get(request.member_id, request.instance_id)
        same = member.protocols == request.protocols
        if self.state is ClassicState.COMPLETING_REBALANCE and same:
            # The reply to its join was lost on the way; the generation has not moved on.
            out.reply(token, self._join_result(member))
        elif (
            self.state is ClassicState.STABLE and same and member.member_id != self.roster.leader_id
        ):
            out.reply(token, self._join_result(member))
        else:
            # The leader joins again only when it wants a new assignment, so it always gets one.
            reason = RebalanceReason.MEMBER_REJOINED if same else RebalanceReason.MEMBER_UPDATED
            self.roster.describe_again(member, request)
            self._park_join(member, token, out)
            self._rebalance(reason, now_ms, out)

    def _admit(
        self, member_id: str, request: JoinRequest, token: Token, now_ms: int, out: Effects
    ) -> None:
        """Take in a member that was not in the group, and rebalance."""
        member = ClassicMember.from_join(member_id, request)
        self.roster.add(member, request.protocol_type)
        self.roster.new.add(member_id)
        self.stats.joined(member_id)
        self._grew = True
        self._park_join(member, token, out)
        timer = GroupTimer(TimerKind.SESSION, member_id)
        self.timers.set(timer, now_ms + self.settings.new_member_join_timeout_ms)
        self._rebalance(RebalanceReason.MEMBER_JOINED, now_ms, out)

    def _park_join(self, member: ClassicMember, token: Token, out: Effects) -> None:
        """Let a join wait for the generation to begin; an older one of the member gives way."""
        self._dismiss_waiting(member.member_id, self._rebalancing_error(), out)
        self.roster.joining[member.member_id] = token

    # --- Join of static members ----------------------------------------------------------------

    def _join_static(
        self, request: JoinRequest, new_id: str, token: Token, now_ms: int, out: Effects
    ) -> None:
        """A process with an instance id starts: it is new, or it takes its own old place."""
        old_id = self.roster.static_ids.get(request.instance_id or "")
        if old_id is None:
            self._admit(new_id, request, token, now_ms, out)
            return
        member = self.roster.members[old_id]
        old_leader_id = self.roster.leader_id
        changed = self._subscription_changes(member, request)
        self._take_over(member, new_id, out)
        self.roster.describe_again(member, request)
        self._heard_from(member, now_ms)
        keeps_protocol = self.roster.elect_protocol() == self.protocol_name
        if self.state is ClassicState.STABLE and keeps_protocol and not changed:
            self._answer_returning(member, old_leader_id or "", request, token, out)
            return
        self._park_join(member, token, out)
        # Also while the leader assigns: it knows the old id, so the new one would get nothing.
        self._rebalance(RebalanceReason.MEMBER_REJOINED, now_ms, out)

    def _take_over(self, member: ClassicMember, new_id: str, out: Effects) -> None:
        """Fence the process that had the instance id before."""
        fenced = FencedInstanceError(
            f"a newer process took over the instance id {member.instance_id!r}"
        )
        self._dismiss_waiting(member.member_id, fenced, out)
        self.timers.cancel(GroupTimer(TimerKind.SESSION, member.member_id))
        self._partitions = {
            (new_id if member_id == member.member_id else member_id): parts
            for member_id, parts in (self._partitions or {}).items()
        }
        self.roster.replace_static(member, new_id)

    def _subscription_changes(self, member: ClassicMember, request: JoinRequest) -> bool:
        """Whether a returning consumer reads other topics than before.

        Its other metadata (what it owned, in which generation) differs after every restart and
        says nothing.
        """
        if self.roster.protocol_type != PROTOCOL_TYPE:
            return False
        new = next((data for name, data in request.protocols if name == self.protocol_name), b"")
        return subscribed_topics(new) != subscribed_topics(member.metadata(self.protocol_name))

    def _answer_returning(
        self,
        member: ClassicMember,
        old_leader_id: str,
        request: JoinRequest,
        token: Token,
        out: Effects,
    ) -> None:
        """A static member is back and nothing changed: the generation goes on with its new id.

        A leader must not assign anew, since a stable group would not hear it. New clients are
        told to skip that; old ones are told the old leader's id, so that they do not see
        themselves in it.
        """
        self._store(out)
        result = self._join_result(member)
        if request.supports_skip_assignment:
            leads = member.member_id == self.roster.leader_id
            result = replace(result, skip_assignment=leads)
        else:
            result = replace(result, leader_id=old_leader_id, members=())
        out.reply(token, result)
