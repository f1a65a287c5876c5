"""Time: what the wall says, and what only moves forward."""

from __future__ import annotations

import time
from typing import Protocol

from goqueue.model.ids import TimestampMs


class Clock(Protocol):
    """Where every timestamp and every deadline comes from."""

    def now_ms(self) -> TimestampMs:
        """Milliseconds since the Unix epoch; may jump when the machine's clock is set."""
        ...

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> TimestampMs:
        return TimestampMs(time.time_ns() // 1_000_000)

    def monotonic_s(self) -> float:
        return time.monotonic()
