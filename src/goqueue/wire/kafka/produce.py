"""Produce by hand: records as views of the frame, answers by `struct`.

Every version from 3 to 13 in one shape. Versions 9 and up are compact and tagged; 13 names topics
by id instead of by name. A test holds both directions equal to kio's, version by version.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple
from goqueue.wire.kafka.frames import Encoded
from goqueue.wire.kafka.own_fields import FIRST_TAG
from goqueue.wire.kafka.primitives import (
    NULL,
    Buffer,
    Cursor,
    put_length,
    put_string,
    put_uuid,
    put_uvarint,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

FIRST_VERSION: Final = 3
LAST_VERSION: Final = 13
FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
_LOG_START_FROM: Final = 5
_RECORD_ERRORS_FROM: Final = 8
_LEADERS_FROM: Final = 10

_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_INT32: Final = struct.Struct(">i")
_PARTITION: Final = struct.Struct(">ihqq")
_PARTITION_WITH_START: Final = struct.Struct(">ihqqq")
_LEADER_TAG: Final = struct.Struct(">BBBiiB")
_LEADER_BYTES: Final = 9
DELAYED: Final = struct.Struct(">iqq")
"""A message that waits: its place in the batch, its id, when it is due."""
DELAYED_TAG: Final = FIRST_TAG
ERROR_NAME_TAG: Final = FIRST_TAG + 1
DUPLICATE_TAG: Final = FIRST_TAG + 2


class PartitionData(NamedTuple):
    """What one partition is to append."""

    partition: int
    records: memoryview | None
    """The producer's batches. The frame belongs to this request alone: it may be stamped."""


class TopicData(NamedTuple):
    """The partitions of one topic, named by `topic_id` from version 13 on, by `name` before."""

    name: str | None
    topic_id: UUID | None
    partitions: list[PartitionData]


class ProduceRequest(NamedTuple):
    """A Produce request of any version."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicData]


class PartitionResult(NamedTuple):
    """What became of one partition's records."""

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()
    """The records that were refused: their places in the batch, and why."""
    leader: tuple[int, int] | None = None
    """Id and epoch of the leader, for a client that asked the wrong broker."""
    delayed: Sequence[tuple[int, int, int]] = ()
    """Places, ids and due times of messages that wait, for a client of our own; id -1: unknown."""
    error_name: str | None = None
    """The class of the error, for another node."""
    is_duplicate: bool = False
    """The records were there already, for another node."""


class TopicResult(NamedTuple):
    """The results of one topic, named as the request named it."""

    name: str | None
    topic_id: UUID | None
    partitions: Sequence[PartitionResult]


class NodeEndpoint(NamedTuple):
    """Where a leader that an answer mentions can be reached."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def parse_request(cursor: Cursor, version: int) -> ProduceRequest:
    """The body of a Produce request; what follows it is ignored."""
    compact = version >= FLEXIBLE_FROM
    transactional_id = cursor.nullable_string(compact=compact)
    acks, timeout_ms = cursor.unpack(_ACKS_AND_TIMEOUT)
    topics = [
        _topic(cursor, version, compact=compact)
        for _ in range(cursor.required_array_length(compact=compact))
    ]
    if compact:
        cursor.skip_tags()
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _topic(cursor: Cursor, version: int, *, compact: bool) -> TopicData:
    by_id = version >= TOPIC_IDS_FROM
    name = None if by_id else cursor.required_string(compact=compact)
    topic_id = cursor.uuid() if by_id else None
    partitions = []
    for _ in range(cursor.required_array_length(compact=compact)):
        partition = cursor.int32()
        length = cursor.bytes_length(compact=compact)
        partitions.append(PartitionData(partition, None if length == NULL else cursor.view(length)))
        if compact:
            cursor.skip_tags()
    if compact:
        cursor.skip_tags()
    return TopicData(name, topic_id, partitions)


def encode_request(
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    topics: Mapping[str, Sequence[tuple[int, Buffer]]],
) -> list[Buffer]:
    """The body of a request of versions 9 to 12 in parts: a batch each for some partitions."""
    parts: list[Buffer] = []
    out = bytearray()
    put_string(out, transactional_id, compact=True)
    out += _ACKS_AND_TIMEOUT.pack(acks, timeout_ms)
    put_length(out, len(topics), compact=True)
    for name, partitions in topics.items():
        put_string(out, name, compact=True)
        put_length(out, len(partitions), compact=True)
        for number, records in partitions:
            out += _INT32.pack(number)
            put_length(out, len(records), compact=True)
            parts += (out, records)
            out = bytearray(b"\0")
        out.append(0)
    out.append(0)
    parts.append(out)
    return parts


def encode_response(
    version: int,
    topics: Sequence[TopicResult],
    *,
    throttle_time_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
    to_node: bool = False,
) -> Encoded:
    """The body of a Produce response; another node is told more than a client."""
    compact = version >= FLEXIBLE_FROM
    out = bytearray()
    put_length(out, len(topics), compact=compact)
    for topic in topics:
        if version >= TOPIC_IDS_FROM:
            put_uuid(out, topic.topic_id)
        else:
            put_string(out, topic.name or "", compact=compact)
        put_length(out, len(topic.partitions), compact=compact)
        for partition in topic.partitions:
            _put_partition(out, partition, version, to_node=to_node)
        if compact:
            out.append(0)
    out += _INT32.pack(throttle_time_ms)
    if compact:
        put_endpoints(out, endpoints if version >= _LEADERS_FROM else ())
    return Encoded((out,))


def _put_partition(out: bytearray, result: PartitionResult, version: int, *, to_node: bool) -> None:
    if version < _LOG_START_FROM:
        out += _PARTITION.pack(*result[:4])
        return
    out += _PARTITION_WITH_START.pack(*result[:5])
    if version < _RECORD_ERRORS_FROM:
        return
    compact = version >= FLEXIBLE_FROM
    put_length(out, len(result.record_errors), compact=compact)
    for index, message in result.record_errors:
        out += _INT32.pack(index)
        put_string(out, message, compact=compact)
        if compact:
            out.append(0)
    put_string(out, result.error_message, compact=compact)
    if compact and (result.delayed or (to_node and (result.error_name or result.is_duplicate))):
        _put_own_tags(out, result, to_node=to_node)
    elif compact:
        put_leader(out, result.leader if version >= _LEADERS_FROM else None)


def _put_own_tags(out: bytearray, result: PartitionResult, *, to_node: bool) -> None:
    """The tagged fields of a partition of which something is to be told that Kafka has not."""
    told: list[tuple[int, bytearray]] = []
    if result.delayed:
        content = bytearray()
        put_length(content, len(result.delayed) * DELAYED.size, compact=True)
        for each in result.delayed:
            content += DELAYED.pack(*each)
        told.append((DELAYED_TAG, content))
    if to_node and result.error_name is not None:
        content = bytearray()
        put_string(content, result.error_name, compact=True)
        told.append((ERROR_NAME_TAG, content))
    if to_node and result.is_duplicate:
        told.append((DUPLICATE_TAG, bytearray((1,))))
    out.append(len(told))
    for tag, content in told:
        put_uvarint(out, tag)
        put_uvarint(out, len(content))
        out += content


def put_leader(out: bytearray, leader: tuple[int, int] | None) -> None:
    """The tagged fields of a partition: the current leader (tag 0), or none."""
    if leader is None or leader == (-1, -1):
        out.append(0)
    else:
        out += _LEADER_TAG.pack(1, 0, _LEADER_BYTES, *leader, 0)


def put_endpoints(out: bytearray, endpoints: Sequence[NodeEndpoint]) -> None:
    """The tagged fields of a Produce or Fetch response: the endpoints (tag 0), or none."""
    if not endpoints:
        out.append(0)
        return
    content = bytearray()
    put_length(content, len(endpoints), compact=True)
    for node in endpoints:
        put_endpoint(content, node)
    out += b"\x01\x00"
    put_uvarint(out, len(content))
    out += content


def put_endpoint(out: bytearray, node: NodeEndpoint) -> None:
    """One element of an array of endpoints."""
    out += _INT32.pack(node.node_id)
    put_string(out, node.host, compact=True)
    out += _INT32.pack(node.port)
    put_string(out, node.rack, compact=True)
    out.append(0)
