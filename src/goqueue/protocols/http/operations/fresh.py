"""Answers that are made once for everyone who asks within a moment."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from goqueue.protocols.http.api.responses import encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.runtime.clock import Clock

FRESH_S: Final = 1.0
"""For so long one answer serves everyone who asks."""


class Fresh:
    """Something as JSON, made anew when it is asked for and older than `FRESH_S`."""

    def __init__(self, clock: Clock, make: Callable[[], Awaitable[object]]) -> None:
        self._clock = clock
        self._make = make
        self._made = b""
        self._made_s = -math.inf
        self._making = asyncio.Lock()

    async def read(self) -> bytes:
        """It, no older than `FRESH_S`; who asks while it is made waits for that."""
        clock = self._clock
        if clock.monotonic_s() - self._made_s >= FRESH_S:
            async with self._making:
                if clock.monotonic_s() - self._made_s >= FRESH_S:
                    self._made = encode(await self._make())
                    self._made_s = clock.monotonic_s()
        return self._made
