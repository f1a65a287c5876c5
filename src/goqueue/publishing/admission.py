"""What every batch must be, at the cost of its header."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import BatchError, BatchTooLargeError, MalformedBatchError
from goqueue.model.limits import FREE_BATCH_ITEMS, MAX_BATCH_BYTES
from goqueue.records import HEADER_BYTES, Compression
from goqueue.records.batch import CONTROL, DELETE_HORIZON, peek, validate
from goqueue.records.opening import check_count, room_for
from goqueue.records.section import LEAST_RECORD_BYTES

if TYPE_CHECKING:
    from goqueue.records.batch import BatchInfo
    from goqueue.topics.catalogue import Topic

_GIVEN_BY_THE_BROKER: Final = CONTROL | DELETE_HORIZON
"""Attributes that no producer may set."""


def admit_batch(topic: Topic, batch: memoryview) -> BatchInfo:
    """Hold a batch to what every batch must be, at the cost of its header."""
    info = peek(batch)
    size_bytes = info.size_bytes
    if size_bytes != len(batch):
        raise MalformedBatchError(
            f"{len(batch) - size_bytes} bytes behind the batch: publish one batch at a time"
        )
    check_size(topic, size_bytes)
    if info.attributes & _GIVEN_BY_THE_BROKER:
        raise MalformedBatchError(
            "control batches are written by the broker alone"
            if info.is_control
            else "the batch has a delete horizon, which compaction alone gives: it would say when "
            "tombstones go"
        )
    if info.count == 0 or info.count != info.last_offset_delta + 1:
        raise MalformedBatchError(
            f"{info.count} records over {info.last_offset_delta + 1} offsets: a published batch "
            "has one record for each offset, and at least one"
        )
    codec = info.compression
    if codec:
        Compression.of(codec)  # nobody could read a codec that does not exist
    most_bytes = MAX_BATCH_BYTES if codec else size_bytes - HEADER_BYTES
    if info.count * LEAST_RECORD_BYTES > most_bytes:
        raise MalformedBatchError(
            f"{info.count} records in a batch of {size_bytes} bytes: each takes at least "
            f"{LEAST_RECORD_BYTES}"
        )
    if info.count > FREE_BATCH_ITEMS:
        check_count(info, room_for(size_bytes))  # no reader here could open it
    validate(batch, 0, info)
    return info


def count_of(batch: memoryview) -> int:
    """How many messages a batch has that was refused; 1 when nobody can tell."""
    try:
        return max(peek(batch).count, 1)
    except BatchError:
        return 1


def check_size(topic: Topic, size_bytes: int) -> None:
    """Refuse a batch that is larger than its topic takes."""
    limit = topic.settings.max_message_bytes
    if size_bytes > limit:
        raise BatchTooLargeError(
            f"a batch of {size_bytes} bytes; topic {topic.name!r} takes up to {limit} "
            "(max.message.bytes)"
        )
