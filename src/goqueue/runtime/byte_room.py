"""So many bytes that may be held at a time: who wants more waits until others give theirs back."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Self

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


class _Waiting(NamedTuple):
    part: Part
    size_bytes: int
    go_on: Callable[[], None]


class ByteRoom:
    """Bytes in order of arrival. What is larger than all of the room has it for itself."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        """Of all parts together; never more than the bound, but for a single one that is larger."""
        self._waiting: deque[_Waiting] = deque()
        """One for each part that waits: as many as there are callers, whom others bound."""

    @property
    def is_full(self) -> bool:
        """Whether somebody waits, or nobody else could begin."""
        return bool(self._waiting) or self.held_bytes >= self.max_bytes

    def part(self) -> Part:
        """What one caller holds, to be closed in the end."""
        return Part(self)

    @asynccontextmanager
    async def holding(self, size_bytes: int) -> AsyncIterator[None]:
        """Hold so many bytes while the block runs, which begins when there is room."""
        has_room = asyncio.Event()
        with self.part() as part:
            if not part.take(size_bytes, has_room.set):
                await has_room.wait()
            yield

    def _fits(self, size_bytes: int) -> bool:
        return not self.held_bytes or self.held_bytes + size_bytes <= self.max_bytes

    def _take(self, part: Part, size_bytes: int, go_on: Callable[[], None]) -> bool:
        if self._waiting or not self._fits(size_bytes):
            self._waiting.append(_Waiting(part, size_bytes, go_on))
            return False
        self._count(part, size_bytes)
        return True

    def _count(self, part: Part, size_bytes: int) -> None:
        self.held_bytes += size_bytes
        part.held_bytes += size_bytes

    def _close(self, part: Part) -> None:
        self.held_bytes -= part.held_bytes
        part.held_bytes = 0
        if self._waiting:
            self._waiting = deque(each for each in self._waiting if each.part is not part)
        while self._waiting and self._fits(self._waiting[0].size_bytes):
            following = self._waiting.popleft()
            self._count(following.part, following.size_bytes)
            following.go_on()


class Part:
    """The bytes of one caller."""

    __slots__ = ("_is_closed", "_room", "held_bytes")

    def __init__(self, room: ByteRoom) -> None:
        self._room = room
        self._is_closed = False
        self.held_bytes = 0

    def take(self, size_bytes: int, go_on: Callable[[], None]) -> bool:
        """Hold so many more; if not at once, `go_on` is called when they are held.

        A part that is closed gets no more, and nobody is called.
        """
        if self._is_closed:
            return False
        return self._room._take(self, size_bytes, go_on)  # noqa: SLF001 - the two are one

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give everything back, and wait for nothing any more."""
        self._is_closed = True
        self._room._close(self)  # noqa: SLF001 - as above
