"""Timestamps that producers may give their records.

A record dated far ahead would outlive its topic's retention, and one dated far back would go with
the next pass. A topic says how far a timestamp may be from the time of the append
(`message.timestamp.after.max.ms`, `message.timestamp.before.max.ms`), as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import InvalidTimestampError
from goqueue.model.ids import NO_TIMESTAMP
from goqueue.publishing.rewrite import records_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.model.errors import BatchError
    from goqueue.records import Record
    from goqueue.records.batch import BatchInfo
    from goqueue.topics.timestamp_limits import TimestampLimits


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
        f"timestamp {timestamp_ms}, expected at least {earliest}: the topic limits how far behind "
        "the broker's clock records are dated (message.timestamp.before.max.ms)"
    )
