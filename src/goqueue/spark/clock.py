"""Time, for drivers and tasks: the one place where Spark's side reads a clock or waits."""

from __future__ import annotations

import time
from typing import Final

from goqueue.runtime.clock import SystemClock

_CLOCK: Final = SystemClock()

now_ms: Final = _CLOCK.now_ms
monotonic_s: Final = _CLOCK.monotonic_s
sleep: Final = time.sleep
