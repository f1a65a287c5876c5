"""An event loop on a thread of its own, which a program without asyncio calls into."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from goqueue.client.errors import ClientClosedError

if TYPE_CHECKING:
    from collections.abc import Coroutine

_T = TypeVar("_T")


def _new_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop where there is one."""
    try:
        import uvloop  # noqa: PLC0415 - there is none for Windows
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class LoopThread:
    """An event loop that runs in a thread, for callers in others."""

    def __init__(self) -> None:
        self.loop = _new_loop()
        self._thread = threading.Thread(target=self._run, name="goqueue client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def call(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run it on the loop and wait for its result; Ctrl-C cancels it."""
        if self.loop.is_closed() or not self._thread.is_alive():
            work.close()
            raise ClientClosedError("the client is closed: create another one")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the loop and its thread."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
