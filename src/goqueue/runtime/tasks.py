"""Passes that run every so often until they are told to stop; work in threads; turns for long work.

A pass that fails is logged and tried again at its next turn; it ends neither itself nor another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Executor

logger = logging.getLogger(__name__)

Pass: TypeAlias = Callable[[], Awaitable[object]]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]
_T = TypeVar("_T")


class PeriodicTasks:
    """Several passes, each in a task of its own with its own interval."""

    def __init__(self, sleep: Sleep = asyncio.sleep) -> None:
        """Wait with `sleep`, which a test can let go at its own pace."""
        self._sleep = sleep
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, interval_s: float | Callable[[], float], work: Pass) -> None:
        """Run `work` each time that the interval is over, the first time after one interval.

        The interval counts from the end of a pass, so a slow one never runs beside itself. One that
        may change is given as a function, which is asked before each wait.
        """
        task = asyncio.create_task(self._repeat(name, interval_s, work), name=name)
        self._tasks.add(task)

    async def _repeat(self, name: str, interval_s: float | Callable[[], float], work: Pass) -> None:
        while True:
            wait_s = interval_s() if callable(interval_s) else interval_s
            await self._sleep(wait_s)
            try:
                await work()
            except Exception:
                logger.exception("%s failed, retrying in %g s", name, wait_s)

    async def stop(self) -> None:
        """Cancel every pass and wait until each has put down what it held."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()


async def in_thread(
    executor: Executor, work: Callable[[], _T], on_cancel: Callable[[], None] | None = None
) -> _T:
    """Run `work` in a thread. Whoever is cancelled meanwhile still waits for the thread to end.

    So nothing that the caller holds is let go while the thread works on it; `on_cancel` can ask
    the thread to hurry.
    """
    running = asyncio.get_running_loop().run_in_executor(executor, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        await asyncio.wait((running,))
        if not running.cancelled():
            running.exception()  # seen, so that the loop does not complain of it later
        raise


async def in_portions(
    items: Sequence[_T],
    size: int,
    work: Callable[[Sequence[_T]], Awaitable[None]],
    at_a_time: int,
) -> None:
    """Give the items to `work` in portions of a size, several portions at a time."""
    portions = iter([items[at : at + size] for at in range(0, len(items), size)])

    async def some() -> None:
        for portion in portions:
            await work(portion)

    await asyncio.gather(*(some() for _ in range(at_a_time)))


@asynccontextmanager
async def deadline(seconds: float) -> AsyncIterator[asyncio.Timeout]:
    """`asyncio.timeout`, also in the first step of a `Begun`: that has no task before it waits.

    Raises:
        TimeoutError: the block has not ended within so many seconds.
    """
    if asyncio.current_task() is None:
        await asyncio.sleep(0)
    async with asyncio.timeout(seconds) as timeout:
        yield timeout


class Begun(Generic[_T]):
    """A coroutine that was run up to where it waits for something; most are through by then.

    Whoever awaits this goes on from there. The coroutine may ask for its task only behind that: on
    its way there, `deadline` takes the place of `asyncio.timeout`.
    """

    __slots__ = ("_coroutine", "_waits_for", "is_done", "result")

    result: _T
    """What it returned, once it is done."""

    def __init__(self, coroutine: Coroutine[Any, None, _T]) -> None:
        """Run it. Raises what it raises."""
        self._coroutine = coroutine
        self.is_done = False
        try:
            self._waits_for = coroutine.send(None)
        except StopIteration as returned:
            self.is_done, self.result = True, returned.value

    def __await__(self) -> Generator[Any, None, _T]:
        coroutine, waits_for = self._coroutine, self._waits_for
        while True:
            try:
                try:
                    yield waits_for
                except BaseException as error:  # noqa: BLE001 - it is for the coroutine to handle
                    waits_for = coroutine.throw(error)
                else:
                    waits_for = coroutine.send(None)
            except StopIteration as returned:
                return returned.value  # type: ignore[no-any-return]  # of the coroutine's type


class Turns:
    """Lets one piece of long work run at a time, whoever has it to do.

    Without this, pieces that became due together would run one after the other before the loop
    turned, and everybody else would wait for all of them.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn; the block is the piece, and awaits nothing."""
        async with self._lock:
            yield
            await asyncio.sleep(0)
