"""Fetch as replicas speak it, in version 17: written and read by hand.

The replica state of a request names the node and its incarnation. Record blobs of an answer are
views of the frame, so that a batch goes from the socket to the log without a copy.
`goqueue.wire.kafka.fetch` reads and writes the same for every version.
"""

from __future__ import annotations

import struct
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from goqueue.model.tuples import NamedTuple
from goqueue.wire.kafka.errors import MalformedRequestError
from goqueue.wire.kafka.fetch import (
    FetchedPartition,
    FetchedTopic,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
)
from goqueue.wire.kafka.frames import Encoded
from goqueue.wire.kafka.primitives import put_length, put_uuid, put_uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.wire.kafka.primitives import Buffer

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
_TOLD: Final = struct.Struct(">ihqqqBi")
"""The same, without aborted transactions and without a replica that were better read from."""
_SMALL_BLOB_BYTES: Final = 512
"""Blobs up to this size are copied: cheaper than one more buffer for the socket."""
_EPOCH_AND_OFFSET: Final = struct.Struct(">iq")
_ID_AND_EPOCH: Final = struct.Struct(">ii")
_WANTED: Final = struct.Struct(">iiqiqi")
_fetch_partition: Final[Callable[[tuple[int, ...]], FetchPartition]] = partial(
    tuple.__new__, FetchPartition
)
_SINGLE: Final = struct.Struct(">iiibiiB16sBiiqiqi7siqB")
"""A whole request that names one partition and forgets none: most are, when messages are few."""
_SINGLE_MARKS: Final = bytes((0, 0, 1, 1, 1, _STATE_TAG, _STATE.size))
"""Behind the partition: no tags of it and of its topic, nothing forgotten, an empty rack, and one
tag, the replica state."""
_SINGLE_TOLD: Final = struct.Struct(">ihiB16sBihqqqBi")
"""An answer about one partition, up to the length of its records."""
_SINGLE_READ: Final = struct.Struct(">iBihiB16sBihqqqBi")
"""The same with the header of the answer."""
_SINGLE_END: Final = bytes(3)
_ID_BYTES: Final = 16
_NO_ID: Final = bytes(_ID_BYTES)
_ONE: Final = 2
"""The length of an array of one element, as newer versions write it."""
_ABORTED_BYTES: Final = 16
_MORE: Final = 0x80
"""The bit of a byte of a varint that says that another one follows."""
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
    topics = fetch.topics
    if len(topics) == 1 and len(topics[0].partitions) == 1 and not fetch.forgotten:
        return _encode_single(fetch, topics[0])
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


def _encode_single(fetch: ReplicaFetch, topic: FetchTopic) -> bytearray:
    node_id, incarnation, max_wait_ms, max_bytes, session_epoch, _, _ = fetch
    raw = _NO_ID if topic.topic_id is None else topic.topic_id.bytes
    start = max_wait_ms, 1, max_bytes, 0, 0, session_epoch
    wanted = topic.partitions[0]
    end = _SINGLE_MARKS, node_id, incarnation, 0
    return bytearray(_SINGLE.pack(*start, _ONE, raw, _ONE, *wanted, *end))


def encode_response(topics: Sequence[FetchedTopic], error_code: int = 0) -> Encoded:
    """The body of an answer; batches that are not small go to the socket as they are."""
    if len(topics) == 1 and len(topics[0].partitions) == 1:
        _, topic_id, (fetched,) = topics[0]
        if fetched.diverging_epoch is None and fetched.leader is None:
            return _encode_told(topic_id, fetched, error_code)
    parts: list[Buffer] = []
    out = bytearray(_ANSWER_START.pack(0, error_code, 0))
    put_length(out, len(topics), compact=True)
    for _, topic_id, told in topics:
        put_uuid(out, topic_id)
        put_length(out, len(told), compact=True)
        for fetched in told:
            number, code, high_watermark, end, start, records, _, _, diverging, leader, _ = fetched
            out += _TOLD.pack(number, code, high_watermark, end, start, 0, -1)
            size = sum(map(len, records))
            put_uvarint(out, size + 1)
            if size > _SMALL_BLOB_BYTES:
                parts.append(out)
                parts.extend(records)
                out = bytearray()
            else:
                for piece in records:
                    out += piece
            if diverging is None and leader is None:
                out.append(0)
            else:
                _put_tags(out, diverging, leader)
        out.append(0)
    out.append(0)
    parts.append(out)
    return Encoded(parts)


def _encode_told(topic_id: UUID | None, fetched: FetchedPartition, error_code: int) -> Encoded:
    number, code, high_watermark, end, start, records, _, _, _, _, _ = fetched
    raw = _NO_ID if topic_id is None else topic_id.bytes
    place = number, code, high_watermark, end, start, 0, -1
    out = bytearray(_SINGLE_TOLD.pack(0, error_code, 0, _ONE, raw, _ONE, *place))
    size = sum(map(len, records))
    put_uvarint(out, size + 1)
    if size > _SMALL_BLOB_BYTES:
        return Encoded((out, *records, _SINGLE_END))
    for piece in records:
        out += piece
    out += _SINGLE_END
    return Encoded((out,))


def _put_tags(
    out: bytearray, diverging: tuple[int, int] | None, leader: tuple[int, int] | None
) -> None:
    out.append((diverging is not None) + (leader is not None))
    for tag, layout, pair in (
        (_DIVERGING_TAG, _EPOCH_AND_OFFSET, diverging),
        (_LEADER_TAG, _ID_AND_EPOCH, leader),
    ):
        if pair is not None:
            out.append(tag)
            out.append(layout.size + 1)
            out += layout.pack(*pair)
            out.append(0)


# --- Reading --------------------------------------------------------------------------------------
#
# Both parsers walk the buffer by hand: a replica of one small batch costs two of these a message.


def parse_request(frame: memoryview, at: int) -> ReplicaFetch:
    """The body of a request that begins at `at`.

    Raises:
        MalformedRequestError: it is none, or no replica's.
    """
    try:
        if len(frame) - at == _SINGLE.size:
            single = _single_request(frame, at)
            if single is not None:
                return single
        return _request(frame, at)
    except (IndexError, struct.error) as error:
        raise MalformedRequestError(f"a replica's Fetch ends too early: {error}") from None


def _single_request(frame: memoryview, at: int) -> ReplicaFetch | None:
    """A request about one partition; None when it is another one of the same size."""
    found = _SINGLE.unpack_from(frame, at)
    max_wait_ms, _, max_bytes, _, _, session_epoch, topics, raw, partitions = found[:9]
    marks, node_id, incarnation, end = found[15:]
    if topics != _ONE or partitions != _ONE or marks != _SINGLE_MARKS or end:
        return None
    asked = [FetchTopic(None, _topic_id(raw), [_fetch_partition(found[9:15])])]
    return ReplicaFetch(node_id, incarnation, max_wait_ms, max_bytes, session_epoch, asked, [])


def _request(frame: memoryview, at: int) -> ReplicaFetch:
    max_wait_ms, _, max_bytes, _, _, session_epoch = _START.unpack_from(frame, at)
    count, at = _length(frame, at + _START.size)
    topics = []
    for _ in range(count):
        topic_id = _topic_id(bytes(frame[at : at + _ID_BYTES]))
        partitions, at = _length(frame, at + _ID_BYTES)
        wanted = []
        for _ in range(partitions):
            wanted.append(_fetch_partition(_WANTED.unpack_from(frame, at)))
            at = _skip_tags(frame, at + _WANTED.size)
        topics.append(FetchTopic(None, topic_id, wanted))
        at = _skip_tags(frame, at)
    count, at = _length(frame, at)
    forgotten = []
    for _ in range(count):
        topic_id = _topic_id(bytes(frame[at : at + _ID_BYTES]))
        numbers, at = _length(frame, at + _ID_BYTES)
        gone = [_NUMBER.unpack_from(frame, at + 4 * each)[0] for each in range(numbers)]
        forgotten.append(ForgottenTopic(None, topic_id, gone))
        at = _skip_tags(frame, at + 4 * numbers)
    rack_bytes, at = _length(frame, at)
    at += rack_bytes
    tags, at = _uvarint(frame, at)
    for _ in range(tags):
        tag, at = _uvarint(frame, at)
        size, at = _uvarint(frame, at)
        if tag == _STATE_TAG:
            node_id, incarnation, _ = _STATE.unpack_from(frame, at)
            return ReplicaFetch(
                node_id, incarnation, max_wait_ms, max_bytes, session_epoch, topics, forgotten
            )
        at += size
    return ReplicaFetch(-1, -1, max_wait_ms, max_bytes, session_epoch, topics, forgotten)


def parse_response(frame: memoryview) -> ReplicaFetched:
    """A whole answer, header included; the blobs in it are views of the frame.

    Raises:
        MalformedRequestError: it is none.
    """
    try:
        if len(frame) > _SINGLE_READ.size:
            single = _single_response(frame)
            if single is not None:
                return single
        return _response(frame)
    except (IndexError, struct.error) as error:
        raise MalformedRequestError(f"an answer to Fetch ends too early: {error}") from None


def _single_response(frame: memoryview) -> ReplicaFetched | None:
    """An answer about one partition without tags; None when it is another."""
    found = _SINGLE_READ.unpack_from(frame)
    _, tags, _, error_code, _, topics, raw, partitions = found[:8]
    aborted = found[13]
    if tags or topics != _ONE or partitions != _ONE or aborted:
        return None
    size, at = _length(frame, _SINGLE_READ.size)
    after = at + size
    if frame[after:] != _SINGLE_END:
        return None
    records = (frame[at:after],) if size else ()
    number, code, high_watermark, end, log_start = found[8:13]
    told = FetchedPartition(number, code, high_watermark, end, log_start, records)
    return ReplicaFetched(error_code, [FetchedTopic(None, _topic_id(raw), [told])])


def _response(frame: memoryview) -> ReplicaFetched:
    at = _skip_tags(frame, _NUMBER.size)
    _, error_code, _ = _ANSWER_START.unpack_from(frame, at)
    count, at = _length(frame, at + _ANSWER_START.size)
    topics = []
    for _ in range(count):
        topic_id = _topic_id(bytes(frame[at : at + _ID_BYTES]))
        partitions, at = _length(frame, at + _ID_BYTES)
        told = []
        for _ in range(partitions):
            partition, at = _told(frame, at)
            told.append(partition)
        topics.append(FetchedTopic(None, topic_id, told))
        at = _skip_tags(frame, at)
    return ReplicaFetched(error_code, topics)


def _told(frame: memoryview, at: int) -> tuple[FetchedPartition, int]:
    number, error_code, high_watermark, last_stable, log_start = _RESULT.unpack_from(frame, at)
    aborted, at = _length(frame, at + _RESULT.size)
    for _ in range(aborted):  # of which replicas ask for none
        at = _skip_tags(frame, at + _ABORTED_BYTES)
    size, at = _length(frame, at + _NUMBER.size)
    records: Sequence[memoryview] = ()
    if size > 0:
        if at + size > len(frame):
            raise MalformedRequestError(f"{size} bytes of records, {len(frame) - at} are there")
        records = (frame[at : at + size],)
        at += size
    diverging = leader = None
    tags, at = _uvarint(frame, at)
    for _ in range(tags):
        tag, at = _uvarint(frame, at)
        size, at = _uvarint(frame, at)
        if tag == _DIVERGING_TAG:
            diverging = _EPOCH_AND_OFFSET.unpack_from(frame, at)
        elif tag == _LEADER_TAG:
            leader = _ID_AND_EPOCH.unpack_from(frame, at)
        at += size
    return FetchedPartition(
        number,
        error_code,
        high_watermark,
        last_stable,
        log_start,
        records,
        None,
        -1,
        diverging,
        leader,
    ), at


def _uvarint(frame: memoryview, at: int) -> tuple[int, int]:
    """An unsigned number in groups of seven bits, and where it ends."""
    value = frame[at]
    if value < _MORE:
        return value, at + 1
    value &= _MORE - 1
    for shift in (7, 14, 21, 28):
        at += 1
        byte = frame[at]
        value |= (byte & (_MORE - 1)) << shift
        if byte < _MORE:
            return value, at + 1
    raise MalformedRequestError(f"a varint before byte {at} has no end")


def _length(frame: memoryview, at: int) -> tuple[int, int]:
    """How much follows, and where; null is nothing."""
    length, at = _uvarint(frame, at)
    if length > len(frame):
        raise MalformedRequestError(f"{length} elements in a frame of {len(frame)} bytes")
    return length - 1 if length else 0, at


def _skip_tags(frame: memoryview, at: int) -> int:
    count = frame[at]
    if not count:  # as a rule there are none
        return at + 1
    count, at = _uvarint(frame, at)
    for _ in range(count):
        _, at = _uvarint(frame, at)
        size, at = _uvarint(frame, at)
        at += size
    return at


@lru_cache(maxsize=4096)
def _topic_id(raw: bytes) -> UUID:
    if len(raw) != _ID_BYTES:
        raise MalformedRequestError(f"an id of {len(raw)} bytes")
    return UUID(bytes=raw)
