"""Which part of a log compaction may work on now, if that is worth a pass, and what one did."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from goqueue.model.tuples import NamedTuple
from goqueue.storage.retention import newest_ms

if TYPE_CHECKING:
    from goqueue.storage.log import Log


class CompactionLimits(NamedTuple):
    """What a topic says of when its records are compacted."""

    dirty_ratio: float
    """A pass is worth it once so much of what it would read was never compacted."""
    min_lag_ms: int = 0
    """A record stays for at least so long, also when a newer one of its key has come."""
    max_lag_ms: int | None = None
    """A record waits for at most so long, however little there is to compact; None is for ever."""
    max_dirty_records: int | None = None
    """Half as many in sealed segments make a pass due, and half as many in the active one are
    enough to seal it; None is without bound."""


class Cleanable(NamedTuple):
    """What a pass would do now."""

    until: int
    """The pass leaves alone what is at or past this offset."""
    ratio: float
    """The share of the bytes up to there that no pass has seen."""
    is_due: bool
    next_ms: int | None
    """When time alone makes more of the log cleanable or a pass due; None when it does not."""


def cleanable(log: Log, limits: CompactionLimits, now_ms: int) -> Cleanable:
    """What compaction of `log` would do now. Only sealed segments are ever compacted."""
    clean_below = log.store.checkpoint.clean_below
    until, total, dirty, dirty_records = clean_below, 0, 0, 0
    first_dirty_ms: int | None = None
    times_ms: list[int] = []
    for segment in log.segments.sealed:
        is_dirty = segment.end_offset > clean_below and segment.size_bytes > 0
        if is_dirty and limits.min_lag_ms:
            ripe_ms = newest_ms(segment, now_ms) + limits.min_lag_ms
            if ripe_ms > now_ms:
                times_ms.append(ripe_ms)
                break
        until = max(until, segment.end_offset)
        total += segment.size_bytes
        if is_dirty:
            dirty += segment.size_bytes
            dirty_records += segment.end_offset - max(segment.base_offset, clean_below)
            if limits.max_lag_ms is not None:
                born_ms = segment.born_ms(now_ms)
                first_dirty_ms = born_ms if first_dirty_ms is None else min(first_dirty_ms, born_ms)
    ratio = dirty / total if total else 0.0
    is_due = dirty > 0 and (ratio >= limits.dirty_ratio or _is_half(dirty_records, limits))
    if first_dirty_ms is not None and limits.max_lag_ms is not None:
        late_ms = first_dirty_ms + limits.max_lag_ms
        is_due = is_due or late_ms <= now_ms
        times_ms.append(late_ms)
    next_ms = min((each for each in times_ms if each > now_ms), default=None)
    return Cleanable(until, ratio, is_due, next_ms)


def is_sealing_due(log: Log, limits: CompactionLimits) -> bool:
    """Whether the active segment holds so much that compaction should reach it soon."""
    active = log.segments.active
    return active is not None and _is_half(log.end_offset - active.base_offset, limits)


def _is_half(records: int, limits: CompactionLimits) -> bool:
    return limits.max_dirty_records is not None and records * 2 >= limits.max_dirty_records


def dirty_ratio(log: Log) -> float:
    """The share of the sealed bytes that no pass has looked at yet; 0 for an empty log."""
    clean_below = log.store.checkpoint.clean_below
    total = sum(segment.size_bytes for segment in log.segments.sealed)
    dirty = sum(s.size_bytes for s in log.segments.sealed if s.end_offset > clean_below)
    return dirty / total if total else 0.0


class CompactionStats(msgspec.Struct):
    """What one pass did. Segments that it left alone and control records are not counted."""

    records_before: int = 0
    records_after: int = 0
    unique_keys: int = 0
    """How many keys there were among the records that no pass had seen before."""
    tombstones_removed: int = 0
    """Those whose day was over; ones that a newer record replaced are ordinary records here."""
    bytes_before: int = 0
    bytes_after: int = 0
    duration_s: float = 0.0
    dirty_ratio: float = 0.0

    def add(self, part: CompactionStats) -> None:
        """Count what happened to one group of segments."""
        self.records_before += part.records_before
        self.records_after += part.records_after
        self.tombstones_removed += part.tombstones_removed
        self.bytes_before += part.bytes_before
        self.bytes_after += part.bytes_after
