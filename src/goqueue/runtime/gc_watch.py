"""How long collections of garbage take: nothing else runs in this process meanwhile.

A full collection looks at every object, and with thousands of partitions that takes hundreds of
milliseconds to find nothing. So when partitions were opened, what outlives the next long one is
frozen: later collections leave it alone. Reference counts still free it. A cycle that is alive at
that moment and becomes garbage later is not freed: hence only when there is much that stays.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

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
