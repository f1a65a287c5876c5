from __future__ import annotations

import time

from goqueue.runtime.clock import SystemClock


def test_the_wall_clock_counts_milliseconds_since_1970() -> None:
    before = time.time()
    now_ms = SystemClock().now_ms()
    assert before * 1000 - 1 <= now_ms <= time.time() * 1000 + 1


def test_the_monotonic_clock_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_s() for _ in range(100)]
    assert readings == sorted(readings)
