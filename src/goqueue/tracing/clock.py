"""Time stamps that are fine enough to tell the steps of one publish apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from goqueue.runtime.clock import Clock

_TOLERANCE_NS: Final = 20_000_000
_MS: Final = 1_000_000


class TraceClock:
    """Nanoseconds since the Unix epoch, by the clock that only moves forward.

    It goes back to the wall's time when the two have come apart, as when that was set.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._zero_ns = 0
        self._set()

    def _set(self) -> None:
        self._zero_ns = self._clock.now_ms() * _MS - round(self._clock.monotonic_s() * 1e9)

    def monotonic_s(self) -> float:
        """This moment, of the clock that only moves forward."""
        return self._clock.monotonic_s()

    def at_ns(self, monotonic_s: float) -> int:
        """A moment of the clock that only moves forward."""
        return self._zero_ns + round(monotonic_s * 1e9)

    def now_ns(self) -> int:
        """This moment."""
        now_ns = self.at_ns(self._clock.monotonic_s())
        if abs(now_ns - self._clock.now_ms() * _MS) > _TOLERANCE_NS:
            self._set()
            return self.at_ns(self._clock.monotonic_s())
        return now_ns
