"""Which segments have outlived their limits, and when the next one does."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from goqueue.storage.naming import LOG

if TYPE_CHECKING:
    from goqueue.storage.config import LogConfig
    from goqueue.storage.segment import Segment
    from goqueue.storage.segments import Segments


def expired_count(
    segments: Segments,
    log_start: int,
    *,
    now_ms: int,
    retention_ms: int | None,
    retention_bytes: int | None,
) -> int:
    """How many of the oldest segments may go; the active one never does.

    Below the start of the log all may: a power cut can bring back files that were removed. By
    time, a segment goes when its newest record is older than `retention_ms`. By size, the oldest
    go while the rest still holds `retention_bytes`.
    """
    count = 0
    size = segments.size_bytes
    for segment in segments.sealed:
        newest = now_ms if retention_ms is None else newest_ms(segment, now_ms)
        too_old = retention_ms is not None and newest < now_ms - retention_ms
        size -= segment.size_bytes
        too_large = retention_bytes is not None and size >= retention_bytes
        if not (segment.end_offset <= log_start or too_old or too_large):
            if retention_ms is not None and newest == now_ms:
                _date_from_now(segments, count, now_ms)
            break
        count += 1
    return count


def _date_from_now(segments: Segments, first: int, now_ms: int) -> None:
    """Let all segments that were written while the clock was ahead age from now on together.

    One by one, as each becomes the oldest, they would stay for many times the retention.
    """
    for segment in tuple(segments)[first:]:
        segment.modified_ms(now_ms)


def newest_ms(segment: Segment, now_ms: int) -> int:
    """The age of a segment: the time of its newest record, as far as that can be believed.

    Records without timestamps, and records dated after now, say nothing of how old they are: one
    dated 9999 would keep its segment for ever. Then the time of the last write to the file counts,
    as in Kafka where there are no timestamps.
    """
    if not segment.size_bytes:
        return -1  # nothing is in it that could be kept
    newest = segment.newest.timestamp_ms
    return newest if 0 <= newest <= now_ms else segment.modified_ms(now_ms)


def is_aged(segment: Segment, now_ms: int, config: LogConfig) -> bool:
    """Whether an active segment has been open for longer than the log allows."""
    return segment.born_ms(now_ms) < now_ms - _open_ms(segment, config)


def _open_ms(segment: Segment, config: LogConfig) -> int:
    """For how long a segment may stay open: `segment_ms`, less a share of the jitter."""
    jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
    if not jitter_ms:
        return config.segment_ms
    return config.segment_ms - crc32(bytes(segment.path(LOG))) % (jitter_ms + 1)


def next_look_ms(
    segments: Segments, now_ms: int, config: LogConfig, retention_ms: int | None
) -> int | None:
    """When time alone gives retention something to do; None when it never does.

    An append can only put this off, except the first one to a segment, which marks the partition.
    """
    active = segments.active
    if active is None:
        return None
    dues_ms = []
    if active.size_bytes:
        dues_ms.append(active.born_ms(now_ms) + _open_ms(active, config))
    if retention_ms is not None:
        dues_ms += (
            newest_ms(segment, now_ms) + retention_ms
            for segment in (*segments.sealed[:1], active)
            if segment.size_bytes
        )
    return min(dues_ms) + 1 if dues_ms else None
