"""How a blocking class is derived from an async one.

    class Topics(Blocking[AsyncTopics]):
        create = blocking(AsyncTopics.create)

`Topics.create` has the parameters, the result and the docstring of `AsyncTopics.create`, for type
checkers and for `help()`; it runs that method on the client's loop and waits for its result. What
is written by hand in the classes of this package does something else than the async method: it
serves a message without a switch of threads, or takes a blocking object where the async method
takes an async one.
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from goqueue.client.sync.loop_thread import LoopThread


class AsyncBlock(Protocol):
    """Something to be used in `async with`."""

    async def __aenter__(self) -> Any:
        """Begin."""

    async def __aexit__(self, kind: type[BaseException] | None, *_exc: object) -> None:
        """End; with the class of the exception that leaves the block."""


_P = ParamSpec("_P")
_T = TypeVar("_T")
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
