"""Turns for work that takes milliseconds: one piece of it between two turns of the event loop."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Turns:
    """Lets one piece of long work run at a time, whoever has it to do.

    Without this, pieces that became due together would run one after the other before the loop
    turned, and everybody else would wait for all of them.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn; the block is the piece, and awaits nothing."""
        async with self._lock:
            yield
            await asyncio.sleep(0)
