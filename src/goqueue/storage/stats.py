"""What is counted of a log while it works, and what is told of it."""

from __future__ import annotations

from typing import Final

import msgspec

from goqueue.model.tuples import NamedTuple

_MAX_TIMED_LOOKUPS: Final = 1000
"""Of one log, until somebody takes them out; the time that more of them took is not noted."""


class LogFacts(NamedTuple):
    """A log at one moment, as people and monitoring systems see it."""

    segment_count: int
    active_segment_count: int
    """1, or 0 of a log that was never written."""
    bytes_written: int
    segments_created: int
    segments_deleted: int
    offset_lookups: int
    time_lookups: int
    index_rebuilds: int
    dirty_ratio: float
    """The share of the sealed bytes that compaction has not seen yet."""


class StoreStats(msgspec.Struct):
    """What has happened since the log was opened."""

    bytes_written: int = 0
    syncs: int = 0
    segments_created: int = 0
    segments_deleted: int = 0
    offset_lookups: int = 0
    index_rebuilds: int = 0
    """Of segments that are gone; those that are there count their own."""
    time_lookups: int = 0
    """Searches happen in threads too: a count that two of them lose is not worth a lock."""
    time_lookups_s: list[float] = msgspec.field(default_factory=list)
    """How long searches by time took, for whoever measures it to take out."""

    def note_time_lookup(self, took_s: float) -> None:
        """Count a search by time."""
        self.time_lookups += 1
        if len(self.time_lookups_s) < _MAX_TIMED_LOOKUPS:
            self.time_lookups_s.append(took_s)
