"""How long collections of garbage take: nothing else runs in this process meanwhile."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class GcWatch:
    """Measures every collection between `start` and `stop`.

    The interpreter makes one collection at a time, whichever thread sets it off, and calls back
    within it: so `observe` never runs beside itself.
    """

    def __init__(self, observe: Callable[[int, float], None]) -> None:
        """Tell `observe` the generation and the seconds of each collection."""
        self._observe = observe
        self._began_s: float | None = None

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
            self._observe(info["generation"], took_s)
