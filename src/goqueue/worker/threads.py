"""A call in a thread, into which an exception can be raised.

CPython delivers such an exception before the next bytecode of the thread: not while it waits inside
C code, such as a `recv` or a `sleep`.
"""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class InterruptibleCall:
    """Call it once. No exception is raised in the thread after the call has ended."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        """While the function runs."""
        self._is_interrupted = False

    def __call__(self) -> Any:
        """Call the function."""
        with self._lock:
            self._thread_id = threading.get_ident()
        try:
            return self._function()
        finally:
            # An exception that arrives in here ends the call like one that arrives before it.
            with self._lock:
                self._thread_id = None
                _set_exception(threading.get_ident(), None)

    def interrupt(self, kind: type[BaseException]) -> None:
        """Raise an exception in the thread, if the function runs and this is the first time."""
        with self._lock:
            if self._thread_id is not None and not self._is_interrupted:
                self._is_interrupted = True
                _set_exception(self._thread_id, kind)


def _set_exception(thread_id: int, kind: type[BaseException] | None) -> None:
    """The exception that a thread is to raise next; None takes back one that it has not raised."""
    value = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), value)
