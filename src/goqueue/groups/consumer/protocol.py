"""What members of type `consumer` write into their opaque metadata and assignments.

The classic protocol never needs to look inside. The broker looks to know which topics a group reads
(for expiring and deleting offsets), how many partitions a rebalance moved, and what members have
and want when their group becomes a KIP-848 one. Anything that does not parse is not known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from goqueue.model.topic_partition import TopicPartition, numbers_by_topic
from goqueue.model.tuples import NamedTuple
from goqueue.wire.kafka.errors import MalformedRequestError
from goqueue.wire.kafka.primitives import Cursor, put_length, put_string

if TYPE_CHECKING:
    from collections.abc import Callable

PROTOCOL_TYPE: Final = "consumer"

_T = TypeVar("_T")


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
    return _read(metadata, _subscription)


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics in a member's subscription, or None when it is something else."""
    return _read(metadata, lambda cursor, _: _topics(cursor))


def assigned_partitions(assignment: bytes) -> frozenset[TopicPartition] | None:
    """The partitions in a member's assignment, or None when it is something else."""
    if not assignment:
        return frozenset()
    return _read(assignment, lambda cursor, _: _partitions(cursor))


def has_user_data(assignment: bytes) -> bool:
    """Whether the leader's assignor added data of its own to an assignment that parses."""

    def user_data(cursor: Cursor, _version: int) -> bool:
        _partitions(cursor)
        return cursor.bytes_length(compact=False) > 0

    return _read(assignment, user_data) or False


def _read(data: bytes, read: Callable[[Cursor, int], _T]) -> _T | None:
    """What follows the version, or None when the bytes are something else."""
    cursor = Cursor(memoryview(data))
    try:
        version = cursor.int16()
        return None if version < 0 else read(cursor, version)
    except MalformedRequestError:
        return None


def _subscription(cursor: Cursor, version: int) -> Subscription:
    topics = _topics(cursor)
    cursor.view(max(cursor.bytes_length(compact=False), 0))  # data of the client's assignor
    owned = _partitions(cursor) if version >= _OWNED_FROM else frozenset()
    if version >= _GENERATION_FROM:
        cursor.int32()
    rack_id = cursor.nullable_string(compact=False) if version >= _RACK_FROM else None
    return Subscription(version, topics, owned, rack_id or None)


def _topics(cursor: Cursor) -> frozenset[str]:
    count = cursor.required_array_length(compact=False)
    return frozenset(cursor.required_string(compact=False) for _ in range(count))


def _partitions(cursor: Cursor) -> frozenset[TopicPartition]:
    parts: set[TopicPartition] = set()
    for _ in range(cursor.required_array_length(compact=False)):
        topic = cursor.required_string(compact=False)
        count = cursor.required_array_length(compact=False)
        parts.update(TopicPartition(topic, cursor.int32()) for _ in range(count))
    return frozenset(parts)


def encode_assignment(partitions: frozenset[TopicPartition], version: int = 0) -> bytes:
    """An assignment without user data; its layout is the same in every version."""
    by_topic = numbers_by_topic(partitions)
    out = bytearray(version.to_bytes(2))
    put_length(out, len(by_topic), compact=False)
    for topic, numbers in by_topic.items():
        put_string(out, topic, compact=False)
        put_length(out, len(numbers), compact=False)
        for number in numbers:
            out += number.to_bytes(4, signed=True)
    put_length(out, -1, compact=False)
    return bytes(out)


def renamed_subscription(metadata: bytes, rename: Callable[[str], str]) -> bytes:
    """A subscription with other names of its topics; what does not parse stays as it is."""
    out = bytearray()
    cursor = Cursor(memoryview(metadata))
    done = 0
    try:
        version = cursor.int16()
        if version < 0:
            return metadata
        out += metadata[: cursor.position]
        _rename_topics(cursor, out, rename)
        done = cursor.position
        cursor.view(max(cursor.bytes_length(compact=False), 0))
        kept = metadata[done : cursor.position]
        if version >= _OWNED_FROM:
            renamed = bytearray()
            _rename_partitions(cursor, renamed, rename)
            out += kept + renamed
            done = cursor.position
    except MalformedRequestError:
        pass  # the names that were read are those that the broker reads
    return bytes(out) + metadata[done:] if done else metadata


def renamed_assignment(assignment: bytes, rename: Callable[[str], str]) -> bytes:
    """An assignment with other names of its topics; what does not parse stays as it is."""
    cursor = Cursor(memoryview(assignment))
    try:
        if cursor.int16() < 0:
            return assignment
        out = bytearray(assignment[: cursor.position])
        _rename_partitions(cursor, out, rename)
    except MalformedRequestError:
        return assignment
    return bytes(out) + assignment[cursor.position :]


def _rename_topics(cursor: Cursor, out: bytearray, rename: Callable[[str], str]) -> None:
    count = cursor.required_array_length(compact=False)
    put_length(out, count, compact=False)
    for _ in range(count):
        put_string(out, rename(cursor.required_string(compact=False)), compact=False)


def _rename_partitions(cursor: Cursor, out: bytearray, rename: Callable[[str], str]) -> None:
    count = cursor.required_array_length(compact=False)
    put_length(out, count, compact=False)
    for _ in range(count):
        put_string(out, rename(cursor.required_string(compact=False)), compact=False)
        numbers = cursor.required_array_length(compact=False)
        put_length(out, numbers, compact=False)
        out += cursor.view(4 * numbers)
