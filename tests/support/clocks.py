"""Clocks that a test holds: one that stands still, and one whose wall clock can be set."""

from __future__ import annotations

from goqueue.runtime.clock import SystemClock


class ManualClock:
    def __init__(self, now_ms: int = 1_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = now_ms
        self._boottime_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._monotonic_ms / 1000

    def boottime_s(self) -> float:
        return self._boottime_ms / 1000

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self._now_ms += milliseconds
        self._monotonic_ms += milliseconds
        self._boottime_ms += milliseconds

    def suspend(self, milliseconds: int) -> None:
        """Let time pass while the machine is suspended."""
        self._now_ms += milliseconds
        self._boottime_ms += milliseconds

    def jump(self, milliseconds: int) -> None:
        """Set the wall clock, while no time passes."""
        self._now_ms += milliseconds


class ShiftedClock(SystemClock):
    """The machine's clocks, with a wall clock that a test can set."""

    shift_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.shift_ms
