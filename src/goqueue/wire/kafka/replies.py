"""An answer that is still to come, told in the step in which it is known."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator

_T = TypeVar("_T")


class Reply(Generic[_T]):
    """As a future, but its readers are called at once, not in the next turn of the event loop.

    On the way of a replicated message there are four of these, and a turn costs what a hundred
    lines of Python do. A reader must expect to be called from whatever makes the answer known.
    """

    __slots__ = ("_error", "_is_cancelled", "_is_done", "_reader", "_result")

    def __init__(self) -> None:
        self._is_done = self._is_cancelled = False
        self._result: _T | None = None
        self._error: BaseException | None = None
        self._reader: Callable[[Reply[_T]], object] | None = None

    def done(self) -> bool:
        """Whether it is known."""
        return self._is_done

    def cancelled(self) -> bool:
        """Whether nobody wanted it any more before it was known."""
        return self._is_cancelled

    def result(self) -> _T:
        """The answer; raises what is there in its place."""
        if self._is_cancelled:
            raise asyncio.CancelledError
        if not self._is_done:
            raise asyncio.InvalidStateError("the answer is not known yet")
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value] # it is set with `_is_done`

    def exception(self) -> BaseException | None:
        """What is there in the place of an answer, if something is."""
        return self._error

    def set_result(self, result: _T) -> None:
        """The answer is known."""
        self._result = result
        self._tell()

    def set_exception(self, error: BaseException) -> None:
        """There is none, for this reason."""
        self._error = error
        self._tell()

    def cancel(self) -> None:
        """Nobody wants it any more."""
        if not self._is_done:
            self._is_cancelled = True
            self._tell()

    def add_done_callback(self, reader: Callable[[Reply[_T]], object]) -> None:
        """Call a reader when it is known, behind those that were named before, or now."""
        if self._is_done:
            reader(self)
        elif (before := self._reader) is None:
            self._reader = reader
        else:
            self._reader = lambda reply: (before(reply), reader(reply))

    def _tell(self) -> None:
        self._is_done = True
        reader, self._reader = self._reader, None
        if reader is not None:
            reader(self)

    def as_future(self) -> asyncio.Future[_T]:
        """The same for one who waits in a task."""
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()

        def settle(reply: Reply[_T]) -> None:
            if future.done():
                return
            if reply.cancelled():
                future.cancel()
            elif (error := reply.exception()) is not None:
                future.set_exception(error)
                future.exception()  # seen: whoever waits may be gone
            else:
                future.set_result(reply.result())

        self.add_done_callback(settle)
        return future

    def __await__(self) -> Generator[object, None, _T]:
        return self.as_future().__await__()


def future_of(awaited: Awaitable[_T]) -> asyncio.Future[_T]:
    """What is waited for as a future; one that is none costs a task."""
    return awaited.as_future() if isinstance(awaited, Reply) else asyncio.ensure_future(awaited)
