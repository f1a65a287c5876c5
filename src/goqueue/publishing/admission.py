"""What a batch must be before it is stored, at the cost of its header as a rule.

A record dated far ahead would stay beyond its topic's retention, and one dated far back would be
deleted by the next pass. A topic says how far a timestamp may be from the time of the append
(`message.timestamp.after.max.ms`, `message.timestamp.before.max.ms`), as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.errors import (
    BatchError,
    BatchTooLargeError,
    InvalidTimestampError,
    MalformedBatchError,
)
from goqueue.model.ids import NO_TIMESTAMP
from goqueue.model.limits import FREE_BATCH_ITEMS, MAX_BATCH_BYTES
from goqueue.publishing.rewrite import records_of
from goqueue.records import HEADER_BYTES, Compression, Record
from goqueue.records.batch import CONTROL, DELETE_HORIZON, BatchInfo, peek, validate
from goqueue.records.opening import check_count, room_for
from goqueue.records.section import LEAST_RECORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.topics.catalogue import Topic
    from goqueue.topics.settings import TimestampLimits

_GIVEN_BY_THE_BROKER: Final = CONTROL | DELETE_HORIZON
"""Attributes that no producer may set."""


def admit_batch(topic: Topic, batch: memoryview) -> BatchInfo:
    """Hold a batch to what every batch must be, at the cost of its header."""
    info = peek(batch)
    size_bytes = info.size_bytes
    if size_bytes != len(batch):
        raise MalformedBatchError(
            f"{len(batch) - size_bytes} bytes after the batch: publish one batch at a time"
        )
    check_size(topic, size_bytes)
    if info.attributes & _GIVEN_BY_THE_BROKER:
        raise MalformedBatchError(
            "control batches are reserved for the broker"
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


def check_timestamps(
    limits: TimestampLimits,
    batch: memoryview,
    info: BatchInfo,
    now_ms: int,
    steady_ms: Callable[[], int],
    *,
    known: list[Record] | BatchError | None = None,
) -> None:
    """Hold the records of a batch to a topic's limits, at the cost of the header as a rule.

    The batch is opened only to name the records that are refused, and on topics that limit how old
    records may be: the header says how new the newest is, and not how old the oldest.

    Args:
        limits: What the topic allows.
        batch: One record batch.
        info: Its header.
        now_ms: The time of the append.
        steady_ms: The time without a jump of the clock; a clock that was set back must not refuse
            what producers with the right time send.
        known: The records, if the batch was opened before.

    Raises:
        InvalidTimestampError: naming the records.
    """
    if info.is_log_append_time:
        raise InvalidTimestampError(
            "the batch says that its timestamps are those of the append, which the broker alone "
            "can say: send it with timestamps of the type CreateTime"
        )
    is_ahead = limits.after_ms is not None and info.max_timestamp > now_ms + limits.after_ms
    if not is_ahead and limits.before_ms is None:
        return
    now_and_steady = now_ms, steady_ms()
    earliest = latest = None
    if limits.before_ms is not None:
        earliest = min(now_and_steady) - limits.before_ms
    if limits.after_ms is not None:
        latest = max(now_and_steady) + limits.after_ms
    refused = {
        record.offset - info.base_offset: _complaint(record.timestamp_ms, earliest, latest)
        for record in records_of(batch, known)
        if _is_outside(record.timestamp_ms, earliest, latest)
    }
    if refused:
        first = next(iter(refused))
        raise InvalidTimestampError(f"record {first}: {refused[first]}").of_records(refused)
    if _is_outside(info.max_timestamp, None, latest):
        raise InvalidTimestampError(f"the batch: {_complaint(info.max_timestamp, None, latest)}")


def _is_outside(timestamp_ms: int, earliest: int | None, latest: int | None) -> bool:
    if timestamp_ms == NO_TIMESTAMP:
        return False
    return (earliest is not None and timestamp_ms < earliest) or (
        latest is not None and timestamp_ms > latest
    )


def _complaint(timestamp_ms: int, earliest: int | None, latest: int | None) -> str:
    if latest is not None and timestamp_ms > latest:
        return (
            f"timestamp {timestamp_ms}, expected at most {latest}: the topic limits how far ahead "
            "of the broker's clock records are dated (message.timestamp.after.max.ms)"
        )
    return (
        f"timestamp {timestamp_ms}, expected at least {earliest}: the topic limits how far before "
        "the broker's clock records are dated (message.timestamp.before.max.ms)"
    )
