"""Membership of a Streams group: one heartbeat does it all, and the broker assigns tasks.

The group epoch grows whenever members, topology, topics or settings change. A target is then
computed for that epoch, and each member is led to it step by step in its own heartbeats.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from goqueue.groups.messages import JOINING_EPOCH, LEAVING_EPOCH, StreamsHeartbeatResult
from goqueue.groups.reconciliation import MemberState, check_epoch, reconcile
from goqueue.groups.stats import LeaveReason, RebalanceReason
from goqueue.groups.streams.assignor import TaskMember, assign_tasks
from goqueue.groups.streams.configured import Status, StatusCode, configure
from goqueue.groups.streams.member import StreamsMember
from goqueue.groups.streams.state import (
    Basis,
    StreamsGroupState,
    StreamsState,
    StreamsTimer,
    StreamsTimerKind,
)
from goqueue.groups.topics import TopicCatalogue
from goqueue.model.errors import GroupMaxSizeError, InvalidGroupRequestError, UnknownMemberError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.groups.consumer.target import TopicsSeen
    from goqueue.groups.effects import Effects, Token
    from goqueue.groups.messages import EndpointPartitions, StreamsHeartbeat
    from goqueue.groups.settings import GroupSettings
    from goqueue.groups.stats import GroupStats
    from goqueue.groups.streams.topology import Topology

_REBALANCE_REASONS = {
    LeaveReason.LEFT: RebalanceReason.MEMBER_LEFT,
    LeaveReason.SESSION_TIMEOUT: RebalanceReason.SESSION_TIMEOUT,
    LeaveReason.REBALANCE_TIMEOUT: RebalanceReason.REBALANCE_TIMEOUT,
}
_LEAVE_REASONS = {
    StreamsTimerKind.SESSION: LeaveReason.SESSION_TIMEOUT,
    StreamsTimerKind.REVOCATION: LeaveReason.REBALANCE_TIMEOUT,
}


class StreamsMembership(StreamsGroupState):
    """Heartbeats, targets and time; `StreamsGroup` adds offsets and administration."""

    def __init__(
        self, group_id: str, settings: GroupSettings, stats: GroupStats, *, epoch: int = 0
    ) -> None:
        super().__init__(group_id, settings, stats, epoch=epoch)
        self._catalogue = TopicCatalogue(version=-1)
        self._configured_from: tuple[int, Topology | None] = (-1, None)
        """The catalogue and topology that `configured` and `_topics_seen` follow from."""
        self._topology_changed = False

    # --- Heartbeats ----------------------------------------------------------------------------

    def heartbeat(
        self,
        request: StreamsHeartbeat,
        catalogue: TopicCatalogue,
        token: Token,
        now_ms: int,
        out: Effects,
    ) -> None:
        """Join, stay or leave. The request has passed `check_streams_heartbeat`.

        Raises:
            GroupError: the member is not who or where it says.
        """
        if request.epoch == LEAVING_EPOCH:
            self._get(request.member_id)
            self._ask_to_stop(request)
            self._remove(request.member_id, LeaveReason.LEFT, now_ms)
            result = self._result(request.member_id, LEAVING_EPOCH)
        else:
            result = self._stay(request, catalogue, now_ms)
        self._finish(now_ms, out)
        out.reply(token, result)

    def _stay(
        self,
        request: StreamsHeartbeat,
        catalogue: TopicCatalogue,
        now_ms: int,
    ) -> StreamsHeartbeatResult:
        before = self._joining(request) if request.epoch == JOINING_EPOCH else self._known(request)
        # Nothing raises from here on.
        self._catalogue = catalogue
        self._ask_to_stop(request)
        self._take_in(before, request, now_ms)
        self._take_topology(request.topology, now_ms)
        self._follow(now_ms)
        self._assign()
        member = self._reconcile(request, now_ms)
        self._restart_session(member, now_ms)
        self.stats.heartbeat()
        return self._answer(before, member, request, now_ms)

    def _answer(
        self, before: StreamsMember, member: StreamsMember, request: StreamsHeartbeat, now_ms: int
    ) -> StreamsHeartbeatResult:
        is_news = member.assigned != before.assigned
        # It shows an epoch or tasks of before: an answer with what is assigned was lost.
        is_behind = request.epoch != before.epoch or request.owned not in {None, member.assigned}
        is_joining = request.epoch == JOINING_EPOCH
        result = replace(
            self._result(member.member_id, member.epoch),
            statuses=tuple(self._statuses(member, now_ms)),
            missing_topics=self.configured.missing,
        )
        if is_joining or is_news or is_behind:
            result = replace(result, assignment=member.assigned)
        if request.endpoint_epoch != self.endpoint_epoch:
            result = replace(result, endpoints=self.endpoints())
        return result

    def _result(self, member_id: str, epoch: int) -> StreamsHeartbeatResult:
        return StreamsHeartbeatResult(
            member_id=member_id,
            epoch=epoch,
            heartbeat_interval_ms=self.settings.streams_heartbeat_interval_ms,
            endpoint_epoch=self.endpoint_epoch,
        )

    def endpoints(self) -> tuple[EndpointPartitions, ...]:
        """What each instance can be asked for; `StreamsGroup` knows."""
        raise NotImplementedError

    def _statuses(self, member: StreamsMember, now_ms: int) -> Iterator[Status]:
        if self._is_stale(member):
            newest = self.topology.epoch if self.topology is not None else -1
            detail = f"topology epoch {member.topology_epoch}, the group has {newest}"
            yield Status(StatusCode.STALE_TOPOLOGY, detail)
        if self.configured.problem is not None:
            yield self.configured.problem
        elif self._is_delayed(now_ms):
            left_ms = self.delayed_until_ms - now_ms
            detail = f"waiting up to {left_ms} ms for more members"
            yield Status(StatusCode.ASSIGNMENT_DELAYED, detail)
        if self.shutdown_by is not None:
            detail = f"member {self.shutdown_by} asked all members to shut down"
            yield Status(StatusCode.SHUTDOWN_APPLICATION, detail)

    def _ask_to_stop(self, request: StreamsHeartbeat) -> None:
        if request.wants_shutdown and self.shutdown_by is None:
            self.shutdown_by = request.member_id

    def _known(self, request: StreamsHeartbeat) -> StreamsMember:
        """The member that an ongoing heartbeat speaks for."""
        member = self._get(request.member_id)
        check_epoch(member, request.epoch, request.owned)
        if request.process_id not in {None, member.process_id}:
            raise InvalidGroupRequestError(
                f"{member.member_id!r} is of process {member.process_id!r}, its heartbeat says "
                f"{request.process_id!r}: join again with epoch 0"
            )
        return member

    def _get(self, member_id: str) -> StreamsMember:
        member = self.roster.members.get(member_id)
        if member is None:
            raise UnknownMemberError(
                f"{member_id!r} is not a member of group {self.group_id!r}: join again with epoch 0"
            )
        return member

    def _joining(self, request: StreamsHeartbeat) -> StreamsMember:
        """The member as it was before it joined: itself, or nobody."""
        known = self.roster.members.get(request.member_id)
        if known is not None and known.process_id == request.process_id:
            return known
        if known is None and len(self.roster.members) >= self.settings.max_group_size:
            raise GroupMaxSizeError(
                f"group {self.group_id!r} is full: {self.settings.max_group_size} members are "
                "allowed (group.max.size)"
            )
        return StreamsMember(member_id=request.member_id)

    def _take_in(self, before: StreamsMember, request: StreamsHeartbeat, now_ms: int) -> None:
        """Put the member into the group as it says it is, and note what that changes."""
        known = self.roster.members.get(before.member_id)
        if known is None and self.is_empty:
            self.delayed_until_ms = now_ms + self.settings.streams_initial_rebalance_delay_ms
        elif known is not None and known is not before:
            # Another process under the same member id: what the last one had is free.
            self._remove(before.member_id, LeaveReason.LEFT, now_ms)
            known = None
        member = before.updated_by(request)
        self.roster.put(member)
        if member.endpoint != before.endpoint:
            self.endpoint_epoch += 1
        if known is None:
            self.stats.joined()
            self._bump(RebalanceReason.MEMBER_JOINED, now_ms)
        elif not member.is_assigned_like(before):
            self._bump(RebalanceReason.MEMBER_UPDATED, now_ms)

    # --- Topology, epochs and targets ----------------------------------------------------------

    def _take_topology(self, topology: Topology | None, now_ms: int) -> None:
        """Take over a topology that is not older than the group's."""
        if topology is None or topology == self.topology:
            return
        if self.topology is not None and topology.epoch < self.topology.epoch:
            return
        self.set_topology(topology)
        self._topology_changed = True
        if self.epoch == self.target_epoch:
            self._bump(RebalanceReason.MEMBER_UPDATED, now_ms)

    def _is_stale(self, member: StreamsMember) -> bool:
        return self.topology is not None and member.topology_epoch < self.topology.epoch

    def _is_delayed(self, now_ms: int) -> bool:
        return now_ms < self.delayed_until_ms

    def _bump(self, reason: RebalanceReason, now_ms: int) -> None:
        self.epoch += 1
        self._is_changed = True
        self.stats.started(reason, now_ms)

    def _follow(self, now_ms: int) -> None:
        """Hold the topology against the newest topics; where the basis moves, so does the epoch."""
        if self.topology is None:
            return
        source = (self._catalogue.version, self.topology)
        topics = self.basis.topics
        if self._configured_from != source:
            self._configured_from = source
            before, self.configured = self.configured, configure(self.topology, self._catalogue)
            topics = self._topics_seen(self.topology)
            if before != self.configured:
                self.endpoint_epoch += 1
        is_ready = self.configured.is_ready and not self._is_delayed(now_ms)
        basis = Basis(topics, is_ready, self.settings.streams_standby_count)
        if basis != self.basis:
            self.basis = basis
            self._is_changed = True
            if self.epoch == self.target_epoch:
                self._bump(RebalanceReason.TOPICS_CHANGED, now_ms)

    def _topics_seen(self, topology: Topology) -> TopicsSeen:
        """Name, id and partition count of every topic of the topology that exists."""
        found = self._catalogue.topics
        names = {name for each in topology.subtopologies for name in each.topics}
        return tuple(
            (name, found[name].topic_id, found[name].partition_count)
            for name in sorted(names & found.keys())
        )

    def _assign(self) -> None:
        """Compute the target when the epoch has moved on."""
        if self.epoch == self.target_epoch:
            return
        target = {}
        if self.basis.is_ready and self.topology is not None:
            members = {
                member_id: TaskMember(member.process_id, member.target)
                for member_id, member in self.roster.members.items()
                if not self._is_stale(member)
            }
            target = assign_tasks(
                members,
                self.configured.task_counts,
                self.topology.stateful_ids,
                self.basis.standby_count,
            )
        self.roster.retarget(target)
        self.target_epoch = self.epoch
        self._is_changed = True

    def _reconcile(self, request: StreamsHeartbeat, now_ms: int) -> StreamsMember:
        """Lead the member one step on, and watch that it gives up in time what it must."""
        before = self.roster.members[request.member_id]
        is_free = partial(self.roster.is_free_for, request.member_id)
        after = reconcile(before, self.target_epoch, request.owned, is_free)
        if after == before:
            return before
        self.roster.put(after)
        if after.assigned != before.assigned:
            self.endpoint_epoch += 1
        self.stats.moved(
            revoked=len(before.owned - after.owned), assigned=len(after.assigned - before.owned)
        )
        timer = StreamsTimer(StreamsTimerKind.REVOCATION, after.member_id)
        if after.state is MemberState.UNREVOKED:
            self.timers.set(timer, now_ms + after.rebalance_timeout_ms)
        else:
            self.timers.cancel(timer)
        return after

    # --- Members that go, and time -------------------------------------------------------------

    def _remove(self, member_id: str, reason: LeaveReason, now_ms: int) -> None:
        """Take a member out; the next heartbeat of another shares out what it had."""
        for kind in StreamsTimerKind:
            self.timers.cancel(StreamsTimer(kind, member_id))
        member = self.roster.remove(member_id)
        self.stats.left(reason)
        self.stats.moved(revoked=len(member.owned))
        self.endpoint_epoch += 1
        self._bump(_REBALANCE_REASONS[reason], now_ms)
        if self.is_empty:
            self.empty_since_ms = now_ms
            self.shutdown_by = None

    def tick(self, now_ms: int, out: Effects) -> None:
        """Take out every member that was not heard of, or did not give up tasks, in time."""
        for kind, member_id in self.timers.due(now_ms):
            if member_id in self.roster.members:  # else another timer of the member came first
                self._remove(member_id, _LEAVE_REASONS[kind], now_ms)
        self._finish(now_ms, out)

    def _finish(self, now_ms: int, out: Effects) -> None:
        """Close an event: count a rebalance that has ended, and store what changed."""
        has_ended = self.state not in {StreamsState.ASSIGNING, StreamsState.RECONCILING}
        if self.stats.started_at_ms is not None and has_ended:
            self.stats.completed(now_ms)
        if self._is_changed:
            out.persist.append(self.entry())
            self._is_changed = False
        if self._topology_changed:
            out.persist.append(self.topology_entry())
            self._topology_changed = False
        out.persist.extend(self.roster.take_changes())
