"""Fetch as a follower speaks it: the request written and the answer read by hand, in version 17.

The replica state of a request names the node and its incarnation. Record blobs of an answer are
views of the frame, so that a batch goes from the socket to the log without a copy.
`goqueue.wire.kafka.fetch` has the leader's side of both.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple
from goqueue.wire.kafka.fetch import FetchedPartition, FetchedTopic
from goqueue.wire.kafka.primitives import NULL, Cursor, put_length, put_uuid, put_uvarint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.wire.kafka.fetch import FetchTopic, ForgottenTopic

VERSION: Final = 17
"""The first in which a leader names its epoch and endpoints, the last without fields that replicas
here have no use for."""

_START: Final = struct.Struct(">iiibii")
_PARTITION: Final = struct.Struct(">iiqiqiB")
_NUMBER: Final = struct.Struct(">i")
_STATE: Final = struct.Struct(">iqB")
_STATE_TAG: Final = 1
_ANSWER_START: Final = struct.Struct(">ihi")
_RESULT: Final = struct.Struct(">ihqqq")
_EPOCH_AND_OFFSET: Final = struct.Struct(">iq")
_ID_AND_EPOCH: Final = struct.Struct(">ii")
_DIVERGING_TAG: Final = 0
_LEADER_TAG: Final = 1


class ReplicaFetch(NamedTuple):
    """What a follower asks of a leader: where its replicas are, and what lies behind that."""

    node_id: int
    incarnation: int
    max_wait_ms: int
    max_bytes: int
    session_epoch: int
    """0 begins a session, which knows nothing yet; then 1, 2 and so on."""
    topics: Sequence[FetchTopic]
    """The partitions that are new to the session, or whose offset has moved."""
    forgotten: Sequence[ForgottenTopic] = ()


class ReplicaFetched(NamedTuple):
    """The answer to it: the partitions of which there is something to say."""

    error_code: int
    topics: Sequence[FetchedTopic]


def encode_request(fetch: ReplicaFetch) -> bytearray:
    """The body of a request."""
    out = bytearray(_START.pack(fetch.max_wait_ms, 1, fetch.max_bytes, 0, 0, fetch.session_epoch))
    put_length(out, len(fetch.topics), compact=True)
    for topic in fetch.topics:
        put_uuid(out, topic.topic_id)
        put_length(out, len(topic.partitions), compact=True)
        for partition in topic.partitions:
            out += _PARTITION.pack(*partition, 0)
        out.append(0)
    put_length(out, len(fetch.forgotten), compact=True)
    for gone in fetch.forgotten:
        put_uuid(out, gone.topic_id)
        put_length(out, len(gone.partitions), compact=True)
        for number in gone.partitions:
            out += _NUMBER.pack(number)
        out.append(0)
    out += b"\x01"  # an empty rack id
    out += b"\x01"  # one tagged field
    put_uvarint(out, _STATE_TAG)
    put_uvarint(out, _STATE.size)
    out += _STATE.pack(fetch.node_id, fetch.incarnation, 0)
    return out


def parse_response(frame: memoryview, max_elements: int) -> ReplicaFetched:
    """A whole answer, header included.

    Raises:
        MalformedRequestError: it is none.
    """
    cursor = Cursor(frame)
    cursor.elements_left = max_elements
    cursor.int32()
    cursor.skip_tags()
    _, error_code, _ = cursor.unpack(_ANSWER_START)
    topics = []
    for _ in range(cursor.required_array_length(compact=True)):
        topic_id = cursor.uuid()
        count = cursor.required_array_length(compact=True)
        topics.append(FetchedTopic(None, topic_id, [_partition(cursor) for _ in range(count)]))
        cursor.skip_tags()
    return ReplicaFetched(error_code, topics)


def _partition(cursor: Cursor) -> FetchedPartition:
    number, error_code, high_watermark, last_stable, log_start = cursor.unpack(_RESULT)
    for _ in range(cursor.array_length(compact=True)):  # aborted transactions, of which we ask none
        cursor.view(16)
        cursor.skip_tags()
    cursor.int32()
    size = cursor.bytes_length(compact=True)
    records = () if size in (NULL, 0) else (cursor.view(size),)
    diverging = leader = None
    for _ in range(cursor.tag_count()):
        tag, size = cursor.uvarint(), cursor.uvarint()
        content = Cursor(cursor.view(size))
        if tag == _DIVERGING_TAG:
            diverging = content.unpack(_EPOCH_AND_OFFSET)
        elif tag == _LEADER_TAG:
            leader = content.unpack(_ID_AND_EPOCH)
    return FetchedPartition(
        number,
        error_code,
        high_watermark,
        last_stable,
        log_start,
        records,
        diverging_epoch=None if diverging is None else (diverging[0], diverging[1]),
        leader=None if leader is None else (leader[0], leader[1]),
    )
