"""ShareFetch answers by hand: the stored batches go to the socket as they are, never copied.

Versions 1 and 2, which have the same layout. A test holds it equal to kio's. What clients of ours
say of messages and are told with them is in `own_fields`.
"""

from __future__ import annotations

import struct
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.tuples import NamedTuple
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.frames import Encoded
from goqueue.wire.kafka.primitives import Buffer, put_length, put_string, put_uuid
from goqueue.wire.kafka.produce import put_endpoint
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.writing import tags_writer_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from goqueue.wire.kafka.produce import NodeEndpoint

BATCH_OPTIMIZED, RECORD_LIMIT = range(2)
"""What `max_records` means (KIP-1206): rounded up to whole batches, or never exceeded."""
RANGE: Final = struct.Struct(">qi")
"""Of a settlement: a first offset, and how many messages in a row are meant."""
NONCE_BYTES: Final = 8

_START: Final = struct.Struct(">ih")
_LOCK: Final = struct.Struct(">i")
_PLACE: Final = struct.Struct(">ih")
_CODE: Final = struct.Struct(">h")
_LEADER: Final = struct.Struct(">iib")
_ACQUIRED: Final = struct.Struct(">qqhb")
_SMALL_BLOB_BYTES: Final = 512
"""Blobs up to this size are copied: cheaper than one more buffer for the socket."""


class SharedPartition(NamedTuple):
    """What a share consumer is told of one partition."""

    partition: int
    error_code: int = 0
    error_message: str | None = None
    acknowledge_error_code: int = 0
    acknowledge_error_message: str | None = None
    leader: tuple[int, int] = (-1, -1)
    """Id and epoch."""
    records: Sequence[Buffer] = ()
    """Whole batches in the order of their offsets."""
    acquired: Sequence[tuple[int, int, int]] = ()
    """First and last offset, and how often those messages were delivered."""
    own: Mapping[str, Any] = MappingProxyType({})
    """Our own fields, for clients that know them."""


def encode_response(
    lock_timeout_ms: int,
    topics: Mapping[UUID, Sequence[SharedPartition]],
    endpoints: Sequence[NodeEndpoint] = (),
) -> Encoded:
    """The body of a ShareFetch response: our bytes and the batches, alternating.

    `endpoints` are where the leaders can be reached that it names in place of this node.
    """
    parts: list[Buffer] = []
    out = bytearray(_START.pack(0, 0))
    put_string(out, None, compact=True)
    out += _LOCK.pack(lock_timeout_ms)
    put_length(out, len(topics), compact=True)
    for topic_id, partitions in topics.items():
        put_uuid(out, topic_id)
        put_length(out, len(partitions), compact=True)
        for partition in partitions:
            out = _put_partition(parts, out, partition)
        out.append(0)
    put_length(out, len(endpoints), compact=True)
    for node in endpoints:
        put_endpoint(out, node)
    out.append(0)
    parts.append(out)
    return Encoded(parts)


def _put_partition(parts: list[Buffer], out: bytearray, shared: SharedPartition) -> bytearray:
    """Append to `out`, or hand it to `parts` before a blob and go on in a new one."""
    out += _PLACE.pack(shared.partition, shared.error_code)
    put_string(out, shared.error_message, compact=True)
    out += _CODE.pack(shared.acknowledge_error_code)
    put_string(out, shared.acknowledge_error_message, compact=True)
    out += _LEADER.pack(*shared.leader, 0)
    size = sum(map(len, shared.records))
    put_length(out, size, compact=True)
    if size > _SMALL_BLOB_BYTES:
        parts.append(out)
        parts.extend(shared.records)
        out = bytearray()
    else:
        for piece in shared.records:
            out += piece
    put_length(out, len(shared.acquired), compact=True)
    for run in shared.acquired:
        out += _ACQUIRED.pack(*run, 0)
    if shared.own:
        _own_writer()(out, shared.own)
    else:
        out.append(0)
    return out


@cache
def _own_writer() -> Callable[[bytearray, Mapping[str, Any]], None]:
    topic = schema_of(ApiKey.SHARE_FETCH, 2, "response").by_name["responses"].schema
    partition = topic.by_name["partitions"].schema if topic is not None else None
    assert partition is not None
    return tags_writer_of(partition)
