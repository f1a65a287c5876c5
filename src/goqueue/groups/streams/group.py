"""A Streams group (KIP-1071): one heartbeat does it all, and the broker assigns tasks.

The group epoch grows whenever members, topology, topics or settings change.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from goqueue.groups.encoding import GroupKey, StreamsGroupValue, TopologyKey, put, remove
from goqueue.groups.messages import (
    EndpointPartitions,
    LeaveRequest,
    LeaveResult,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    UserEndpoint,
)
from goqueue.groups.reconciled.group import ReconciledGroup
from goqueue.groups.stats import GroupStats, LeaveReason, RebalanceReason
from goqueue.groups.streams.assignor import Role, Task, TaskMember, assign_tasks
from goqueue.groups.streams.configured import ConfiguredTopology, Status, StatusCode, configure
from goqueue.groups.streams.member import StreamsMember
from goqueue.groups.streams.roster import StreamsRoster
from goqueue.groups.topics import TopicsSeen
from goqueue.model.errors import InvalidGroupRequestError, InvariantError, UnknownMemberError
from goqueue.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from goqueue.groups.effects import Effects, Entry, Token
    from goqueue.groups.settings import GroupSettings
    from goqueue.groups.streams.topology import Topology
    from goqueue.groups.topics import TopicCatalogue


class Basis(msgspec.Struct, frozen=True):
    """What a target is computed from, besides members and topology; another one is a rebalance."""

    topics: TopicsSeen = ()
    is_ready: bool = False
    """There are tasks to assign: topics fit the topology, and the first members had their time."""
    standby_count: int = 0


class StreamsGroup(ReconciledGroup[StreamsMember, StreamsHeartbeat]):
    """Topology, tasks and endpoints."""

    roster: StreamsRoster
    member_type = StreamsMember

    def __init__(
        self, group_id: str, settings: GroupSettings, stats: GroupStats, *, epoch: int = 0
    ) -> None:
        super().__init__(group_id, settings, stats, epoch=epoch)
        self.roster = StreamsRoster(group_id)
        self.topology: Topology | None = None
        self.topology_bytes = 0
        """What it costs to keep the topology: counted once, as it is asked for at every event."""
        self.configured = ConfiguredTopology()
        """The topology against the newest topics; not stored, as it follows from both."""
        self.basis = Basis()
        self.delayed_until_ms = 0
        """Until then an empty group waits for more members. Not stored: a restart is delay
        enough."""
        self.endpoint_epoch = 0
        """Grows whenever `endpoints` would answer otherwise."""
        self.shutdown_by: str | None = None
        """The member that asked all others to stop; in force until the group is empty."""
        self._configured_from: tuple[int, Topology | None] = (-1, None)
        """The catalogue and topology that `configured` follows from."""
        self._topology_changed = False

    @property
    def is_ready(self) -> bool:
        """Topics fit the topology, so there are tasks."""
        return self.basis.is_ready

    @property
    def held_bytes(self) -> int:
        """What the members say, and the topology."""
        return super().held_bytes + self.topology_bytes

    def _session_timeout_ms(self, member: StreamsMember) -> int:
        del member
        return self.settings.streams_session_timeout_ms

    # --- What is stored ------------------------------------------------------------------------

    def entry(self) -> Entry:
        """What is stored of the group besides its members and topology."""
        basis = self.basis
        return put(
            GroupKey(self.group_id),
            StreamsGroupValue(
                self.epoch,
                self.target_epoch,
                basis.topics,
                basis.is_ready,
                basis.standby_count,
                self.empty_since_ms,
            ),
        )

    def load_group(self, value: StreamsGroupValue) -> None:
        """Take over what was stored of the group."""
        self.epoch = value.epoch
        self.target_epoch = value.target_epoch
        self.basis = Basis(value.topics, value.is_ready, value.standby_count)
        self.empty_since_ms = value.empty_since_ms

    def set_topology(self, topology: Topology | None) -> None:
        """Take over a topology, or that there is none."""
        self.topology = topology
        self.topology_bytes = 0 if topology is None else topology.held_bytes

    def dump(self) -> Iterator[Entry]:
        """The group, its topology and its members, as the entries that would load them."""
        if self.topology is not None:
            yield put(TopologyKey(self.group_id), self.topology)
        yield from super().dump()

    def forget(self) -> Iterator[Entry]:
        """What removes all but the group itself from the log, when it becomes another kind."""
        if self.topology is not None:
            yield remove(TopologyKey(self.group_id))
        yield from super().forget()

    def _finish(self, now_ms: int, out: Effects) -> None:
        super()._finish(now_ms, out)
        if self._topology_changed and self.topology is not None:
            out.persist.append(put(TopologyKey(self.group_id), self.topology))
        self._topology_changed = False

    def check_invariants(self) -> None:
        """Raise `InvariantError` where the state contradicts itself."""
        super().check_invariants()
        if self.topology_bytes != (0 if self.topology is None else self.topology.held_bytes):
            raise InvariantError("the bytes of the topology are not what is counted")

    # --- Heartbeats ----------------------------------------------------------------------------

    def _result(self, member_id: str, epoch: int) -> StreamsHeartbeatResult:
        return StreamsHeartbeatResult(
            member_id=member_id,
            epoch=epoch,
            heartbeat_interval_ms=self.settings.streams_heartbeat_interval_ms,
            endpoint_epoch=self.endpoint_epoch,
        )

    def _answer(
        self, member: StreamsMember, request: StreamsHeartbeat, now_ms: int
    ) -> StreamsHeartbeatResult:
        has_newest = request.endpoint_epoch == self.endpoint_epoch
        return replace(
            self._result(member.member_id, member.epoch),
            statuses=tuple(self._statuses(member, now_ms)),
            missing_topics=self.configured.missing,
            endpoints=None if has_newest else self.endpoints(),
        )

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

    def _find(self, request: StreamsHeartbeat) -> StreamsMember:
        member = super()._find(request)
        if member.process_id and request.process_id not in {None, member.process_id}:
            raise InvalidGroupRequestError(
                f"{member.member_id!r} is of process {member.process_id!r}, its heartbeat says "
                f"{request.process_id!r}: join again with epoch 0"
            )
        return member

    def _joining(self, request: StreamsHeartbeat) -> StreamsMember:
        """The member as it was before it joined: itself, or nobody."""
        known = self.roster.members.get(request.member_id)
        if known is None:
            return self._new_member(request.member_id)
        is_same = known.process_id == request.process_id
        return known if is_same else StreamsMember(member_id=request.member_id)

    def _take_in(self, before: StreamsMember, request: StreamsHeartbeat, now_ms: int) -> None:
        self._ask_to_stop(request)
        known = self.roster.members.get(before.member_id)
        if self.is_empty:
            self.delayed_until_ms = now_ms + self.settings.streams_initial_rebalance_delay_ms
        elif known is not None and known is not before:
            # Another process under the same member id: what the last one had is free.
            self._remove(before.member_id, LeaveReason.LEFT, now_ms)
            known = None
        member = before.updated_by(request)
        if member.endpoint != before.endpoint:
            self.endpoint_epoch += 1
        self._put(member, known, now_ms)

    # --- Topology, epochs and targets ----------------------------------------------------------

    def _follow(self, request: StreamsHeartbeat, catalogue: TopicCatalogue, now_ms: int) -> None:
        """Hold the topology against the newest topics; where the basis moves, so does the epoch."""
        self._take_topology(request.topology, now_ms)
        if self.topology is None:
            return
        source = (catalogue.version, self.topology)
        topics = self.basis.topics
        if self._configured_from != source:
            self._configured_from = source
            before, self.configured = self.configured, configure(self.topology, catalogue)
            topics = catalogue.seen(
                {name for each in self.topology.subtopologies for name in each.topics}
            )
            if before != self.configured:
                self.endpoint_epoch += 1
        is_ready = self.configured.is_ready and not self._is_delayed(now_ms)
        basis = Basis(topics, is_ready, self.settings.streams_standby_count)
        if basis != self.basis:
            self.basis = basis
            self._is_changed = True
            if self.epoch == self.target_epoch:
                self._bump(RebalanceReason.TOPICS_CHANGED, now_ms)

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

    def _target(self) -> Mapping[str, frozenset[Task]]:
        if not self.basis.is_ready or self.topology is None:
            return {}
        members = {
            member_id: TaskMember(member.process_id, member.target)
            for member_id, member in self.roster.members.items()
            if not self._is_stale(member)
        }
        return assign_tasks(
            members,
            self.configured.task_counts,
            self.topology.stateful_ids,
            self.basis.standby_count,
        )

    def _reconcile(self, request: StreamsHeartbeat, now_ms: int) -> StreamsMember:
        before = self.roster.members[request.member_id]
        after = super()._reconcile(request, now_ms)
        if after.assigned != before.assigned:
            self.endpoint_epoch += 1
        return after

    # --- Members that go -----------------------------------------------------------------------

    def _leave(self, request: StreamsHeartbeat, now_ms: int) -> None:
        self._speaker(request)
        self._ask_to_stop(request)
        super()._leave(request, now_ms)

    def _remove(self, member_id: str, reason: LeaveReason, now_ms: int) -> None:
        super()._remove(member_id, reason, now_ms)
        self.endpoint_epoch += 1
        if self.is_empty:
            self.shutdown_by = None

    def leave(self, request: LeaveRequest, token: Token, now_ms: int, out: Effects) -> None:
        """Nobody here can be taken out with LeaveGroup."""
        del now_ms
        refused = ((each, self.no_classic_member(each.member_id)) for each in request.members)
        out.reply(token, LeaveResult(tuple(refused)))

    def no_classic_member(self, member_id: str) -> UnknownMemberError:
        """The refusal of everything that members of the classic protocol ask."""
        return UnknownMemberError(
            f"{self.group_id!r} is a Streams group without members of the classic protocol, such "
            f"as {member_id!r}: set group.protocol=streams, or choose another application.id"
        )

    # --- What tasks read -----------------------------------------------------------------------

    def reads(self, topic: str) -> bool:
        """Whether the group has members, and its topology reads the topic."""
        return not self.is_empty and any(topic in each for each in self._sources().values())

    def partitions_of(self, tasks: Iterable[Task]) -> frozenset[TopicPartition]:
        """The partitions that tasks read; those of topics that are gone are left out."""
        counts = self.partition_counts
        sources = self._sources()
        return frozenset(
            TopicPartition(name, number)
            for _, subtopology_id, number in tasks
            for name in sources.get(subtopology_id, ())
            if number < counts.get(name, 0)
        )

    @property
    def partition_counts(self) -> Mapping[str, int]:
        """The topics of the topology, as far as they existed when the target was computed."""
        return {name: count for name, _, count in self.basis.topics}

    def _sources(self) -> dict[str, tuple[str, ...]]:
        if self.topology is None:
            return {}
        return {each.subtopology_id: tuple(each.sources) for each in self.topology.subtopologies}

    def endpoints(self) -> tuple[EndpointPartitions, ...]:
        """What each instance of the application can be asked for."""
        tasks: defaultdict[UserEndpoint, set[Task]] = defaultdict(set)
        for member in self.roster.members.values():
            if member.endpoint is not None:
                tasks[member.endpoint] |= member.assigned
        return tuple(
            EndpointPartitions(
                endpoint,
                self.partitions_of(each for each in found if each[0] is Role.ACTIVE),
                self.partitions_of(each for each in found if each[0] is Role.STANDBY),
            )
            for endpoint, found in sorted(tasks.items())
        )
