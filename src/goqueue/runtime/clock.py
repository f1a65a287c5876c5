"""Time: what the wall says, and what only moves forward."""

from __future__ import annotations

import time
from typing import Final, Protocol

_BOOTTIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)
"""Where there is none, as on macOS, the monotonic clock stands in: a suspended machine then looks
as if its wall clock had jumped."""


class Clock(Protocol):
    """Where every timestamp and every deadline comes from."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch; may jump when the machine's clock is set."""

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary moment; never goes back."""

    def boottime_s(self) -> float:
        """Seconds since an arbitrary moment; never goes back, goes on in a suspended machine."""


class SystemClock:
    """The machine's own clocks."""

    monotonic_s = staticmethod(time.monotonic)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def boottime_s(self) -> float:
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)
