"""How long nothing else runs in this process: a late event loop, and collections of garbage.

The loop is measured with a timer that should fire at once. Whatever holds the loop, a slow handler,
a long collection of garbage, a thread that keeps the interpreter or a machine without a free core,
makes the timer late by as much.

A full collection looks at every object, and with thousands of partitions that takes hundreds of
milliseconds to find nothing. So when partitions were opened, what outlives the next long one is
frozen: later collections leave it alone. Reference counts still free it. A cycle that is alive at
that moment and becomes garbage later is not freed: hence only when there is much that stays.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

INTERVAL_S: Final = 0.1
"""Between two timers. What holds the loop for longer than this is always seen; of what is shorter,
as much of it as its share of this time."""
KEPT_S: Final = 30.0
"""The worst lateness is that of the last `KEPT_S` to two times as long."""


class WorstLately:
    """The largest of the values of a while, at the price of two numbers."""

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept_s = kept_s
        self._since_s = 0.0
        self._now = 0.0
        self._before = 0.0

    def note(self, value: float, now_s: float) -> None:
        """One value of this moment."""
        self._turn(now_s)
        self._now = max(self._now, value)

    def worst(self, now_s: float) -> float:
        """The largest value that was noted lately; 0 when there was none."""
        self._turn(now_s)
        return max(self._now, self._before)

    def _turn(self, now_s: float) -> None:
        age_s = now_s - self._since_s
        if age_s >= self._kept_s:
            self._before = self._now if age_s < 2 * self._kept_s else 0.0
            self._now, self._since_s = 0.0, now_s


class LoopWatch:
    """Measures the loop that it is started in."""

    def __init__(self, observe: Callable[[float], None], interval_s: float = INTERVAL_S) -> None:
        """Tell `observe` each lateness, in seconds."""
        self._observe = observe
        self._interval_s = interval_s
        self._worst = WorstLately()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin; harmless when it has begun."""
        if self._timer is None:
            self._loop = asyncio.get_running_loop()
            self._arm()

    def stop(self) -> None:
        """End; harmless when it has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def worst_s(self) -> float:
        """How late the loop was at its worst, lately."""
        return 0.0 if self._loop is None else self._worst.worst(self._loop.time())

    def _arm(self) -> None:
        if self._loop is not None:
            due_s = self._loop.time() + self._interval_s
            self._timer = self._loop.call_at(due_s, self._fired, due_s)

    def _fired(self, due_s: float) -> None:
        if self._loop is not None:
            now_s = self._loop.time()
            late_s = max(now_s - due_s, 0.0)
            self._worst.note(late_s, now_s)
            self._observe(late_s)
            self._arm()


LONG_S: Final = 0.02
"""What outlives a full collection that takes longer is not looked at again, if much has come."""
MUCH: Final = 250
"""Partitions, some 75 objects each."""
_FULL: Final = 2


class GcWatch:
    """Measures every collection between `start` and `stop`.

    The interpreter makes one collection at a time, whichever thread sets it off, and calls back
    within it: so `observe` never runs beside itself.
    """

    def __init__(self, observe: Callable[[int, float], None], long_s: float = LONG_S) -> None:
        """Tell `observe` the generation and the seconds of each collection."""
        self._observe = observe
        self._long_s = long_s
        self._opened = 0
        self._began_s: float | None = None

    def opened(self, partitions: int) -> None:
        """So many partitions more are there to stay."""
        self._opened += partitions

    def start(self) -> None:
        """Begin; harmless when it has begun."""
        if self._on_gc not in gc.callbacks:
            gc.callbacks.append(self._on_gc)

    def stop(self) -> None:
        """End; harmless when it has ended."""
        if self._on_gc in gc.callbacks:
            gc.callbacks.remove(self._on_gc)
        self._began_s = None

    def _on_gc(self, phase: str, info: dict[str, int]) -> None:
        now_s = time.perf_counter()
        if phase == "start":
            self._began_s = now_s
        elif self._began_s is not None:
            took_s, self._began_s = now_s - self._began_s, None
            generation = info["generation"]
            self._observe(generation, took_s)
            if generation == _FULL and took_s > self._long_s and self._opened >= MUCH:
                self._opened = 0
                gc.freeze()
