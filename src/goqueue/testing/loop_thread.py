"""An event loop on a thread of its own, so that a test may block as much as it likes."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

_T = TypeVar("_T")


class LoopThread:
    """Runs coroutines that other threads hand to it, from `start` to `stop`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._stopping: asyncio.Event

    def start(self) -> None:
        """Start the thread; the loop turns when this returns.

        Whatever keeps it from turning is raised here.
        """
        turning: Future[None] = Future()
        # A daemon: a test that fails before its broker is closed must not hang the whole run.
        self._thread = threading.Thread(
            target=self._run, args=(turning,), name=self._name, daemon=True
        )
        self._thread.start()
        turning.result()

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Run a coroutine over there; the future has its result or its error."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def stop(self) -> None:
        """End the loop and wait for the thread; harmless when it does not run."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
            self._thread = None

    def _run(self, turning: Future[None]) -> None:
        try:
            from goqueue.server.process import loop_factory  # noqa: PLC0415 - imports the server

            runner = asyncio.Runner(loop_factory=loop_factory())
        except BaseException as error:  # noqa: BLE001 - whoever waits for the start has to know
            turning.set_exception(error)
            return
        with runner:
            runner.run(self._turn(turning))

    async def _turn(self, turning: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        turning.set_result(None)
        await self._stopping.wait()
