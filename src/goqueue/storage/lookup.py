"""Find things in a run of segments: by offset, by time, and where to cut. Nothing is changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from goqueue.model.errors import DamagedRangeError
from goqueue.records import decode_rows
from goqueue.storage.region import Region
from goqueue.storage.scan import Context, Damage, Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.records import Record
    from goqueue.storage.segment import Segment
    from goqueue.storage.segments import Segments


class TimestampHit(NamedTuple):
    """A record found by its time."""

    offset: int
    timestamp_ms: int


def find_region(
    segments: Segments, offset: int, end: int, max_bytes: int, context: Context
) -> Region | None:
    """The stretch that begins with the batch holding `offset` and stays below `end`."""
    if offset >= end:
        return None
    for segment in segments.since(offset):
        found = segment.locate(offset, context)
        if isinstance(found, Found):
            return _region(segment, found, end, max_bytes, context)
        if isinstance(found, Damage):
            raise DamagedRangeError(offset, found.resume_at or segment.end_offset, found.reason)
        if context.gaps_below <= offset < segment.end_offset:
            raise DamagedRangeError(offset, segment.end_offset, "the segment ends too early")
    return None


def _region(
    segment: Segment, first: Found, end: int, max_bytes: int, context: Context
) -> Region | None:
    readable = segment.size_bytes
    if end < segment.end_offset:
        stop = segment.locate(end, context)
        readable = stop.position if stop is not None else readable
    if readable <= first.position:
        return None
    return Region(
        file=segment.file,
        position=first.position,
        length=min(max(max_bytes, first.info.size_bytes), readable - first.position),
        first_offset=first.info.base_offset,
        file_end=segment.size_bytes,
        context=replace(context, end_offset=segment.end_offset),
    )


def find_time(
    segments: Segments, timestamp_ms: int, log_start: int, context: Context
) -> TimestampHit | None:
    """The first record from `log_start` on whose timestamp is `timestamp_ms` or later."""
    for segment in segments.reaching(timestamp_ms):
        entry = segment.indexes.times.before(timestamp_ms)
        first = max(entry.value if entry else segment.base_offset, log_start)
        for record in _records(segment, first, timestamp_ms, context):
            if record.timestamp_ms >= timestamp_ms and record.offset >= log_start:
                return TimestampHit(record.offset, record.timestamp_ms)
    return None


def find_latest_time(segments: Segments, log_start: int, context: Context) -> TimestampHit | None:
    """The first record with the highest timestamp of all."""
    newest = max(segments, key=lambda segment: segment.max_timestamp, default=None)
    if newest is None:
        return None
    first = max(newest.indexes.max_timestamp_offset, log_start)
    hit = None
    for record in _records(newest, first, newest.max_timestamp, context):
        if record.offset >= log_start and (hit is None or record.timestamp_ms > hit.timestamp_ms):
            hit = TimestampHit(record.offset, record.timestamp_ms)
    return hit


def _records(segment: Segment, first: int, timestamp_ms: int, context: Context) -> Iterator[Record]:
    """The records of the batches from `first` on that reach `timestamp_ms`."""
    start = segment.locate(first, context)
    if start is None:
        return
    offset = start.info.base_offset if isinstance(start, Found) else start.first_offset
    for item in segment.walk(context, position=start.position, start_offset=offset):
        if isinstance(item, Found) and item.info.max_timestamp >= timestamp_ms:
            yield from decode_rows(segment.file.read(item.position, item.info.size_bytes))


def find_cut(segments: Segments, end_offset: int, context: Context) -> tuple[Segment, int, int]:
    """The segment, the position in it and the offset at which a log cut there would end."""
    segment = segments.since(end_offset)[0]
    found = segment.locate(end_offset, context)
    if isinstance(found, Found):
        return segment, found.position, min(end_offset, found.info.base_offset)
    if isinstance(found, Damage):
        return segment, found.position, found.first_offset
    return segment, segment.size_bytes, segment.end_offset
