"""What members of type `consumer` write into their opaque metadata and assignments.

The classic protocol never needs to look inside. The broker looks to know which topics a group reads
(for expiring and deleting offsets), how many partitions a rebalance moved, and what members have
and want when their group becomes a KIP-848 one. Anything that does not parse is not known.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from goqueue.model.topic_partition import TopicPartition

PROTOCOL_TYPE: Final = "consumer"

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")


class _Reader:
    """A cursor over big-endian fields; running off the end raises `ValueError`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise ValueError("the bytes end early")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def i16(self) -> int:
        return int(_I16.unpack(self._take(2))[0])

    def i32(self) -> int:
        return int(_I32.unpack(self._take(4))[0])

    def string(self) -> str:
        return self._take(self.i16()).decode()

    def nullable_string(self) -> str | None:
        size = self.i16()
        return None if size < 0 else self._take(size).decode()

    def nullable_bytes(self) -> bytes:
        return self._take(max(self.i32(), 0))

    def partitions(self) -> frozenset[TopicPartition]:
        parts: set[TopicPartition] = set()
        for _ in range(self.i32()):
            topic = self.string()
            parts.update(TopicPartition(topic, self.i32()) for _ in range(self.i32()))
        return frozenset(parts)


class Subscription(NamedTuple):
    """What a member says to the leader of a classic group, in any version."""

    version: int
    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    """What a cooperative member keeps while it joins; an eager one has given up everything."""
    rack_id: str | None = None


_OWNED_FROM: Final = 1
_GENERATION_FROM: Final = 2
_RACK_FROM: Final = 3


def read_subscription(metadata: bytes) -> Subscription | None:
    """The subscription of a member, or None when it is something else."""
    reader = _Reader(metadata)
    try:
        version = reader.i16()
        if version < 0:
            return None
        topics = frozenset(reader.string() for _ in range(reader.i32()))
        reader.nullable_bytes()
        owned = reader.partitions() if version >= _OWNED_FROM else frozenset()
        if version >= _GENERATION_FROM:
            reader.i32()
        rack_id = reader.nullable_string() if version >= _RACK_FROM else None
    except ValueError:
        return None
    return Subscription(version, topics, owned, rack_id or None)


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics in a member's subscription, or None when it is something else."""
    reader = _Reader(metadata)
    try:
        if reader.i16() < 0:
            return None
        return frozenset(reader.string() for _ in range(reader.i32()))
    except ValueError:
        return None


def assigned_partitions(assignment: bytes) -> frozenset[TopicPartition] | None:
    """The partitions in a member's assignment, or None when it is something else."""
    if not assignment:
        return frozenset()
    reader = _Reader(assignment)
    try:
        return None if reader.i16() < 0 else reader.partitions()
    except ValueError:
        return None


def has_user_data(assignment: bytes) -> bool:
    """Whether the leader's assignor added data of its own to an assignment that parses."""
    reader = _Reader(assignment)
    try:
        reader.i16()
        reader.partitions()
        return bool(reader.nullable_bytes())
    except ValueError:
        return False


def encode_assignment(partitions: frozenset[TopicPartition], version: int = 0) -> bytes:
    """An assignment without user data; its layout is the same in every version."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    parts = [_I16.pack(version), _I32.pack(len(by_topic))]
    for topic, numbers in by_topic.items():
        parts += [_string(topic), _I32.pack(len(numbers)), *map(_I32.pack, numbers)]
    return b"".join([*parts, _I32.pack(-1)])


def _string(text: str) -> bytes:
    data = text.encode()
    return _I16.pack(len(data)) + data
