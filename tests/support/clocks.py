"""A clock that stands still until a test moves it."""

from __future__ import annotations

from goqueue.model.ids import TimestampMs


class ManualClock:
    def __init__(self, now_ms: int = 1_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> TimestampMs:
        return TimestampMs(self._now_ms)

    def monotonic_s(self) -> float:
        return self._now_ms / 1000

    def advance(self, milliseconds: int) -> None:
        self._now_ms += milliseconds
