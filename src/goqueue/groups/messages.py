"""Requests to groups and their results, as values that no wire format shows through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from goqueue.groups.streams.assignor import Task
from goqueue.groups.streams.configured import Status
from goqueue.groups.streams.topology import InternalTopic, Topology
from goqueue.model.errors import GroupError
from goqueue.model.topic_partition import TopicIdPartition, TopicPartition
from goqueue.model.tuples import NamedTuple

T = TypeVar("T")

NO_GENERATION: Final = -1
JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
STATIC_LEAVING_EPOCH: Final = -2
"""The epoch of a static member that will be back under the same instance id."""


class Protocol(NamedTuple):
    """An assignment strategy that a member can run, with what it says to the leader."""

    name: str
    metadata: bytes


class ClassicProtocols(NamedTuple):
    """What a KIP-848 group keeps of a member that speaks the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[Protocol, ...]


class PollingTerms(NamedTuple):
    """What a member that the broker reads for has joined with, for the next coordinator."""

    reset_to_earliest: bool
    releases_itself: bool
    auto_commit_ms: int | None
    session_timeout_ms: int | None


# --- The classic protocol ----------------------------------------------------------------------


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A member wants to be in the next generation."""

    group_id: str
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    require_known_member_id: bool = True
    """The client understands `MemberIdRequiredError` (JoinGroup 4 and newer)."""
    supports_skip_assignment: bool = False
    """The client understands `skip_assignment` (JoinGroup 9 and newer)."""


class JoinedMember(NamedTuple):
    """What the leader is told of each member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(msgspec.Struct, frozen=True, kw_only=True):
    """The member is in this generation. Only the leader gets the list of members."""

    member_id: str
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A member asks for its assignment; the leader brings everyone's."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes]


class SyncResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the leader decided for the member."""

    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


class HeartbeatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a generation is alive."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None


class LeavingMember(NamedTuple):
    """A member that goes; an empty member id with an instance id is an administrator's wish."""

    member_id: str
    instance_id: str | None = None


class LeaveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Members go, each with its own outcome."""

    group_id: str
    members: tuple[LeavingMember, ...]


class LeaveResult(msgspec.Struct, frozen=True):
    """One outcome for each member asked, in the order asked."""

    members: tuple[tuple[LeavingMember, GroupError | None], ...]


class Done(msgspec.Struct, frozen=True):
    """The request was carried out and has nothing more to say."""


DONE: Final = Done()


# --- Members that the broker leads to a target (KIP-848 and KIP-1071) ---------------------------


class MemberHeartbeat(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """A member joins, stays or leaves; a field that is None says "as before"."""

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    owned: frozenset[T] | None = None

    @property
    def is_full(self) -> bool:
        """The member tells everything, so it wants to hear everything."""
        return False


class HeartbeatResult(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """The member's epoch, and its assignment when that is news."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int
    assignment: frozenset[T] | None = None


class ConsumerHeartbeat(MemberHeartbeat[TopicIdPartition], frozen=True, kw_only=True):
    """From a member of the KIP-848 protocol, which owns partitions."""

    subscribed_names: frozenset[str] | None = None
    subscribed_regex: str | None = None
    server_assignor: str | None = None
    classic: ClassicProtocols | None = None
    """Set when a JoinGroup of the classic protocol is what joins a KIP-848 group."""
    session_timeout_ms: int | None = None
    """Its own, in place of the group's. Kafka's protocol cannot say it; HTTP can."""
    polling: PollingTerms | None = None
    """Of a member that the broker reads for, in a cluster."""

    @property
    def is_full(self) -> bool:
        """The member tells everything, so it wants to hear everything."""
        subscribes = self.subscribed_names is not None or self.subscribed_regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None


class ConsumerHeartbeatResult(HeartbeatResult[TopicIdPartition], frozen=True, kw_only=True):
    """To a member of the KIP-848 protocol."""


class UserEndpoint(NamedTuple):
    """Where one instance of an application answers queries of others."""

    host: str
    port: int


class StreamsHeartbeat(MemberHeartbeat[Task], frozen=True, kw_only=True):
    """From a member of the Streams protocol, which owns tasks."""

    topology: Topology | None = None
    process_id: str | None = None
    endpoint: UserEndpoint | None = None
    tags: tuple[tuple[str, str], ...] | None = None
    endpoint_epoch: int = -1
    """The newest list of endpoints that the member has."""
    wants_shutdown: bool = False
    """Every member of the application shall stop."""


class EndpointPartitions(msgspec.Struct, frozen=True):
    """What can be asked for at one endpoint."""

    endpoint: UserEndpoint
    active: frozenset[TopicPartition]
    standby: frozenset[TopicPartition]


class StreamsHeartbeatResult(HeartbeatResult[Task], frozen=True, kw_only=True):
    """To a member of the Streams protocol; the endpoints when they are news."""

    statuses: tuple[Status, ...] = ()
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    missing_topics: tuple[InternalTopic, ...] = ()
    """Internal topics that the broker shall create."""


# --- Offsets -----------------------------------------------------------------------------------


class OffsetToCommit(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group has read one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class CommitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A member, or a consumer without a group membership, says how far it has read."""

    group_id: str
    member_id: str = ""
    generation_or_epoch: int = NO_GENERATION
    instance_id: str | None = None
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int | None = None
    is_reset: bool = False
    """An administrator moves the group; what it skips was not read."""


class PartitionOutcomes(msgspec.Struct, frozen=True):
    """One outcome for each partition asked, in the order asked."""

    partitions: tuple[tuple[TopicPartition, GroupError | None], ...]


class GroupOutcomes(msgspec.Struct, frozen=True):
    """One outcome for each group asked, in the order asked."""

    groups: tuple[tuple[str, GroupError | None], ...]


Result: TypeAlias = (
    "JoinResult | SyncResult | LeaveResult | Done | HeartbeatResult[Any]"
    " | PartitionOutcomes | GroupOutcomes"
)
