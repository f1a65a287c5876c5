"""Members of a queue group look for messages in the order in which they asked.

Polls that found nothing are woken together. Which of them runs first is for the event loop to say,
and one that has just come may run before all of them. So whoever is about to look stands in a line,
and looks when nobody in it has asked earlier.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from itertools import count
from typing import Final

from goqueue.partitions.waiting import Waiter, Waiters

_numbers: Final = count()


class Place(Waiter):
    """The place of a poll among those of its group; woken, it stands in the line."""

    __slots__ = ("_go", "_is_in_line", "_order", "key")

    def __init__(self, order: TurnOrder, asked_s: float) -> None:
        self.key = asked_s, next(_numbers)
        self._order = order
        self._is_in_line = False
        self._go: asyncio.Future[None] | None = None

    @property
    def is_in_line(self) -> bool:
        """Whether it is about to look."""
        return self._is_in_line

    @property
    def must_wait(self) -> bool:
        """Whether somebody who has asked earlier is about to look."""
        first = self._order.first
        return first is not None and first.key < self.key

    async def turn(self) -> None:
        """Return when nobody who is about to look has asked earlier."""
        self._enter()
        while self.must_wait:
            self._go = asyncio.get_running_loop().create_future()
            await self._go

    def call(self) -> None:
        """Nobody who is about to look has asked earlier: end the wait for that."""
        if self._go is not None and not self._go.done():
            self._go.set_result(None)

    def leave(self) -> None:
        """It has looked, or does first what may take a while: it is nobody's turn but theirs."""
        if self._is_in_line:
            self._is_in_line = False
            if (first := self._order.first) is not None:
                first.call()

    def _enter(self) -> None:
        if not self._is_in_line:
            self._is_in_line = True
            self._order.enter(self)

    def _end(self, *, woken: bool) -> None:
        if not self._future.done():
            self._enter()
        super()._end(woken=woken)


class TurnOrder(Waiters):
    """Those who wait until a group has something for them, and who of them is about to look."""

    __slots__ = ("_line",)

    def __init__(self) -> None:
        super().__init__()
        self._line: list[tuple[tuple[float, int], int, Place]] = []
        """A heap: whoever has asked first is on top; those who have left are passed over."""

    @property
    def first(self) -> Place | None:
        """Whoever has asked first of those that are about to look."""
        line = self._line
        while line:
            place = line[0][2]
            if place.is_in_line:
                return place
            heappop(line)
        return None

    def enter(self, place: Place) -> None:
        """One more is about to look."""
        heappush(self._line, (place.key, next(_numbers), place))
