"""Running one call of a task: asynchronous ones on the event loop, others in a thread, in time."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.worker.errors import Interrupted, StuckTaskError, TimeLimitExceeded
from goqueue.worker.threads import InterruptibleCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor
    from inspect import BoundArguments
    from types import TracebackType

    from goqueue.worker.task import Task

GRACE_S: Final = 5.0
"""A task that was interrupted at its time limit has so long to end, or its process is replaced."""
_OURS: Final = ("goqueue.worker.", "asyncio.", "concurrent.futures.")
_STOP_GRACE_S: Final = 1.0
"""The same for one that was interrupted because its worker stops."""


async def execute(
    task: Task[Any, Any], arguments: BoundArguments, threads: Executor, grace_s: float = GRACE_S
) -> None:
    """Run a task to its end. Raises what the task raises.

    Raises:
        TimeLimitExceeded: it took too long, and was interrupted.
        StuckTaskError: it took too long, and does not end.
    """
    work, interrupt = _started(task, arguments, threads)
    work.add_done_callback(_retrieve)
    try:
        await asyncio.wait({work}, timeout=task.time_limit_s)
    except asyncio.CancelledError:
        interrupt(Interrupted)
        await asyncio.wait({work}, timeout=_STOP_GRACE_S)
        raise
    if work.done():
        return _raise_error_of(work)
    interrupt(TimeLimitExceeded)
    await asyncio.wait({work}, timeout=grace_s)
    if not work.done():
        raise StuckTaskError(
            f"the time limit of {task.time_limit_s:g} s was exceeded, and {grace_s:g} s later the "
            "task had not ended"
        )
    if work.cancelled() or work.exception() is not None:
        raise TimeLimitExceeded(f"the time limit of {task.time_limit_s:g} s was exceeded")
    return None


def _started(
    task: Task[Any, Any], arguments: BoundArguments, threads: Executor
) -> tuple[asyncio.Future[Any], Callable[[type[BaseException]], None]]:
    """The running call, and what interrupts it."""
    function = partial(task.function, *arguments.args, **arguments.kwargs)
    if task.is_async:
        coroutine = asyncio.create_task(_awaited(function))

        def cancel(_kind: type[BaseException]) -> None:
            coroutine.cancel()

        return coroutine, cancel
    call = InterruptibleCall(partial(copy_context().run, _called, function))
    return asyncio.get_running_loop().run_in_executor(threads, call), call.interrupt


def _called(function: Callable[[], Any]) -> None:
    try:
        function()
    except SystemExit as error:
        raise RuntimeError(f"the task called sys.exit({error.code})") from error


async def _awaited(function: Callable[[], Any]) -> None:
    try:
        await function()
    except SystemExit as error:  # it would end the event loop
        raise RuntimeError(f"the task called sys.exit({error.code})") from error


def task_traceback(error: BaseException) -> TracebackType | None:
    """Where an error was raised, from the task on."""
    found = error.__traceback__
    while found is not None and found.tb_frame.f_globals.get("__name__", "").startswith(_OURS):
        found = found.tb_next
    return found


def _raise_error_of(work: asyncio.Future[Any]) -> None:
    if work.cancelled():  # by the task itself: nobody else has
        raise RuntimeError("the task cancelled itself")
    work.result()


def _retrieve(work: asyncio.Future[Any]) -> None:
    """So that asyncio does not complain of errors that nobody waits for any more."""
    if not work.cancelled():
        work.exception()
