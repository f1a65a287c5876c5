"""How far from the time of their append the timestamps of a topic's records may be."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goqueue.records.batch import LOG_APPEND_TIME

if TYPE_CHECKING:
    from goqueue.records.batch import BatchInfo


class TimestampLimits(NamedTuple):
    """How far the timestamps of a topic's records may be from the time of their append."""

    after_ms: int | None
    before_ms: int | None
    """None is without bound."""

    def hold_by_header(self, info: BatchInfo, now_ms: int) -> bool:
        """Whether the header alone says that every record is within the limits."""
        return (
            self.before_ms is None
            and not info.attributes & LOG_APPEND_TIME
            and (self.after_ms is None or info.max_timestamp <= now_ms + self.after_ms)
        )
