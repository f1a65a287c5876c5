"""A KIP-848 group, and its members of the classic protocol: JoinGroup, SyncGroup, Heartbeat.

Such a member has an epoch like every other, which it knows as its generation, and is led to the
same target. JoinGroup is its heartbeat: it says what the member owns, and takes it one step on.
SyncGroup hands out what it is assigned; Heartbeat tells it to join again when there is a further
step to take. A cooperative member keeps its partitions meanwhile. An eager one stops reading while
it joins; its partitions stay its own.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from goqueue.groups.consumer.membership import ConsumerMembership
from goqueue.groups.consumer.protocol import (
    PROTOCOL_TYPE,
    Subscription,
    encode_assignment,
    read_subscription,
)
from goqueue.groups.core import GroupTimer, TimerKind
from goqueue.groups.effects import Effects, Token, refusal
from goqueue.groups.messages import (
    DONE,
    JOINING_EPOCH,
    ClassicProtocols,
    CommitRequest,
    ConsumerHeartbeat,
    HeartbeatRequest,
    JoinRequest,
    JoinResult,
    LeaveRequest,
    LeaveResult,
    LeavingMember,
    Protocol,
    SyncRequest,
    SyncResult,
)
from goqueue.groups.reconciled.member import MemberState
from goqueue.groups.stats import LeaveReason
from goqueue.model.errors import (
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    MemberIdRequiredError,
    RebalanceInProgressError,
    UnknownMemberError,
)
from goqueue.model.topic_partition import TopicIdPartition, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.groups.consumer.member import ConsumerMember
    from goqueue.groups.topics import TopicCatalogue


class ConsumerGroup(ConsumerMembership):
    """Adds what members of the classic protocol ask of a KIP-848 group."""

    @property
    def has_only_classic_members(self) -> bool:
        """Nobody is left who speaks the KIP-848 protocol; false for an empty group."""
        members = self.roster.members.values()
        return bool(members) and all(member.classic is not None for member in members)

    def join(
        self,
        request: JoinRequest,
        new_uuid: Callable[[], str],
        token: Token,
        now_ms: int,
        out: Effects,
        *,
        catalogue: TopicCatalogue,
    ) -> None:
        """Take a member in, or one step on; it is answered at once and leads nobody.

        Raises:
            GroupError: the member may not join, or not like this.
        """
        subscription = self._check_protocols(request)
        if not request.member_id and request.instance_id is None:
            new_id = f"{request.client_id}-{new_uuid()}"
            if request.require_known_member_id:
                raise MemberIdRequiredError(new_id)
            before, member_id = self._new_member(new_id), new_id
        elif request.instance_id is not None:
            before, member_id = self._joining_static(request, request.instance_id, new_uuid)
        else:
            before, member_id = self._joining_dynamic(request), request.member_id
        said = _as_heartbeat(request, member_id, subscription, catalogue)
        # Nothing raises from here on.
        member = self._advance(before, said, catalogue, now_ms)
        self.timers.cancel(GroupTimer(TimerKind.JOIN, member_id))
        timer = GroupTimer(TimerKind.SYNC, member_id)
        self.timers.set(timer, now_ms + member.rebalance_timeout_ms)
        self._finish(now_ms, out)
        out.reply(
            token,
            JoinResult(
                member_id=member_id,
                generation=member.epoch,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=request.protocols[0].name,
                leader_id="",
            ),
        )

    def _check_protocols(self, request: JoinRequest) -> Subscription:
        """The subscription of a member that can run what the classic members here run."""
        offered = [name for name, _ in request.protocols]
        others = [
            {name for name, _ in member.classic.protocols}
            for member in self.roster.members.values()
            if member.classic is not None and member.member_id != request.member_id
        ]
        support = Counter(name for names in others for name in names)
        fits = any(support[name] == len(others) for name in offered)
        subscription = read_subscription(request.protocols[0].metadata) if offered else None
        if request.protocol_type != PROTOCOL_TYPE or not fits or subscription is None:
            raise InconsistentGroupProtocolError(
                f"group {self.group_id!r} takes members of type {PROTOCOL_TYPE!r} with a "
                f"subscription; type {request.protocol_type!r} with {offered} shares no protocol "
                "that all its classic members can run"
            )
        return subscription

    def _joining_dynamic(self, request: JoinRequest) -> ConsumerMember:
        """The member as it was before; any id will do, since a classic group may have given it."""
        known = self.roster.members.get(request.member_id)
        if known is None:
            return self._new_member(request.member_id)
        if known.classic is None:
            raise UnknownMemberError(
                f"{request.member_id!r} is a member of the KIP-848 protocol: join without an id"
            )
        return known

    def _joining_static(
        self, request: JoinRequest, instance_id: str, new_uuid: Callable[[], str]
    ) -> tuple[ConsumerMember, str]:
        """The member as it was before, and the id that it has from now on.

        A process without a member id has just started; it takes the place of any former process.
        """
        if request.member_id:
            return self.roster.get(request.member_id, instance_id), request.member_id
        new_id = f"{instance_id}-{new_uuid()}"
        return self.roster.holder(instance_id) or self._new_member(new_id), new_id

    def sync(self, request: SyncRequest, token: Token, now_ms: int, out: Effects) -> None:
        """Hand a member what it is assigned.

        Raises:
            GroupError: the member is not in this generation, or must join the next.
        """
        member = self._classic_member(request.member_id, request.instance_id, request.generation)
        self._check_protocol(request, (PROTOCOL_TYPE, _protocols(member)[0].name))
        # A member that still gives up partitions must be told what it keeps first.
        if member.epoch < self.epoch and member.state is not MemberState.UNREVOKED:
            raise self._must_join(member, now_ms)
        self.timers.cancel(GroupTimer(TimerKind.SYNC, member.member_id))
        self._restart_session(member, now_ms)
        out.reply(
            token,
            SyncResult(
                protocol_type=PROTOCOL_TYPE,
                protocol_name=_protocols(member)[0].name,
                assignment=self.classic_assignment(member, member.assigned),
            ),
        )

    def classic_heartbeat(
        self, request: HeartbeatRequest, token: Token, now_ms: int, out: Effects
    ) -> None:
        """A member is alive; here it is told to take the next step.

        Raises:
            GroupError: the member is not in this generation, or must join again.
        """
        member = self._classic_member(request.member_id, request.instance_id, request.generation)
        self.stats.heartbeat()
        self._restart_session(member, now_ms)
        if self._has_next_step(member):
            raise self._must_join(member, now_ms)
        out.reply(token, DONE)

    def leave(self, request: LeaveRequest, token: Token, now_ms: int, out: Effects) -> None:
        """An administrator removes members."""

        def leave(leaving: LeavingMember) -> None:
            self._remove(self._leaving(leaving).member_id, LeaveReason.LEFT, now_ms)

        results = tuple((each, refusal(leave, each)) for each in request.members)
        self._finish(now_ms, out)
        out.reply(token, LeaveResult(results))

    def check_commit(
        self, request: CommitRequest, now_ms: int, *, is_transactional: bool = False
    ) -> None:
        """Let a commit through, or raise; it keeps the session of a classic member alive."""
        super().check_commit(request, now_ms, is_transactional=is_transactional)
        member = self.roster.members.get(request.member_id)
        if member is not None and member.classic is not None:
            self._restart_session(member, now_ms)

    def _check_epoch_of(self, member_id: str, epoch: int) -> None:
        member = self.roster.get(member_id)
        if member.classic is not None and member.epoch != epoch:
            raise IllegalGenerationError(
                f"{member_id!r} is in generation {member.epoch}, not in {epoch}: join again"
            )
        super()._check_epoch_of(member_id, epoch)

    def _has_next_step(self, member: ConsumerMember) -> bool:
        if member.epoch < self.epoch or member.state is MemberState.UNREVOKED:
            return True
        missing = member.target - member.assigned
        return member.state is MemberState.UNRELEASED and all(
            self.roster.is_free_for(member.member_id, part) for part in missing
        )

    def _must_join(self, member: ConsumerMember, now_ms: int) -> RebalanceInProgressError:
        """From the first time that it is told, the member has its rebalance timeout to join."""
        timer = GroupTimer(TimerKind.JOIN, member.member_id)
        if timer not in self.timers:
            self.timers.set(timer, now_ms + member.rebalance_timeout_ms)
        return RebalanceInProgressError(
            f"group {self.group_id!r} has a new assignment for {member.member_id!r}: join again"
        )

    def _classic_member(
        self, member_id: str, instance_id: str | None, generation: int
    ) -> ConsumerMember:
        member = self.roster.get(member_id, instance_id)
        if member.classic is None:
            raise UnknownMemberError(f"{member_id!r} is a member of the KIP-848 protocol")
        if generation != member.epoch:
            raise IllegalGenerationError(
                f"{member_id!r} is in generation {member.epoch} of group {self.group_id!r}, not in "
                f"{generation}: join again"
            )
        return member

    def classic_assignment(
        self, member: ConsumerMember, partitions: Iterable[TopicIdPartition]
    ) -> bytes:
        """Partitions as a classic member reads them, by the names the target was computed from."""
        names = {topic_id: name for name, topic_id, _ in self.topics}
        named = frozenset(
            TopicPartition(names[part[0]], part[1]) for part in partitions if part[0] in names
        )
        subscription = read_subscription(_protocols(member)[0].metadata)
        return encode_assignment(named, 0 if subscription is None else subscription.version)


def _protocols(member: ConsumerMember) -> tuple[Protocol, ...]:
    return () if member.classic is None else member.classic.protocols


def _as_heartbeat(
    request: JoinRequest, member_id: str, subscription: Subscription, catalogue: TopicCatalogue
) -> ConsumerHeartbeat:
    return ConsumerHeartbeat(
        group_id=request.group_id,
        member_id=member_id,
        epoch=JOINING_EPOCH,
        instance_id=request.instance_id,
        rack_id=subscription.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_names=subscription.topics,
        subscribed_regex="",
        owned=by_topic_id(subscription.owned, catalogue),
        classic=ClassicProtocols(request.session_timeout_ms, request.protocols),
    )


def by_topic_id(
    partitions: Iterable[TopicPartition], catalogue: TopicCatalogue
) -> frozenset[TopicIdPartition]:
    """Partitions by topic id; those of topics that are gone are left out."""
    topics = catalogue.topics
    return frozenset(
        (topics[topic].topic_id, number) for topic, number in partitions if topic in topics
    )
