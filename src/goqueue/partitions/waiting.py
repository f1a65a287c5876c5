"""Readers that wait for something to be appended; woken by the append, not by a timer."""

from __future__ import annotations

import asyncio


class Waiter:
    """One reader waiting for a number of bytes, from however many partitions it reads."""

    __slots__ = ("_future", "_missing_bytes")

    def __init__(self, missing_bytes: int) -> None:
        self.begin(missing_bytes)

    def begin(self, missing_bytes: int) -> None:
        """Begin to wait, perhaps anew; who waits already keeps its place among the others."""
        self._missing_bytes = missing_bytes
        self._future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def offer(self, size_bytes: int) -> None:
        """Note that this many more bytes can be read."""
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        """End the wait: there is enough, or something else that the reader must hear of."""
        self._end(woken=True)

    async def wait(self, timeout_s: float) -> bool:
        """Return when woken, or when the time is over; says whether it was woken. Once a `begin`.

        By hand, since this happens at every poll: `asyncio.wait` costs several times as much.
        """
        if self._future.done():
            return self._future.result()
        timer = self._future.get_loop().call_later(timeout_s, lambda: self._end(woken=False))
        try:
            return await self._future
        finally:
            timer.cancel()

    def _end(self, *, woken: bool) -> None:
        if not self._future.done():
            self._future.set_result(woken)


class Waiters(dict[Waiter, None]):
    """The readers that wait at one partition or group, told in the order in which they came.

    Whoever takes messages away from others, as members of queue groups do, takes its turn so: one
    that asks again at once stands behind those that were waiting.
    """

    __slots__ = ()

    def add(self, waiter: Waiter) -> None:
        """Tell this reader of every append from now on."""
        self[waiter] = None

    def discard(self, waiter: Waiter) -> None:
        """Tell it no more."""
        self.pop(waiter, None)

    def tell(self, size_bytes: int | None) -> None:
        """Tell every reader that this many more bytes can be read; None: nobody has counted."""
        if size_bytes is None:
            self.wake()
            return
        for waiter in tuple(self):
            waiter.offer(size_bytes)

    def wake(self) -> None:
        """End every wait."""
        for waiter in tuple(self):
            waiter.wake()
