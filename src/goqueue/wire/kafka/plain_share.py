"""ShareFetch and ShareAcknowledge as our own clients send them, read in one pass.

Messages that were processed, with the nonces of their deliveries: one settlement for each
partition, nothing of Kafka's own acknowledgements. Whatever else a request may hold is left to the
schemas, which read everything. A test holds the two equal.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from goqueue.model.tuples import NamedTuple
from goqueue.wire.kafka.frames import Encoded
from goqueue.wire.kafka.primitives import put_length

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goqueue.model.topic_partition import TopicIdPartition

_ACKNOWLEDGE_BYTES: Final = {1: 4, 2: 5}
_FETCH: Final = {1: struct.Struct(">4xi4xii4x"), 2: struct.Struct(">4xi4xii4xbx")}
"""What both begin with, behind the names of group and member: the epoch of a session, of which
there is none, how much a fetch asks for, and whether leases are renewed, which settlements say."""

_CLIENT_ID: Final = struct.Struct(">8xH")
_NO_CLIENT_ID: Final = 0xFFFF
_ID_BYTES: Final = 16
_PARTITION: Final = struct.Struct(">iBBH")
_OWN_FIELD: Final = (1, 1, 0x904E)
"""Behind the number of a partition: no batches of Kafka's, one tagged field, and its number."""
_PROCESSED: Final = struct.Struct(">BbqB")
_SINGLE_ACK: Final = (2, 1, -1, 0)
"""One settlement: processed, without a delay, without a reason."""
_FETCH_END: Final = struct.Struct(">BB")
_RECEIPTS: Final = bytes.fromhex("904e0101")
"""A tagged field that says: with receipts."""
_VISIBILITY: Final = struct.Struct(">HBq")
_VISIBILITY_FIELD: Final = (0x914E, 8)
_MAX_PARTITIONS: Final = 256
"""Of one request; one with more is read as any other."""
_MAX_SHIFT: Final = 21
"""A varint of four bytes is larger than any frame."""

PlainSettlement: TypeAlias = "tuple[TopicIdPartition, bytes, bytes]"
"""The messages of a partition that were processed: ranges of offsets, and nonces."""


class QueueFetch(NamedTuple):
    """What a member of a queue group asks for."""

    group_id: str
    member_id: str
    max_wait_ms: int
    max_bytes: int
    max_records: int
    acquire_mode: int
    visibility_ms: int


def parse_acknowledge(frame: memoryview, version: int) -> tuple[str, list[PlainSettlement]] | None:
    """The group, and what became of its messages; None when it is not plain, or not whole."""
    try:
        group_id, _, at = _names(frame)
        settlements, at = _settlements(frame, at + _ACKNOWLEDGE_BYTES[version])
        return None if frame[at] or not settlements else (group_id, settlements)
    except (IndexError, ValueError, struct.error):
        return None


def parse_fetch(frame: memoryview, version: int) -> tuple[QueueFetch, list[PlainSettlement]] | None:
    """What is asked for, and what became of messages; None when it is not plain, or not whole."""
    try:
        group_id, member_id, at = _names(frame)
        layout = _FETCH[version]
        wait_ms, max_bytes, max_records, mode = (*layout.unpack_from(frame, at), 0)[:4]
        settlements, at = _settlements(frame, at + layout.size)
        forgotten, tags = _FETCH_END.unpack_from(frame, at)
        at += _FETCH_END.size
        if forgotten != 1 or frame[at : at + len(_RECEIPTS)] != _RECEIPTS:
            return None
        visibility_ms = 0
        if tags != 1:
            *field, visibility_ms = _VISIBILITY.unpack_from(frame, at + len(_RECEIPTS))
            if tags != 2 or tuple(field) != _VISIBILITY_FIELD:
                return None
    except (IndexError, ValueError, struct.error):
        return None
    wanted = QueueFetch(group_id, member_id, wait_ms, max_bytes, max_records, mode, visibility_ms)
    return wanted, settlements


def _names(frame: memoryview) -> tuple[str, str, int]:
    """The group and the member, and where they end. Raises when a name is missing or long."""
    (size,) = _CLIENT_ID.unpack_from(frame)
    at = _CLIENT_ID.size
    if size != _NO_CLIENT_ID:
        str(frame[at : at + size], "ascii")  # most are; what is no text at all is refused
        at += size
    group_at = at + 1
    member_at = group_at + frame[group_at]
    end = member_at + frame[member_at]
    if frame[at] or not group_at + 1 < member_at < group_at + 0x80:
        raise ValueError("no name of a group, or a long one")
    if not member_at + 1 < end < member_at + 0x80:
        raise ValueError("no name of a member, or a long one")
    return (
        str(frame[group_at + 1 : member_at], "utf-8"),
        str(frame[member_at + 1 : end], "utf-8"),
        end,
    )


def _settlements(frame: memoryview, at: int) -> tuple[list[PlainSettlement], int]:
    """What was processed, by partition, and where that ends. Raises for anything else."""
    found: list[PlainSettlement] = []
    topic_count, left = frame[at], _MAX_PARTITIONS
    at += 1
    if not 0 < topic_count < 0x80:
        raise ValueError("no topics, or many")
    for _ in range(topic_count - 1):
        topic_id = topic_id_of(bytes(frame[at : at + _ID_BYTES]))
        partition_count = frame[at + _ID_BYTES]
        at += _ID_BYTES + 1
        left -= partition_count
        if not 0 < partition_count < 0x80 or left < 0:
            raise ValueError("no partitions, or many")
        for _ in range(partition_count - 1):
            number, *field = _PARTITION.unpack_from(frame, at)
            size, start = _varint(frame, at + _PARTITION.size)
            if tuple(field) != _OWN_FIELD or _PROCESSED.unpack_from(frame, start) != _SINGLE_ACK:
                raise ValueError("not just messages that were processed")
            ranges_at, ranges_end = _blob(frame, start + _PROCESSED.size)
            nonces_at, at = _blob(frame, ranges_end)
            if frame[at] or at + 1 != start + size:
                raise ValueError("a tagged field of a settlement")
            at += 1
            ranges, nonces = frame[ranges_at:ranges_end], frame[nonces_at : at - 1]
            found.append(((topic_id, number), bytes(ranges), bytes(nonces)))
        if frame[at]:
            raise ValueError("a tagged field of a topic")
        at += 1
    return found, at


def _blob(frame: memoryview, at: int) -> tuple[int, int]:
    """Where bytes are whose length, one more than that, is at `at`."""
    size, at = _varint(frame, at)
    if not size:
        raise ValueError("null")
    return at, at + size - 1


def _varint(frame: memoryview, at: int) -> tuple[int, int]:
    """A length, and where it ends."""
    value = shift = 0
    while (byte := frame[at]) >= 0x80:
        value |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > _MAX_SHIFT:
            raise ValueError("a long varint")
    return value | byte << shift, at + 1


@lru_cache(maxsize=1024)
def topic_id_of(raw: bytes) -> UUID:
    """The id of a topic; most requests are about the same ones."""
    return UUID(bytes=raw)


_ANSWER_START: Final = struct.Struct(">ihBi")
_ANSWER_BYTES: Final = {1: 7, 2: 11}
"""Before version 2 an answer does not say how long messages are a member's."""
_ANSWERED: Final = struct.Struct(">ihBiiBB")
_END: Final = b"\1\0"
"""No endpoints, and no tagged fields."""


def encode_acknowledged(
    version: int, lock_timeout_ms: int, places: Iterable[TopicIdPartition]
) -> Encoded:
    """The body of a ShareAcknowledge response: all of it counts, in these partitions."""
    by_topic: dict[UUID, list[int]] = {}
    for topic_id, number in places:
        by_topic.setdefault(topic_id, []).append(number)
    start = _ANSWER_START.pack(0, 0, 0, lock_timeout_ms)
    out = bytearray(start[: _ANSWER_BYTES[version]])
    put_length(out, len(by_topic), compact=True)
    for topic_id, numbers in by_topic.items():
        out += topic_id.bytes
        put_length(out, len(numbers), compact=True)
        for number in numbers:
            out += _ANSWERED.pack(number, 0, 0, -1, -1, 0, 0)
        out.append(0)
    out += _END
    return Encoded((out,))
