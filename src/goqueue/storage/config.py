"""What one log may be told to do differently."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

_MIB: Final = 1024 * 1024


class Fsync(StrEnum):
    """When appended bytes are forced to the disk; `flushing/flusher.py` has the contract."""

    ALWAYS = "always"
    INTERVAL = "interval"
    NEVER = "never"


class LogConfig(msgspec.Struct, frozen=True):
    """The settings of one partition's log."""

    segment_bytes: int = 64 * _MIB
    """A segment that the next batch would push past this is sealed first."""

    segment_ms: int = 7 * 24 * 3600 * 1000
    """An active segment older than this is sealed, so that retention can reach its records."""

    segment_jitter_ms: int = 0
    """Each segment is sealed up to so much earlier, so that the segments of many logs that were
    started together are not sealed together."""

    index_interval_bytes: int = 4096
    """Both indexes get an entry each time this much has been written."""

    fsync: Fsync = Fsync.INTERVAL
    fsync_interval_ms: int = 1000

    flush_messages: int = (1 << 63) - 1
    """An append is synced before it is acknowledged, whatever `fsync` says, when it makes this many
    records or more that are not on the disk."""

    def __post_init__(self) -> None:
        for name in (
            "segment_bytes",
            "segment_ms",
            "index_interval_bytes",
            "fsync_interval_ms",
            "flush_messages",
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a positive number")
        if self.segment_jitter_ms < 0:
            raise ValueError(f"segment_jitter_ms is {self.segment_jitter_ms}, expected 0 or more")
