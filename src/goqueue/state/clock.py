"""The time by which coordinators count leases, sessions and timeouts: it never goes back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from goqueue.runtime.clock import Clock


class StateClock:
    """Wall-clock milliseconds as they were at the start, and what has passed since.

    Whoever sets the clock while the broker runs neither prolongs a lease nor ends one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_ms = clock.now_ms() - round(clock.monotonic_s() * 1000)

    def now_ms(self) -> int:
        """The time now."""
        return self._started_ms + round(self._clock.monotonic_s() * 1000)
