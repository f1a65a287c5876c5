"""Whether the wall clock still tells the time that has passed, or was set to another one.

The wall clock dates records, and can be set by anyone at any time. The boot-time clock cannot be
set, and goes on while the machine is suspended. So when the two move apart by more than an hour
within one run, the wall clock was wrong before or is wrong now, and nobody can tell which. What
deletes data by its age must not act on it until somebody has looked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from goqueue.runtime.clock import Clock

JUMP_MS: Final = 3600 * 1000
"""So far the wall clock may move against the boot-time clock; beyond it, it has jumped."""
STEP_MS: Final = 50
"""Less is no setting of the clock: two clocks are never read at the same moment."""


class ClockJump(NamedTuple):
    """A wall clock that is not where it should be."""

    jumped_ms: int
    """How far it is from where it should be; negative when it was set back."""

    def __str__(self) -> str:
        direction = "forward" if self.jumped_ms > 0 else "back"
        return f"the wall clock jumped {direction} by {_span(abs(self.jumped_ms))}"


def _span(span_ms: int) -> str:
    hours = span_ms / 3_600_000
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days"


class ClockWatch:
    """Compares the wall clock with those that cannot be set; whoever cares looks regularly."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._accepted_ms = self._against_boottime()
        """The wall clock less the boot-time clock, as it was at the start or is accepted since."""
        self._against_timers_ms = self._against_monotonic()
        self.jump: ClockJump | None = None
        """Set while the wall clock is more than `JUMP_MS` from where it should be."""

    def _against_boottime(self) -> int:
        return self._clock.now_ms() - round(self._clock.boottime_s() * 1000)

    def _against_monotonic(self) -> int:
        return self._clock.now_ms() - round(self._clock.monotonic_s() * 1000)

    def look(self) -> ClockJump | None:
        """Compare the clocks now; the jump, if there is one.

        A wall clock that comes back to where it should be has no jump any more.
        """
        jumped_ms = self._against_boottime() - self._accepted_ms
        if abs(jumped_ms) <= JUMP_MS:
            self.jump = None
        elif self.jump is None or abs(jumped_ms - self.jump.jumped_ms) > STEP_MS:
            self.jump = ClockJump(jumped_ms)
        return self.jump

    def was_set(self) -> bool:
        """Whether the wall clock has moved against the timers of the process since the last call.

        It has too when the machine was suspended, while the timers stood still.
        """
        before, self._against_timers_ms = self._against_timers_ms, self._against_monotonic()
        return abs(self._against_timers_ms - before) > STEP_MS

    def accept(self) -> ClockJump | None:
        """Take the wall clock's time for right from now on; the jump that there was."""
        jump = self.look()
        self._accepted_ms = self._against_boottime()
        self.jump = None
        return jump

    def steady_ms(self) -> int:
        """The time that the wall clock would tell if it had not jumped."""
        if self.look() is None:
            return self._clock.now_ms()
        return self._accepted_ms + round(self._clock.boottime_s() * 1000)
