"""Produce requests as clients send them, read in one pass; and the answer when all went well.

No transaction, no tagged fields, no null: whatever else a request may hold is left to
`goqueue.wire.kafka.produce`, which reads everything. A test holds the two equal.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.model.tuples import NamedTuple
from goqueue.wire.kafka.produce import FLEXIBLE_FROM, LAST_VERSION, TOPIC_IDS_FROM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_MAX_PARTITIONS: Final = 256
"""Of one request; one with more is read as any other."""

_CLIENT_ID: Final = struct.Struct(">8xH")
_START: Final = struct.Struct(">hhii")
_COMPACT_START: Final = struct.Struct(">BBhiB")
_COUNT: Final = struct.Struct(">i")
_PARTITION_AND_SIZE: Final = struct.Struct(">ii")
_NO_CLIENT_ID: Final = 0xFFFF
_LONGEST_CLIENT_ID: Final = 0x7FFF
_NO_TRANSACTION: Final = -1
_ID_BYTES: Final = 16
_MAX_SHIFT: Final = 21
"""A varint of four bytes is larger than any frame."""


PlainTopic: TypeAlias = tuple[bytes, list[tuple[int, int, int]]]
"""The name or the id of a topic, as it is on the wire, with its length; and its partitions: the
number of each, and where in the frame its records begin and end."""

PlainRequest: TypeAlias = tuple[int, int, list[PlainTopic]]
"""A Produce request without anything unusual: acks, the timeout in milliseconds, and the topics.
Plain, as one is made for each request."""


def parse_plain(frame: memoryview, version: int) -> PlainRequest | None:
    """What a request asks for; None when it is not plain, or not whole."""
    try:
        (size,) = _CLIENT_ID.unpack_from(frame)
        at = _CLIENT_ID.size
        if size != _NO_CLIENT_ID:
            if size > _LONGEST_CLIENT_ID:
                return None
            str(frame[at : at + size], "ascii")  # most are; what is no text at all is refused
            at += size
        if version >= FLEXIBLE_FROM:
            return _parse_compact(frame, at, by_id=version >= TOPIC_IDS_FROM)
        return _parse_old(frame, at)
    except (IndexError, UnicodeDecodeError, struct.error):
        return None


def _parse_compact(frame: memoryview, at: int, *, by_id: bool) -> PlainRequest | None:
    """The body after the client's id, which tagged fields follow. Each count is one more."""
    header_tags, transaction, acks, timeout_ms, count = _COMPACT_START.unpack_from(frame, at)
    if header_tags or transaction or not 0 < count < 0x80:
        return None
    at += _COMPACT_START.size
    end, left, topics = len(frame), _MAX_PARTITIONS, []
    for _ in range(count - 1):
        start = at
        size = _ID_BYTES if by_id else frame[at]
        at += size
        partition_count = frame[at]
        left -= partition_count
        if size >= 0x80 or not 1 < partition_count < 0x80 or left < 0:
            return None
        field = bytes(frame[start:at])
        at += 1
        partitions = []
        for _ in range(partition_count - 1):
            (number,) = _COUNT.unpack_from(frame, at)
            at += 4
            size = shift = 0
            while (byte := frame[at]) >= 0x80:
                size |= (byte & 0x7F) << shift
                shift += 7
                at += 1
                if shift > _MAX_SHIFT:
                    return None
            size |= byte << shift
            stop = at + size
            if not size or stop >= end or frame[stop]:
                return None
            partitions.append((number, at + 1, stop))
            at = stop + 1
        if frame[at]:
            return None
        at += 1
        topics.append((field, partitions))
    return None if frame[at] else (acks, timeout_ms, topics)


def _parse_old(frame: memoryview, at: int) -> PlainRequest | None:
    """The same before there were tagged fields."""
    transaction, acks, timeout_ms, count = _START.unpack_from(frame, at)
    at += _START.size
    if transaction != _NO_TRANSACTION or not 0 <= count <= _MAX_PARTITIONS:
        return None
    end, left, topics = len(frame), _MAX_PARTITIONS, []
    for _ in range(count):
        start = at
        at += 2 + (frame[at] << 8 | frame[at + 1])
        (partition_count,) = _COUNT.unpack_from(frame, at)
        left -= partition_count
        if partition_count < 1 or left < 0:
            return None
        field = bytes(frame[start:at])
        at += 4
        partitions = []
        for _ in range(partition_count):
            number, size = _PARTITION_AND_SIZE.unpack_from(frame, at)
            at += 8
            stop = at + size
            if size < 0 or stop > end:
                return None
            partitions.append((number, at, stop))
            at = stop
        topics.append((field, partitions))
    return acks, timeout_ms, topics


_FRAME_START: Final = struct.Struct(">ii")


class _Layout(NamedTuple):
    """How a version writes its answers."""

    header: bytes
    """After the number of the request."""
    length: Callable[[int], bytes]
    partition: struct.Struct
    tail: bytes
    """After each partition: no refused records, no message, no tagged fields."""
    topic_end: bytes
    end: bytes
    """After all topics: not throttled, no tagged fields."""


_OLDEST: Final = struct.Struct(">ihqq")
_WITH_START: Final = struct.Struct(">ihqqq")
_COMPACT_COUNTS: Final = [bytes((number,)) for number in range(1, 0x80)]
_AFTER_SINGLE: Final = 9
_LAYOUTS: Final = {
    **dict.fromkeys(range(3, 5), _Layout(b"", _COUNT.pack, _OLDEST, b"", b"", bytes(4))),
    **dict.fromkeys(range(5, 8), _Layout(b"", _COUNT.pack, _WITH_START, b"", b"", bytes(4))),
    8: _Layout(b"", _COUNT.pack, _WITH_START, b"\0\0\0\0\xff\xff", b"", bytes(4)),
    **dict.fromkeys(
        range(FLEXIBLE_FROM, LAST_VERSION + 1),
        _Layout(b"\0", _COMPACT_COUNTS.__getitem__, _WITH_START, b"\x01\0\0", b"\0", bytes(5)),
    ),
}


class SingleAnswer(NamedTuple):
    """What all answers to requests with one partition alike have in common."""

    pack: Callable[..., bytes]
    size: int
    head: bytes
    partition: int
    tail: bytes


def single_answer(version: int, topics: Sequence[PlainTopic]) -> SingleAnswer:
    """The answer to compact requests like this one, which have one partition."""
    whole = encode_stored(version, 0, topics, [(0, 0)])
    ((_, ((number, _, _),)),) = topics
    start = len(whole) - _AFTER_SINGLE - _WITH_START.size
    head, tail = whole[_FRAME_START.size : start], whole[start + _WITH_START.size :]
    layout = struct.Struct(f">ii{len(head)}sihqqq{len(tail)}s")
    return SingleAnswer(layout.pack, len(whole) - _COUNT.size, head, number, tail)


def encode_single(
    answer: SingleAnswer, correlation_id: int, first_offset: int, log_start: int
) -> bytes:
    """`encode_stored` for the one partition of such a request."""
    pack, size, head, number, tail = answer
    return pack(size, correlation_id, head, number, 0, first_offset, -1, log_start, tail)


def with_throttle_time(frame: bytes, version: int, throttle_time_ms: int) -> bytes:
    """An answer of `encode_single` or `encode_stored` that makes the client wait."""
    at = len(frame) - len(_LAYOUTS[version].end)
    return frame[:at] + _COUNT.pack(throttle_time_ms) + frame[at + _COUNT.size :]


def encode_stored(
    version: int,
    correlation_id: int,
    topics: Sequence[PlainTopic],
    stored: Iterable[tuple[int, int]],
) -> bytes:
    """The whole frame of an answer: everything was stored, under the time of its producers.

    `stored` has the first offset of each partition's records, and where its log starts.
    """
    header, count, layout, tail, topic_end, end = _LAYOUTS[version]
    places = iter(stored)
    parts = [header, count(len(topics))]
    for field, partitions in topics:
        parts += (field, count(len(partitions)))
        for number, _, _ in partitions:
            first_offset, log_start = next(places)
            if layout is _OLDEST:
                parts.append(layout.pack(number, 0, first_offset, -1))
            else:
                parts += (layout.pack(number, 0, first_offset, -1, log_start), tail)
        parts.append(topic_end)
    parts.append(end)
    body = b"".join(parts)
    return _FRAME_START.pack(len(body) + 4, correlation_id) + body
