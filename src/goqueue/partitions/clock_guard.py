"""What deletes by age stops when the wall clock has jumped, until somebody has looked at it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from goqueue.runtime.clock_watch import ClockJump, ClockWatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.runtime.clock import Clock

logger = logging.getLogger(__name__)

_STOPPED: Final = (
    "retention and TTL are stopped, because everything might seem old. Set the clock right, or "
    "accept its time with: goqueue maintenance resume"
)


class ClockGuard:
    """Whether the wall clock can be believed; retention and TTL ask before they act."""

    def __init__(self, clock: Clock) -> None:
        self._watch = ClockWatch(clock)
        self._reported: ClockJump | None = None
        self.on_set: Callable[[], None] = lambda: None
        """Called soon after the wall clock was set, however little; set by the broker."""

    def jump(self) -> ClockJump | None:
        """The jump of the wall clock because of which nothing may be deleted by its age."""
        return self._watch.look()

    def stopped(self) -> str | None:
        """Why retention and TTL are stopped and what to do about it; None when they are not."""
        jump = self._watch.look()
        return None if jump is None else f"{jump}: {_STOPPED}"

    def steady_ms(self) -> int:
        """The time that the wall clock would tell if it had not jumped."""
        return self._watch.steady_ms()

    def look(self) -> None:
        """Tell those who follow the wall clock that it was set, and report a jump; every second."""
        if self._watch.was_set():
            self.on_set()
        jump = self._watch.look()
        if jump is not None and jump != self._reported:
            logger.error("%s: %s", jump, _STOPPED)
        elif jump is None and self._reported is not None:
            logger.warning("the wall clock is correct again: retention and TTL resume")
        self._reported = jump

    def resume(self) -> ClockJump | None:
        """Take the wall clock's time for right and go on; the jump that there was."""
        jump, self._reported = self._watch.accept(), None
        if jump is not None:
            logger.warning("%s: accepted, retention and TTL resume", jump)
        return jump
