"""Requests to groups and their results, as values that no wire format shows through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from goqueue.groups.streams.assignor import Task
from goqueue.model.topic_partition import TopicIdPartition, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.groups.streams.configured import Status
    from goqueue.groups.streams.topology import InternalTopic, Topology
    from goqueue.model.errors import GroupError

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


# --- The classic protocol ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinResult:
    """The member is in this generation. Only the leader gets the list of members."""

    member_id: str
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncRequest:
    """A member asks for its assignment; the leader brings everyone's."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """What the leader decided for the member."""

    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """A member of a generation is alive."""

    group_id: str
    member_id: str
    generation: int
    instance_id: str | None = None


class LeavingMember(NamedTuple):
    """A member that goes; an empty member id with an instance id is an administrator's wish."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveRequest:
    """Members go, each with its own outcome."""

    group_id: str
    members: tuple[LeavingMember, ...]


@dataclass(frozen=True, slots=True)
class LeaveResult:
    """One outcome for each member asked, in the order asked."""

    members: tuple[tuple[LeavingMember, GroupError | None], ...]


@dataclass(frozen=True, slots=True)
class Done:
    """The request was carried out and has nothing more to say."""


DONE: Final = Done()


# --- Members that the broker leads to a target (KIP-848 and KIP-1071) ---------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberHeartbeat(Generic[T]):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResult(Generic[T]):
    """The member's epoch, and its assignment when that is news."""

    member_id: str
    epoch: int
    heartbeat_interval_ms: int
    assignment: frozenset[T] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeat(MemberHeartbeat[TopicIdPartition]):
    """From a member of the KIP-848 protocol, which owns partitions."""

    subscribed_names: frozenset[str] | None = None
    subscribed_regex: str | None = None
    server_assignor: str | None = None
    classic: ClassicProtocols | None = None
    """Set when a JoinGroup of the classic protocol is what joins a KIP-848 group."""
    session_timeout_ms: int | None = None
    """Its own, in place of the group's. Kafka's protocol cannot say it; HTTP can."""

    @property
    def is_full(self) -> bool:
        """The member tells everything, so it wants to hear everything."""
        subscribes = self.subscribed_names is not None or self.subscribed_regex is not None
        return self.rebalance_timeout_ms != -1 and subscribes and self.owned is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHeartbeatResult(HeartbeatResult[TopicIdPartition]):
    """To a member of the KIP-848 protocol."""


class UserEndpoint(NamedTuple):
    """Where one instance of an application answers queries of others."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsHeartbeat(MemberHeartbeat[Task]):
    """From a member of the Streams protocol, which owns tasks."""

    topology: Topology | None = None
    process_id: str | None = None
    endpoint: UserEndpoint | None = None
    tags: tuple[tuple[str, str], ...] | None = None
    endpoint_epoch: int = -1
    """The newest list of endpoints that the member has."""
    wants_shutdown: bool = False
    """Every member of the application shall stop."""


@dataclass(frozen=True, slots=True)
class EndpointPartitions:
    """What can be asked for at one endpoint."""

    endpoint: UserEndpoint
    active: frozenset[TopicPartition]
    standby: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsHeartbeatResult(HeartbeatResult[Task]):
    """To a member of the Streams protocol; the endpoints when they are news."""

    statuses: tuple[Status, ...] = ()
    endpoint_epoch: int = 0
    endpoints: tuple[EndpointPartitions, ...] | None = None
    missing_topics: tuple[InternalTopic, ...] = ()
    """Internal topics that the broker shall create."""


# --- Offsets -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToCommit:
    """How far a group has read one partition."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """A member, or a consumer without a group membership, says how far it has read."""

    group_id: str
    member_id: str = ""
    generation_or_epoch: int = NO_GENERATION
    instance_id: str | None = None
    offsets: tuple[OffsetToCommit, ...]
    retention_ms: int | None = None
    is_reset: bool = False
    """An administrator moves the group; what it skips was not read."""


@dataclass(frozen=True, slots=True)
class PartitionOutcomes:
    """One outcome for each partition asked, in the order asked."""

    partitions: tuple[tuple[TopicPartition, GroupError | None], ...]


@dataclass(frozen=True, slots=True)
class GroupOutcomes:
    """One outcome for each group asked, in the order asked."""

    groups: tuple[tuple[str, GroupError | None], ...]


Result: TypeAlias = (
    "JoinResult | SyncResult | LeaveResult | Done | HeartbeatResult[Any]"
    " | PartitionOutcomes | GroupOutcomes"
)
