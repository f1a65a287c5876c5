"""The state of a Streams group: what it keeps, what of it is stored, and what must always hold."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, NamedTuple

from goqueue.groups.encoding import (
    GroupKey,
    StreamsGroupValue,
    StreamsMemberKey,
    TopologyKey,
    put,
    remove,
)
from goqueue.groups.reconciliation import MemberState
from goqueue.groups.streams.configured import ConfiguredTopology
from goqueue.groups.streams.member import StreamsMember
from goqueue.groups.streams.roster import StreamsRoster
from goqueue.groups.timers import Timers
from goqueue.model.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.groups.consumer.target import TopicsSeen
    from goqueue.groups.effects import Entry
    from goqueue.groups.encoding import StreamsMemberValue
    from goqueue.groups.settings import GroupSettings
    from goqueue.groups.stats import GroupStats
    from goqueue.groups.streams.topology import Topology


class StreamsState(StrEnum):
    """The names are the ones that Kafka's tools show."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    """Topics are missing or do not fit the topology, so there are no tasks."""
    ASSIGNING = "Assigning"
    """The group epoch is ahead of the target; the next heartbeat computes one."""
    RECONCILING = "Reconciling"
    """Some member has not reached the target."""
    STABLE = "Stable"
    DEAD = "Dead"


class StreamsTimerKind(Enum):
    """What a deadline is about."""

    SESSION = auto()
    REVOCATION = auto()


class StreamsTimer(NamedTuple):
    """One deadline of one member."""

    kind: StreamsTimerKind
    member_id: str


@dataclass(frozen=True, slots=True)
class Basis:
    """What a target is computed from, besides members and topology; another one is a rebalance."""

    topics: TopicsSeen = ()
    is_ready: bool = False
    """There are tasks to assign: topics fit the topology, and the first members had their time."""
    standby_count: int = 0


class StreamsGroupState:
    """Epochs, topology, target and members.

    `epoch` grows with every change that the target depends on; `target_epoch <= epoch` is the one
    that the target was computed for; no member's epoch is above `target_epoch`.
    """

    def __init__(
        self, group_id: str, settings: GroupSettings, stats: GroupStats, *, epoch: int = 0
    ) -> None:
        self.group_id = group_id
        self.settings = settings
        self.stats = stats
        self.roster = StreamsRoster(group_id)
        self.topology: Topology | None = None
        self.topology_bytes = 0
        """What it costs to keep the topology: counted once, as it is asked for at every event."""
        self.configured = ConfiguredTopology()
        """The topology against the newest topics; not stored, as it follows from both."""
        self.epoch = epoch
        self.target_epoch = epoch
        self.basis = Basis()
        self.delayed_until_ms = 0
        """Until then an empty group waits for more members. Not stored: a restart is delay
        enough."""
        self.endpoint_epoch = 0
        """Grows whenever `endpoints` would answer otherwise."""
        self.shutdown_by: str | None = None
        """The member that asked all others to stop; in force until the group is empty."""
        self.empty_since_ms = 0
        self.is_dead = False
        self.timers: Timers[StreamsTimer] = Timers()
        self._is_changed = False

    @property
    def state(self) -> StreamsState:
        """Follows from the members; nothing sets it."""
        members = self.roster.members
        if self.is_dead:
            return StreamsState.DEAD
        if not members:
            return StreamsState.EMPTY
        if self.epoch > self.target_epoch:
            return StreamsState.ASSIGNING
        if not self.basis.is_ready:
            return StreamsState.NOT_READY
        if all(member.has_reached(self.target_epoch) for member in members.values()):
            return StreamsState.STABLE
        return StreamsState.RECONCILING

    @property
    def is_empty(self) -> bool:
        """Nobody is in the group."""
        return not self.roster.members

    @property
    def held_bytes(self) -> int:
        """What the members say, and the topology."""
        return self.roster.held.total + self.topology_bytes

    def member_bytes(self, member_id: str, instance_id: str | None) -> int:
        """The part of one member; there are no static ones."""
        del instance_id
        return self.roster.held.of(member_id)

    def _restart_session(self, member: StreamsMember, now_ms: int) -> None:
        timer = StreamsTimer(StreamsTimerKind.SESSION, member.member_id)
        self.timers.set(timer, now_ms + self.settings.streams_session_timeout_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self.timers.next_ms()

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

    def topology_entry(self) -> Entry:
        """What is stored of the topology, or that nothing is."""
        key = TopologyKey(self.group_id)
        return remove(key) if self.topology is None else put(key, self.topology)

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

    def load_member(self, member_id: str, value: StreamsMemberValue | None) -> None:
        """Take over what was stored of a member, or that it is gone."""
        if value is not None:
            self.roster.put(StreamsMember.from_value(member_id, value))
        elif member_id in self.roster.members:
            self.roster.remove(member_id)

    def dump(self) -> Iterator[Entry]:
        """The group, its topology and its members, as the entries that would load them."""
        yield self.entry()
        if self.topology is not None:
            yield self.topology_entry()
        yield from [self.roster.entry(each) for each in self.roster.members]

    def forget(self) -> Iterator[Entry]:
        """What removes all but the group itself from the log, when it becomes another kind."""
        if self.topology is not None:
            yield remove(TopologyKey(self.group_id))
        for member_id in self.roster.members:
            yield remove(StreamsMemberKey(self.group_id, member_id))

    def resume(self, now_ms: int) -> None:
        """After a restart every member has its whole time again."""
        self.roster.finish_loading()
        for member in self.roster.members.values():
            self._restart_session(member, now_ms)
            if member.state is MemberState.UNREVOKED:
                timer = StreamsTimer(StreamsTimerKind.REVOCATION, member.member_id)
                self.timers.set(timer, now_ms + member.rebalance_timeout_ms)

    def check_invariants(self) -> None:
        """Raise `InvariantError` where the state contradicts itself."""
        self.roster.check_invariants()
        if self.target_epoch > self.epoch:
            raise InvariantError(f"target epoch {self.target_epoch} is above {self.epoch}")
        if self.topology_bytes != (0 if self.topology is None else self.topology.held_bytes):
            raise InvariantError("the bytes of the topology are not what is counted")
        for member in self.roster.members.values():
            if member.epoch > self.target_epoch:
                raise InvariantError(f"{member.member_id!r} is ahead of its group")
            if (member.state is MemberState.UNREVOKED) != bool(member.pending_revocation):
                raise InvariantError(f"{member.member_id!r} revokes nothing, or unnoticed")
            if StreamsTimer(StreamsTimerKind.SESSION, member.member_id) not in self.timers:
                raise InvariantError(f"{member.member_id!r} has no session")
            if member.has_reached(self.target_epoch) and member.assigned != member.target:
                raise InvariantError(f"{member.member_id!r} is stable without its target")
