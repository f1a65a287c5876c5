"""Commits that wait for a moment, which a backup of a cluster takes on all nodes."""

from __future__ import annotations

import asyncio

from goqueue.model.errors import ConcurrentTransactionsError


class CommitHold:
    """While it holds, no transaction is committed; it ends by itself after a while."""

    def __init__(self) -> None:
        self._ended: asyncio.Event | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_on(self) -> bool:
        """Whether commits wait."""
        return self._ended is not None

    def begin(self, longest_s: float) -> None:
        """Hold from now on; whoever began before ends it for both."""
        if self._timer is not None:
            self._timer.cancel()
        if self._ended is None:
            self._ended = asyncio.Event()
        self._timer = asyncio.get_running_loop().call_later(longest_s, self.end)

    def end(self) -> None:
        """Let commits go on."""
        if self._timer is not None:
            self._timer.cancel()
        if self._ended is not None:
            self._ended.set()
        self._ended = self._timer = None

    async def over(self) -> None:
        """Return when commits may go on."""
        while self._ended is not None:
            await self._ended.wait()

    def check(self) -> None:
        """Raise `ConcurrentTransactionsError`, which clients retry, while it holds."""
        if self._ended is not None:
            raise ConcurrentTransactionsError("a backup is taking its moment: try again")
