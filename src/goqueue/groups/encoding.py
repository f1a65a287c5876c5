"""Keys and values of the compacted topic that holds the groups.

A key is a version byte, a kind byte and a MessagePack array that names the thing; equal things
have equal keys, which is what compaction works on. A value is a version byte and a MessagePack
array of fields. Fields are only ever added at the end, with a default, so an old value stays
readable; a change that this cannot express takes a new version byte.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

import msgspec

from goqueue.groups.classic.member import ClassicMember
from goqueue.groups.effects import Entry
from goqueue.groups.messages import ClassicProtocols, PollingTerms, UserEndpoint
from goqueue.groups.reconciled.member import MemberState
from goqueue.groups.streams.topology import Topology
from goqueue.model.errors import CorruptGroupStateError, UnsupportedFormatError
from goqueue.model.topic_partition import numbers_by_topic
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION: Final = 1
_VERSION_BYTE: Final = bytes([VERSION])
_HEADER_BYTES: Final = 2


PartitionsByTopic: TypeAlias = tuple[tuple[UUID, tuple[int, ...]], ...]
"""Partitions grouped by topic and sorted, so that equal sets have equal bytes."""


class OffsetKey(NamedTuple):
    """How far a group has read a partition."""

    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """A group of any protocol."""

    group_id: str


class MemberKey(NamedTuple):
    """A member of a KIP-848 group; classic members live inside their group's value."""

    group_id: str
    member_id: str


class StreamsMemberKey(NamedTuple):
    """A member of a Streams group."""

    group_id: str
    member_id: str


class TopologyKey(NamedTuple):
    """The topology of a Streams group."""

    group_id: str


class PendingOffsetKey(NamedTuple):
    """An offset that an open transaction will commit or drop."""

    group_id: str
    producer_id: int
    topic: str
    partition: int


class FenceKey(NamedTuple):
    """The newest transaction coordinator that has ended a transaction of a producer here."""

    producer_id: int


class ProducerFence(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which coordinator that was, and since when."""

    coordinator_epoch: int
    updated_ms: int


class CommittedOffset(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a group goes on reading, with what the committer noted."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    expire_at_ms: int | None = None
    """Set only by clients that ask for a retention of their own."""

    def is_expired(self, now_ms: int, retention_ms: int, from_ms: int | None) -> bool:
        """Whether the offset is too old; `from_ms` is when its group stopped using it, if ever."""
        if from_ms is None:
            return False
        if self.expire_at_ms is not None:
            return now_ms >= self.expire_at_ms
        return now_ms - max(from_ms, self.committed_at_ms) >= retention_ms


class ClassicGroupValue(msgspec.Struct, frozen=True, array_like=True, tag="classic"):
    """A classic group at the end of a rebalance."""

    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str | None
    state_since_ms: int
    members: tuple[ClassicMember, ...]


class ConsumerGroupValue(msgspec.Struct, frozen=True, array_like=True, tag="consumer"):
    """A KIP-848 group without its members.

    `topics` is what the newest target was computed from: name, id and partition count.
    """

    epoch: int
    target_epoch: int
    assignor: str
    topics: tuple[tuple[str, UUID, int], ...]
    empty_since_ms: int


class StreamsGroupValue(msgspec.Struct, frozen=True, array_like=True, tag="streams"):
    """A Streams group without its members and topology.

    What follows `target_epoch` is what the newest target was computed from: name, id and partition
    count of each topic, whether there were tasks to assign, and how many standbys.
    """

    epoch: int
    target_epoch: int
    topics: tuple[tuple[str, UUID, int], ...]
    is_ready: bool
    standby_count: int
    empty_since_ms: int


TasksByRole: TypeAlias = tuple[tuple[str, tuple[tuple[str, tuple[int, ...]], ...]], ...]
"""Tasks grouped by role and subtopology and sorted, so that equal sets have equal bytes."""


class StreamsMemberValue(msgspec.Struct, frozen=True, array_like=True):
    """A member of a Streams group: what it says, what it has, and what it shall have."""

    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    endpoint: UserEndpoint | None
    tags: tuple[tuple[str, str], ...]
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: TasksByRole
    pending_revocation: TasksByRole
    target: TasksByRole


class ConsumerMemberValue(msgspec.Struct, frozen=True, array_like=True):
    """A member of a KIP-848 group: what it wants, what it has, and what it shall have."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    subscribed_names: tuple[str, ...]
    subscribed_regex: str
    server_assignor: str | None
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: PartitionsByTopic
    pending_revocation: PartitionsByTopic
    target: PartitionsByTopic
    classic: ClassicProtocols | None = None
    """Set for a member that speaks the classic protocol."""
    polling: PollingTerms | None = None
    """Set for a member that the broker reads for."""


Key: TypeAlias = (
    OffsetKey | GroupKey | MemberKey | PendingOffsetKey | StreamsMemberKey | TopologyKey | FenceKey
)
GroupValue: TypeAlias = ClassicGroupValue | ConsumerGroupValue | StreamsGroupValue
Value: TypeAlias = (
    CommittedOffset
    | GroupValue
    | ConsumerMemberValue
    | StreamsMemberValue
    | Topology
    | ProducerFence
)


class DecodedEntry(NamedTuple):
    """An entry that was read back; a value of None removes what the key names."""

    key: Key
    value: Value | None


_KINDS: Final[dict[int, type[Key]]] = {
    1: OffsetKey,
    2: GroupKey,
    3: MemberKey,
    4: PendingOffsetKey,
    5: StreamsMemberKey,
    6: TopologyKey,
    7: FenceKey,
}
_KIND_BYTES: Final = {kind: bytes([VERSION, number]) for number, kind in _KINDS.items()}
_KEY_DECODERS: Final = {kind: msgspec.msgpack.Decoder(kind) for kind in _KINDS.values()}
_VALUE_DECODERS: Final[dict[type[Key], msgspec.msgpack.Decoder[Value]]] = {
    OffsetKey: msgspec.msgpack.Decoder(CommittedOffset),
    GroupKey: msgspec.msgpack.Decoder(GroupValue),
    MemberKey: msgspec.msgpack.Decoder(ConsumerMemberValue),
    PendingOffsetKey: msgspec.msgpack.Decoder(CommittedOffset),
    StreamsMemberKey: msgspec.msgpack.Decoder(StreamsMemberValue),
    TopologyKey: msgspec.msgpack.Decoder(Topology),
    FenceKey: msgspec.msgpack.Decoder(ProducerFence),
}
_encode: Final = msgspec.msgpack.Encoder(uuid_format="bytes").encode


def by_topic(partitions: Iterable[tuple[UUID, int]]) -> PartitionsByTopic:
    """Group and sort a set of partitions."""
    return tuple((topic, tuple(found)) for topic, found in numbers_by_topic(partitions).items())


def flatten(grouped: PartitionsByTopic) -> frozenset[tuple[UUID, int]]:
    """The set that `by_topic` was given."""
    return frozenset((topic_id, each) for topic_id, numbers in grouped for each in numbers)


def encode_key(key: Key) -> bytes:
    """The bytes that compaction compares."""
    return _KIND_BYTES[type(key)] + _encode(tuple(key))


def put(key: Key, value: Value) -> Entry:
    """An entry that stores a value."""
    return Entry(encode_key(key), _VERSION_BYTE + _encode(value))


def remove(key: Key) -> Entry:
    """An entry that removes what was stored."""
    return Entry(encode_key(key), None)


def decode(entry: Entry) -> DecodedEntry:
    """Read an entry back.

    Raises:
        UnsupportedFormatError: a newer version wrote the entry.
        CorruptGroupStateError: the bytes are not an entry at all.
    """
    key = _decode_key(entry.key)
    if entry.value is None:
        return DecodedEntry(key, None)
    if entry.value[:1] != _VERSION_BYTE:
        raise UnsupportedFormatError(
            f"the value of {key} has version {entry.value[:1].hex() or 'none'}, this release reads "
            f"version {VERSION}: run the release that wrote it"
        )
    try:
        return DecodedEntry(key, _VALUE_DECODERS[type(key)].decode(entry.value[1:]))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CorruptGroupStateError(f"the value of {key} does not decode: {error}") from error


def _decode_key(data: bytes) -> Key:
    if len(data) < _HEADER_BYTES:
        raise CorruptGroupStateError(f"the key {data.hex()!r} is too short for a group entry")
    kind = _KINDS.get(data[1])
    if data[0] != VERSION or kind is None:
        raise UnsupportedFormatError(
            f"the key {data.hex()} has version {data[0]} and kind {data[1]}, this release reads "
            f"version {VERSION} and kinds {sorted(_KINDS)}: run the release that wrote it"
        )
    try:
        return _KEY_DECODERS[kind].decode(data[_HEADER_BYTES:])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CorruptGroupStateError(f"the key {data.hex()} does not decode: {error}") from error
