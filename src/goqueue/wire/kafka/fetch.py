"""Fetch by hand: requests in one shape, answers whose record blobs are never copied.

Every version from 4 to 18. Versions 12 and up are compact and tagged; 13 and up name topics by id.
A test holds both directions equal to kio's, version by version.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple
from goqueue.wire.kafka.errors import MalformedRequestError
from goqueue.wire.kafka.frames import Encoded
from goqueue.wire.kafka.primitives import (
    NULL,
    Buffer,
    Cursor,
    put_length,
    put_string,
    put_uuid,
    put_uvarint,
)
from goqueue.wire.kafka.produce import NodeEndpoint, put_endpoints

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

FIRST_VERSION: Final = 4
LAST_VERSION: Final = 18
FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
_LOG_START_FROM: Final = 5
_SESSIONS_FROM: Final = 7
_LEADER_EPOCH_FROM: Final = 9
_RACKS_FROM: Final = 11
_REPLICA_STATE_FROM: Final = 15
_ENDPOINTS_FROM: Final = 16

_INT32: Final = struct.Struct(">i")
_REPLICA: Final = struct.Struct(">i")
_WAIT: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_REPLICA_STATE: Final = struct.Struct(">iq")
_ABORTED: Final = struct.Struct(">qq")
_RESPONSE_START: Final = struct.Struct(">ihi")
_RESULT: Final = struct.Struct(">ihqq")
_RESULT_WITH_START: Final = struct.Struct(">ihqqq")
_REPLICA_STATE_TAG: Final = 1
_SMALL_BLOB_BYTES: Final = 512
"""Blobs up to this size are copied: cheaper than one more buffer for the socket."""


class FetchPartition(NamedTuple):
    """One partition that a client reads."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class FetchTopic(NamedTuple):
    """The partitions of one topic, named by `topic_id` from version 13 on, by `name` before."""

    name: str | None
    topic_id: UUID | None
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    """Partitions that an incremental session no longer reads."""

    name: str | None
    topic_id: UUID | None
    partitions: list[int]


class FetchRequest(NamedTuple):
    """A Fetch request of any version."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]
    rack_id: str
    replica_epoch: int = -1
    """The incarnation of the node that a replica is on; versions before 15 do not say it."""


class FetchedPartition(NamedTuple):
    """What a client gets of one partition."""

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Sequence[Buffer] = ()
    """Pieces of whole batches in offset order; they go to the socket as they are."""
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    """Producer id and first offset; only for a reader of committed records."""
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None
    """Epoch and end offset where the reader's log leaves the leader's."""
    leader: tuple[int, int] | None = None
    """Id and epoch of the leader, for a client that asked the wrong broker."""
    snapshot: tuple[int, int] | None = None
    """End offset and epoch of a snapshot to fetch instead."""


class FetchedTopic(NamedTuple):
    """The partitions of one topic, named as the request named it."""

    name: str | None
    topic_id: UUID | None
    partitions: Sequence[FetchedPartition]


# --- Request ------------------------------------------------------------------------------------


def parse_request(cursor: Cursor, version: int) -> FetchRequest:
    """The body of a Fetch request; what follows it is ignored."""
    compact = version >= FLEXIBLE_FROM
    replica_id = cursor.unpack(_REPLICA)[0] if version < _REPLICA_STATE_FROM else -1
    max_wait_ms, min_bytes, max_bytes, isolation_level = cursor.unpack(_WAIT)
    session_id, session_epoch = 0, -1
    if version >= _SESSIONS_FROM:
        session_id, session_epoch = cursor.unpack(_SESSION)
    topics = [
        _topic(cursor, version, compact=compact)
        for _ in range(cursor.required_array_length(compact=compact))
    ]
    forgotten = []
    if version >= _SESSIONS_FROM:
        forgotten = [
            _forgotten(cursor, version, compact=compact)
            for _ in range(cursor.required_array_length(compact=compact))
        ]
    rack_id = cursor.required_string(compact=compact) if version >= _RACKS_FROM else ""
    replica_epoch = -1
    if version >= _REPLICA_STATE_FROM:
        replica_id, replica_epoch = _replica_state(cursor)
    elif compact:
        cursor.skip_tags()
    return FetchRequest(
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
        replica_epoch,
    )


def _names(cursor: Cursor, version: int, *, compact: bool) -> tuple[str | None, UUID | None]:
    if version >= TOPIC_IDS_FROM:
        return None, cursor.uuid()
    return cursor.required_string(compact=compact), None


def _topic(cursor: Cursor, version: int, *, compact: bool) -> FetchTopic:
    name, topic_id = _names(cursor, version, compact=compact)
    layout = _LAYOUTS[version]
    partitions = []
    for _ in range(cursor.required_array_length(compact=compact)):
        partitions.append(_partition(cursor.unpack(layout), version))
        if compact:
            cursor.skip_tags()
    if compact:
        cursor.skip_tags()
    return FetchTopic(name, topic_id, partitions)


_PARTITION_LAYOUTS: Final = {
    FIRST_VERSION: struct.Struct(">iqi"),
    _LOG_START_FROM: struct.Struct(">iqqi"),
    _LEADER_EPOCH_FROM: struct.Struct(">iiqqi"),
    FLEXIBLE_FROM: struct.Struct(">iiqiqi"),
}
"""By the first version that has them."""


_LAYOUTS: Final = {
    version: _PARTITION_LAYOUTS[max(first for first in _PARTITION_LAYOUTS if first <= version)]
    for version in range(FIRST_VERSION, LAST_VERSION + 1)
}


def _partition(values: tuple[int, ...], version: int) -> FetchPartition:
    if version >= FLEXIBLE_FROM:
        return FetchPartition._make(values)
    if version >= _LEADER_EPOCH_FROM:
        index, leader_epoch, offset, log_start, max_bytes = values
        return FetchPartition(index, leader_epoch, offset, -1, log_start, max_bytes)
    if version >= _LOG_START_FROM:
        index, offset, log_start, max_bytes = values
        return FetchPartition(index, -1, offset, -1, log_start, max_bytes)
    index, offset, max_bytes = values
    return FetchPartition(index, -1, offset, -1, -1, max_bytes)


def _forgotten(cursor: Cursor, version: int, *, compact: bool) -> ForgottenTopic:
    name, topic_id = _names(cursor, version, compact=compact)
    partitions = [cursor.int32() for _ in range(cursor.required_array_length(compact=compact))]
    if compact:
        cursor.skip_tags()
    return ForgottenTopic(name, topic_id, partitions)


def _replica_state(cursor: Cursor) -> tuple[int, int]:
    """Node and incarnation from the tagged fields of the request; a client sends none."""
    replica_id = replica_epoch = -1
    for _ in range(cursor.tag_count()):
        tag, size = cursor.uvarint(), cursor.uvarint()
        content = cursor.view(size)
        if tag == _REPLICA_STATE_TAG:
            if size <= _REPLICA_STATE.size:
                raise MalformedRequestError(f"a replica state of {size} bytes")
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(content)
    return replica_id, replica_epoch


# --- Response -----------------------------------------------------------------------------------


def encode_response(
    version: int,
    topics: Sequence[FetchedTopic],
    *,
    error_code: int = 0,
    session_id: int = 0,
    throttle_time_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> Encoded:
    """The body of a Fetch response: our bytes and the record blobs, alternating."""
    compact = version >= FLEXIBLE_FROM
    parts: list[Buffer] = []
    out = bytearray()
    if version >= _SESSIONS_FROM:
        out += _RESPONSE_START.pack(throttle_time_ms, error_code, session_id)
    else:
        out += _INT32.pack(throttle_time_ms)
    put_length(out, len(topics), compact=compact)
    for topic in topics:
        if version >= TOPIC_IDS_FROM:
            put_uuid(out, topic.topic_id)
        else:
            put_string(out, topic.name or "", compact=compact)
        put_length(out, len(topic.partitions), compact=compact)
        for partition in topic.partitions:
            out = _put_partition(parts, out, partition, version)
        if compact:
            out.append(0)
    if compact:
        put_endpoints(out, endpoints if version >= _ENDPOINTS_FROM else ())
    parts.append(out)
    return Encoded(parts)


def _put_partition(
    parts: list[Buffer], out: bytearray, fetched: FetchedPartition, version: int
) -> bytearray:
    """Append to `out`, or hand it to `parts` before a blob and go on in a new one."""
    compact = version >= FLEXIBLE_FROM
    if version >= _LOG_START_FROM:
        out += _RESULT_WITH_START.pack(*fetched[:5])
    else:
        out += _RESULT.pack(*fetched[:4])
    _put_aborted(out, fetched.aborted_transactions, compact=compact)
    if version >= _RACKS_FROM:
        out += _INT32.pack(fetched.preferred_read_replica)
    size = sum(map(len, fetched.records))
    put_length(out, size, compact=compact)
    if size > _SMALL_BLOB_BYTES:
        parts.append(out)
        parts.extend(fetched.records)
        out = bytearray()
    else:
        for piece in fetched.records:
            out += piece
    if compact:
        _put_partition_tags(out, fetched)
    return out


def _put_aborted(
    out: bytearray, aborted: Sequence[tuple[int, int]] | None, *, compact: bool
) -> None:
    put_length(out, NULL if aborted is None else len(aborted), compact=compact)
    for producer_and_offset in aborted or ():
        out += _ABORTED.pack(*producer_and_offset)
        if compact:
            out.append(0)


_EPOCH_AND_OFFSET: Final = struct.Struct(">iqB")
_ID_AND_EPOCH: Final = struct.Struct(">iiB")
_OFFSET_AND_EPOCH: Final = struct.Struct(">qiB")


def _put_partition_tags(out: bytearray, fetched: FetchedPartition) -> None:
    given = [
        (tag, layout, pair)
        for tag, layout, pair in (
            (0, _EPOCH_AND_OFFSET, fetched.diverging_epoch),
            (1, _ID_AND_EPOCH, fetched.leader),
            (2, _OFFSET_AND_EPOCH, fetched.snapshot),
        )
        if pair is not None and pair != (-1, -1)
    ]
    out.append(len(given))
    for tag, layout, pair in given:
        put_uvarint(out, tag)
        put_uvarint(out, layout.size)
        out += layout.pack(*pair, 0)
