"""What is stored of a delayed message, and how it is named.

Delayed messages lie in three hidden logs, by how long they wait when they come: one that waits for
a year does not keep the log of those that wait for a minute from being trimmed. An id is the place
in such a log; in a cluster there are several units of three logs, and the id that clients know says
which one it is. Each record has one header more than the producer gave it, the first, which says
where the message is to go and when, and is taken off again when it goes there.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from goqueue.model.delivery import PUBLISHED_AT_HEADER
from goqueue.model.errors import DelayError
from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.records import Headers, Record

CLASSES: Final = 3
NEAR_MS: Final = 10_485_760
"""Messages that wait for less (2.91 h) lie in class 0."""
MIDDLE_MS: Final = 64 * NEAR_MS
"""Those that wait for less than this (7.76 d) lie in class 1, all others in class 2."""

WAITING_HEADER: Final = "goqueue-waiting"
_PLACE: Final = struct.Struct(">16siq")
_DUE: Final = struct.Struct(">q")
_PRODUCER: Final = struct.Struct(">qhii")
_ORIGIN: Final = struct.Struct(">qhiiiq")
_OTHER_UNIT: Final = 3
"""In place of a class: the unit follows, and it is not the first."""
_UNIT_BITS: Final = 8


class DelayedState(IntEnum):
    """What became of a delayed message."""

    PENDING = 0
    DELIVERED = 1
    CANCELLED = 2
    EXPIRED = 3
    """It could not be delivered any more: its topic is gone, or its record is damaged."""


class Producer(NamedTuple):
    """The idempotent producer of a message, and which message of which of its batches it is.

    So a batch that is sent again, because only its delayed messages were stored, is recognised.
    """

    producer_id: int
    epoch: int
    first_sequence: int
    number: int
    """The place of the message in its batch."""
    leader_epoch: int = -1
    """Of a cluster: in which epoch the rest of the batch goes to the partition, if it does."""
    end_offset: int = -1
    """Where the log of the partition ended before that, and the attempt: `Origin.marked_end`."""


class Waiting(NamedTuple):
    """Where a message is to go, and when."""

    topic_id: bytes
    partition: int
    due_ms: int
    producer: Producer | None = None


def class_for(delay_ms: int) -> int:
    """The class of a message that waits for so long."""
    if delay_ms < NEAR_MS:
        return 0
    return 1 if delay_ms < MIDDLE_MS else 2


def make_id(class_number: int, offset: int) -> int:
    """The id of the message at a place."""
    return offset << 2 | class_number


def split_id(delayed_id: int) -> tuple[int, int]:
    """The class and the offset of a message; there need not be one."""
    return delayed_id & 3, delayed_id >> 2


def public_id(unit: int, delayed_id: int) -> int:
    """What clients know a message of a unit by."""
    return (delayed_id << _UNIT_BITS | unit) << 2 | _OTHER_UNIT if unit else delayed_id


def unit_of(public: int) -> int:
    """The unit that keeps a message."""
    return public >> 2 & ((1 << _UNIT_BITS) - 1) if public & 3 == _OTHER_UNIT else 0


def inner_id(public: int) -> int:
    """The id of a message within its unit."""
    return public >> 2 + _UNIT_BITS if public & 3 == _OTHER_UNIT else public


def waiting_encoder(topic_id: bytes, partition: int) -> Callable[[int], bytes]:
    """`encode_waiting` for many messages of one partition and no producer, by their due times."""
    prefix, due = _PLACE.pack(topic_id, partition, 0)[: -_DUE.size], _DUE.pack
    return lambda due_ms: prefix + due(due_ms)


def encode_waiting(waiting: Waiting) -> bytes:
    """The value of the header."""
    topic_id, partition, due_ms, producer = waiting
    place = _PLACE.pack(topic_id, partition, due_ms)
    if producer is None:
        return place
    if producer.leader_epoch < 0:
        return place + _PRODUCER.pack(*producer[:4])
    return place + _ORIGIN.pack(*producer)


def decode_place(headers: Headers) -> tuple[bytes, int]:
    """The topic id and the due time alone. Raises like `decode_waiting`."""
    try:
        topic_id, _, due_ms = _PLACE.unpack_from(headers[0][1] or b"")
    except (IndexError, struct.error):
        raise DelayError("a record among the delayed messages is none of ours") from None
    return topic_id, due_ms


def decode_waiting(headers: Headers) -> Waiting:
    """What the header of a stored record says.

    Raises:
        DelayError: the record is none of ours.
    """
    if not headers or headers[0][0] != WAITING_HEADER or headers[0][1] is None:
        raise DelayError("a delayed record does not name its target")
    value = headers[0][1]
    try:
        topic_id, partition, due_ms = _PLACE.unpack_from(value)
        producer = None
        if len(value) > _PLACE.size:
            shape = _ORIGIN if len(value) > _PLACE.size + _PRODUCER.size else _PRODUCER
            producer = Producer(*shape.unpack_from(value, _PLACE.size))
        return Waiting(topic_id, partition, due_ms, producer)
    except struct.error:
        raise DelayError("where a delayed message is to go does not decode") from None


def as_delivered(record: Record, number: int, now_ms: int) -> Record:
    """The record as it goes to its topic: dated now, and saying when it was published."""
    published_at = (PUBLISHED_AT_HEADER, b"%d" % record.timestamp_ms)
    headers = (*record.headers[1:], published_at)
    return record._replace(offset=number, timestamp_ms=now_ms, headers=headers)
