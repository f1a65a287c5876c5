"""How a blocking class is derived from an async one.

    class Topics(Blocking[AsyncTopics]):
        create = blocking(AsyncTopics.create)

`Topics.create` has the parameters, the result and the docstring of `AsyncTopics.create`, for type
checkers and for `help()`; it runs that method on the client's loop and waits for its result. What
is written by hand in the classes of this package does something else than the async method: it
serves a message without a switch of threads, or takes a blocking object where the async method
takes an async one. The loop turns on a thread of its own (`LoopThread`).
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import weakref
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
)

from goqueue.client.errors import ClientClosedError, ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _new_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop where there is one."""
    try:
        import uvloop  # noqa: PLC0415 - there is none for Windows
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Abandonable(Protocol):
    """What a child process must not go on using."""

    def abandon(self) -> None:
        """This is a child process now."""


_PARENTS: Final[weakref.WeakSet[Abandonable]] = weakref.WeakSet()
"""What belongs to this process, and to none of its children: threads do not survive a fork."""


def abandon_in_children(each: Abandonable) -> None:
    """Let children that are forked from now on know that this is not theirs."""
    _PARENTS.add(each)


def _abandon_all() -> None:
    for each in list(_PARENTS):
        each.abandon()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_abandon_all)


class LoopThread:
    """An event loop that runs in a thread, for callers in others."""

    def __init__(self) -> None:
        self.loop = _new_loop()
        self._is_abandoned = False
        self._thread = threading.Thread(target=self._run, name="goqueue client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def start(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run it on the loop; the caller may wait for its result."""
        if self._is_abandoned or self.loop.is_closed() or not self._thread.is_alive():
            work.close()
            raise ClientClosedError("the client is closed, or of another process: create another")
        if self.is_current:
            work.close()
            raise ClientError("a callback of the client cannot wait for the client")
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run it on the loop and wait for its result; Ctrl-C cancels it."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @property
    def is_current(self) -> bool:
        """Whether the caller is the loop's own thread."""
        return threading.current_thread() is self._thread

    def abandon(self) -> None:
        """This is a child process: the thread is not here."""
        self._is_abandoned = True

    def stop(self) -> None:
        """End the loop and its thread."""
        if not self._is_abandoned and self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()


class AsyncBlock(Protocol):
    """Something to be used in `async with`."""

    async def __aenter__(self) -> Any:
        """Begin."""

    async def __aexit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        """End; with the class of the exception that leaves the block."""


_Inner = TypeVar("_Inner")
_InnerBlock = TypeVar("_InnerBlock", bound=AsyncBlock)


class Blocking(Generic[_Inner]):
    """An async object, and the thread whose loop runs its methods."""

    def __init__(self, thread: LoopThread, inner: _Inner) -> None:
        self._thread = thread
        self._inner = inner


class BlockingBlock(Blocking[_InnerBlock]):
    """An async context manager, to be used in `with`."""

    def __enter__(self) -> Self:
        self._thread.call(self._inner.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        self._thread.call(self._inner.__aexit__(kind))


def blocking(
    method: Callable[Concatenate[Any, _P], Coroutine[Any, Any, _T]],
) -> Callable[Concatenate[Blocking[Any], _P], _T]:
    """The method of a blocking class that runs an async method and waits for its result."""

    @wraps(method)
    def call(self: Blocking[Any], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return self._thread.call(method(self._inner, *args, **kwargs))

    return call


def wrapping(
    kind: Callable[[LoopThread, _Inner], _T], method: Callable[Concatenate[Any, _P], _Inner]
) -> Callable[Concatenate[Blocking[Any], _P], _T]:
    """The method of a blocking class that makes what an async class makes, as a blocking one."""

    @wraps(method)
    def make(self: Blocking[Any], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return kind(self._thread, method(self._inner, *args, **kwargs))

    result = inspect.signature(method).replace(return_annotation=kind)
    make.__dict__["__signature__"] = result  # what `help()` shows
    return make
