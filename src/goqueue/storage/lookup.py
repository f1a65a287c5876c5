"""Find things in a run of segments: by offset, by time, and where to cut. Nothing is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from goqueue.model.errors import BatchError, DamagedRangeError
from goqueue.model.ids import NO_TIMESTAMP
from goqueue.model.tuples import NamedTuple
from goqueue.records import BatchInfo, Record, decode_rows
from goqueue.records.batch import HEADER_BYTES, peek_header
from goqueue.storage.region import Region
from goqueue.storage.scan import READ_NEAR_BYTES, BatchPosition, Context, Damage, IntactBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

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
        if context.gaps_below <= offset < segment.base_offset:
            raise DamagedRangeError(offset, segment.base_offset, "the segment is missing")
        first = segment.recent(offset)
        if first is None:
            found = segment.locate(offset, context)
            if isinstance(found, Damage):
                raise DamagedRangeError(offset, found.resume_at or segment.end_offset, found.reason)
            first = None if found is None else found.place
        if first is not None:
            return _region(segment, first, end, max_bytes, context)
        if context.gaps_below <= offset < segment.end_offset:
            raise DamagedRangeError(offset, segment.end_offset, "the segment ends too early")
    return None


def _region(
    segment: Segment, first: BatchPosition, end: int, max_bytes: int, context: Context
) -> Region | None:
    readable = segment.size_bytes
    if end < segment.end_offset:
        stop = segment.recent(end) or segment.locate(end, context)
        readable = stop.position if stop is not None else readable
    if readable <= first.position:
        return None
    return Region(
        file=segment.file,
        position=first.position,
        length=min(max(max_bytes, first.size_bytes), readable - first.position),
        first_offset=first.base_offset,
        file_end=segment.size_bytes,
        context=replace(context, end_offset=segment.end_offset),
    )


def offset_before(segments: Segments, end: int, size_bytes: int) -> int:
    """An offset below `end` from which on about `size_bytes` lie before it, by the index alone.

    It is the first of a batch. Between it and `end` are no more than `size_bytes`, what lies
    between two entries of the index, and a batch; or all of a segment that is too short for one.
    """
    segment = next(iter(segments.since(end - 1)), None)
    if segment is None or segment.base_offset >= end:
        return end - 1
    indexes = segment.indexes
    last = None if indexes is None else indexes.offsets.at_or_before(end - 1)
    if indexes is None or last is None:
        return segment.base_offset
    offsets = indexes.offsets
    first = offsets.first_from(last.value - size_bytes)
    if first is None or first.key > last.key or last.value <= size_bytes:
        return segment.base_offset
    return first.key


def find_time(
    segments: Segments, timestamp_ms: int, log_start: int, context: Context
) -> TimestampHit | None:
    """The first record from `log_start` on whose timestamp is `timestamp_ms` or later."""
    for segment in segments.reaching(timestamp_ms):
        indexes = segment.indexes
        entry = None if indexes is None else indexes.times.before(timestamp_ms)
        first = max(entry.value if entry else segment.base_offset, log_start)
        for record in _records(segment, first, timestamp_ms, context):
            if record.timestamp_ms >= timestamp_ms and record.offset >= log_start:
                return TimestampHit(record.offset, record.timestamp_ms)
    return None


def find_latest_time(segments: Segments, log_start: int, context: Context) -> TimestampHit | None:
    """The first record with the highest timestamp of all."""
    best = None
    for segment in sorted(segments, key=lambda segment: segment.newest.timestamp_ms, reverse=True):
        if best is not None and segment.newest.timestamp_ms < best.timestamp_ms:
            break
        hit = _latest_in(segment, log_start, context)
        if hit is not None and (best is None or _later(hit, best)):
            best = hit
    return best


def _latest_in(segment: Segment, log_start: int, context: Context) -> TimestampHit | None:
    """The first record of a segment with its highest timestamp.

    As a rule that is where the index says. But that record may lie below the start of the log, or
    compaction may have left its batch without records: then all have to be looked at.
    """
    newest = segment.newest
    first = max(newest.offset, segment.base_offset)
    for record in _records(segment, first, newest.timestamp_ms, context):
        if record.offset >= log_start and record.timestamp_ms == newest.timestamp_ms:
            return TimestampHit(record.offset, record.timestamp_ms)
    best = None
    for record in _records(segment, max(segment.base_offset, log_start), NO_TIMESTAMP, context):
        hit = TimestampHit(record.offset, record.timestamp_ms)
        if record.offset >= log_start and (best is None or _later(hit, best)):
            best = hit
    return best


def _later(hit: TimestampHit, best: TimestampHit) -> bool:
    return (hit.timestamp_ms, -hit.offset) > (best.timestamp_ms, -best.offset)


def _records(segment: Segment, first: int, timestamp_ms: int, context: Context) -> Iterator[Record]:
    """The records of the batches from `first` on that reach `timestamp_ms`."""
    start = segment.locate(first, context)
    if start is None:
        return
    offset = start.info.base_offset if isinstance(start, IntactBatch) else start.first_offset
    batches = segment.walk(
        context, position=start.position, start_offset=offset, ahead_bytes=READ_NEAR_BYTES
    )
    for item in batches:
        if isinstance(item, IntactBatch) and item.info.max_timestamp >= timestamp_ms:
            yield from _rows(item.info, segment.file.read(item.position, item.info.size_bytes))


def _rows(info: BatchInfo, data: bytes) -> list[Record]:
    """The records of an intact batch. One that its producer made badly counts as one record."""
    try:
        return decode_rows(data, check_crc=False)
    except BatchError:
        return [Record(info.base_offset, info.max_timestamp, None, None)]


class Cut(NamedTuple):
    """Where a log is to be cut."""

    keeper: Segment | None
    """The segment that will be the last; None when all of them go."""
    position: int
    """Where its file ends then."""
    end_offset: int
    """Where the log ends then."""


def find_cut(segments: Segments, end_offset: int, log_start: int, context: Context) -> Cut:
    """Where to cut so that no batch reaches past `end_offset`; at or below the start, all go."""
    segment = next(iter(segments.since(end_offset)), None)
    if segment is None or end_offset <= log_start or end_offset < segment.base_offset:
        return Cut(None, 0, end_offset)
    found = segment.locate(end_offset, context)
    if isinstance(found, IntactBatch):
        return Cut(segment, found.position, min(end_offset, found.info.base_offset))
    if isinstance(found, Damage):
        return Cut(segment, found.position, found.first_offset)
    return Cut(segment, segment.size_bytes, end_offset)


class LogView:
    """A log as it was at one moment, for whoever copies it while it goes on; in any thread.

    Appends lie behind its end. What retention removes meanwhile is gone here too. Compaction may
    remove a record because of one behind the end, so the files of a log that is compacted are held
    open: what was in them stays readable.
    """

    def __init__(
        self,
        segments: Segments,
        start_offset: int,
        end_offset: int,
        context: Context,
        *,
        holds_files: bool,
    ) -> None:
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.segments = segments
        self._context = context
        self._held = [each.file for each in segments] if holds_files else []

    @property
    def file_count(self) -> int:
        """How many files are held open."""
        return len(self._held)

    @property
    def size_bytes(self) -> int:
        """About how much there is; what lies behind the end in the last segment counts along."""
        return self.segments.size_bytes

    def segment_of(self, offset: int) -> Segment | None:
        """The segment that an offset is in."""
        return next(
            (each for each in self.segments.since(offset) if each.end_offset > offset), None
        )

    def read(self, offset: int, max_bytes: int) -> Region | None:
        """The batches from the one that holds `offset` on; None at the end.

        Raises:
            DamagedRangeError: the records at `offset` are damaged.
            DiskError: the disk refused, or retention has removed the file.
        """
        return find_region(self.segments, offset, self.end_offset, max_bytes, self._context)

    def place_of(self, offset: int) -> tuple[int, BatchInfo] | None:
        """Where in its file the batch that holds an offset begins, and its header.

        None when there is none. Raises like `read`.
        """
        region = self.read(offset, 1)
        if region is None:
            return None
        return region.position, peek_header(region.file.read(region.position, HEADER_BYTES))
