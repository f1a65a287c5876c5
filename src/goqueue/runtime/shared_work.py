"""Work that is done once for all who want it at the same time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class SharedWork:
    """Lets everyone wait for a run that began after they asked, and runs one at a time.

    However many ask, two runs are enough: the one under way, which has begun too early for them,
    and the next.
    """

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._running: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def done(self) -> None:
        """Return when a run is over that began after this was called. Raises what it raises."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._run(self._running))
            self._next.add_done_callback(_seen)
        await asyncio.shield(self._next)

    async def _run(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait((before,))
        self._running, self._next = self._next, None
        await self._work()

    async def stop(self) -> None:
        """End what is under way; whoever waits is cancelled."""
        tasks = [each for each in (self._running, self._next) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _seen(task: asyncio.Task[None]) -> None:
    """Whoever waited may be gone, and the loop would complain of the error."""
    if not task.cancelled():
        task.exception()
