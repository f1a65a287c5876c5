"""Membership of a KIP-848 group: one heartbeat does it all, and the broker assigns partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from goqueue.groups.assignors import DEFAULT_ASSIGNOR
from goqueue.groups.consumer.checks import check_released
from goqueue.groups.consumer.member import ConsumerMember
from goqueue.groups.consumer.target import Subscriptions, compute_target, preferred_assignor
from goqueue.groups.core import GroupTimer, TimerKind
from goqueue.groups.encoding import ConsumerGroupValue, GroupKey, MemberKey, put
from goqueue.groups.messages import (
    STATIC_LEAVING_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
)
from goqueue.groups.reconciled.group import ReconciledGroup
from goqueue.groups.reconciled.member import MemberState
from goqueue.groups.reconciled.roster import ReconciledRoster
from goqueue.groups.stats import GroupStats, RebalanceReason
from goqueue.model.errors import InvalidGroupRequestError, UnknownMemberError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.groups.effects import Entry
    from goqueue.groups.settings import GroupSettings
    from goqueue.groups.topics import TopicCatalogue, TopicsSeen
    from goqueue.model.topic_partition import TopicIdPartition


class ConsumerMembership(ReconciledGroup[ConsumerMember, ConsumerHeartbeat]):
    """Static members, subscriptions and assignors; the epoch follows members and topics."""

    member_type = ConsumerMember

    def __init__(
        self, group_id: str, settings: GroupSettings, stats: GroupStats, *, epoch: int = 0
    ) -> None:
        super().__init__(group_id, settings, stats, epoch=epoch)
        self.roster = ReconciledRoster(group_id, MemberKey)
        self.assignor = DEFAULT_ASSIGNOR
        self.topics: TopicsSeen = ()
        self._subscriptions = Subscriptions(settings.max_regex_chars)

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

    def adopt(self, member: ConsumerMember, now_ms: int) -> None:
        """Take over a member of the classic group that this group was before."""
        self.roster.put(member)
        self._restart_session(member, now_ms)

    def reads(self, topic: str) -> bool:
        """Whether some member subscribes to the topic."""
        return any(topic in m.subscribed_names for m in self.roster.members.values()) or (
            not self.is_empty and any(topic == name for name, _, _ in self.topics)
        )

    def _session_timeout_ms(self, member: ConsumerMember) -> int:
        if member.classic is not None:
            return member.classic.session_timeout_ms
        return member.session_timeout_ms or self.settings.consumer_session_timeout_ms

    # --- Heartbeats ----------------------------------------------------------------------------

    def _result(self, member_id: str, epoch: int) -> ConsumerHeartbeatResult:
        return ConsumerHeartbeatResult(
            member_id=member_id,
            epoch=epoch,
            heartbeat_interval_ms=self.settings.consumer_heartbeat_interval_ms,
        )

    def _find(self, request: ConsumerHeartbeat) -> ConsumerMember:
        before = super()._find(request)
        self._subscriptions.check(request.subscribed_regex or "")
        return before

    def _speaker(self, request: ConsumerHeartbeat) -> ConsumerMember:
        """The member of the KIP-848 protocol that a request comes from."""
        member = super()._speaker(request)
        if member.classic is not None:
            raise UnknownMemberError(
                f"{request.member_id!r} is a member of the classic protocol: join with epoch 0"
            )
        return member

    def _joining(self, request: ConsumerHeartbeat) -> ConsumerMember:
        """The member as it was before it joined: itself, its former process, or nobody."""
        known = self.roster.members.get(request.member_id)
        holder = self.roster.holder(request.instance_id)
        if holder is not None and holder is not known:
            check_released(holder, request)
            if known is not None:
                raise InvalidGroupRequestError(
                    f"the member id {request.member_id!r} is in use by another member"
                )
            return holder
        return known if known is not None else self._new_member(request.member_id)

    def _take_in(self, before: ConsumerMember, request: ConsumerHeartbeat, now_ms: int) -> None:
        is_new = before.member_id not in self.roster.members
        if before.member_id != request.member_id:
            # A static member's next process takes over all that the last one had.
            self._cancel_timers(before.member_id)
            self.roster.remove(before.member_id)
            before = replace(before, member_id=request.member_id, epoch=0, previous_epoch=0)
        self._put(before.updated_by(request), None if is_new else before, now_ms)

    def _leave(self, request: ConsumerHeartbeat, now_ms: int) -> None:
        if request.epoch == STATIC_LEAVING_EPOCH:
            self._step_out(self._speaker(request))
        else:
            super()._leave(request, now_ms)

    def _step_out(self, member: ConsumerMember) -> None:
        """A static member is away: its partitions wait for it until its session ends."""
        self.timers.cancel(GroupTimer(TimerKind.REVOCATION, member.member_id))
        self.stats.moved(revoked=len(member.pending_revocation))
        self.roster.put(
            replace(
                member,
                epoch=STATIC_LEAVING_EPOCH,
                state=MemberState.STABLE,
                pending_revocation=frozenset(),
            )
        )

    # --- Epochs and targets --------------------------------------------------------------------

    def _follow(self, request: ConsumerHeartbeat, catalogue: TopicCatalogue, now_ms: int) -> None:
        """A topic that somebody reads appeared, grew or went: the target must follow."""
        del request
        if not self._subscriptions.use(catalogue) or self.epoch != self.target_epoch:
            return
        if self._subscriptions.seen(self.roster.members.values()) != self.topics:
            self._bump(RebalanceReason.TOPICS_CHANGED, now_ms)

    def _target(self) -> Mapping[str, frozenset[TopicIdPartition]]:
        members = self.roster.members
        self._subscriptions.keep_patterns(m.subscribed_regex for m in members.values())
        self.assignor = preferred_assignor(members.values())
        self.topics = self._subscriptions.seen(members.values())
        return compute_target(members, self._subscriptions, self.assignor)
