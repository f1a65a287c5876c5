"""Running one task: its errors are its own, and its time limit holds in threads and on the loop."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from goqueue import App, TimeLimitExceeded
from goqueue.worker.errors import Interrupted, StuckTaskError
from goqueue.worker.execution import execute, task_traceback
from goqueue.worker.threads import InterruptibleCall

if TYPE_CHECKING:
    from collections.abc import Callable

WAIT_S = 60
SHORT_S = 0.02


def ran(function: Callable[..., Any], *args: Any, grace_s: float = WAIT_S, **options: Any) -> None:
    task = App("test").task(**options)(function)

    async def main() -> None:
        bound = task.arguments.decode(task.arguments.encode(args, {}))
        await asyncio.wait_for(execute(task, bound, threads, grace_s), WAIT_S)

    with ThreadPoolExecutor(1) as threads:
        asyncio.run(main())


def spin(until: threading.Event) -> None:
    """What Python code does for a long time."""
    while not until.is_set():
        until.wait(0.001)


def test_a_task_runs_in_a_thread_or_on_the_loop() -> None:
    seen = []

    def plain(word: str) -> None:
        seen.append((word, threading.current_thread() is threading.main_thread()))

    async def awaited(word: str) -> None:
        await asyncio.sleep(0)
        seen.append((word, threading.current_thread() is threading.main_thread()))

    ran(plain, "a")
    ran(awaited, "b", time_limit=WAIT_S)
    assert seen == [("a", False), ("b", True)]


def fails() -> None:
    raise LookupError("mine")


async def fails_async() -> None:
    raise LookupError("mine")


@pytest.mark.parametrize("function", [fails, fails_async])
@pytest.mark.parametrize("limit", [None, WAIT_S])
def test_an_error_is_the_tasks_own_from_its_own_line_on(function, limit) -> None:
    with pytest.raises(LookupError, match="mine") as caught:
        ran(function, **({} if limit is None else {"time_limit": limit}))
    error = caught.value
    error.__traceback__ = caught.tb.tb_next.tb_next  # without the frames of this test
    while "goqueue" not in error.__traceback__.tb_frame.f_code.co_filename:
        error.__traceback__ = error.__traceback__.tb_next
    (frame,) = traceback.extract_tb(task_traceback(error))
    assert frame.name == function.__name__


def exits() -> None:
    sys.exit(3)


async def exits_async() -> None:
    sys.exit(3)


@pytest.mark.parametrize("function", [exits, exits_async])
def test_a_task_that_exits_fails_and_its_process_goes_on(function) -> None:
    with pytest.raises(RuntimeError, match=r"sys.exit\(3\)"):
        ran(function)


def test_a_task_that_cancels_itself_fails() -> None:
    async def cancels() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="cancelled itself"):
        ran(cancels)


def test_a_time_limit_interrupts_a_thread_past_what_catches_errors() -> None:
    cleaned = []

    def careless() -> None:
        try:
            while True:
                try:
                    spin(threading.Event())
                except Exception:  # noqa: BLE001 - the point of the test
                    cleaned.append("caught")
        finally:
            cleaned.append("finally")

    with pytest.raises(TimeLimitExceeded, match=r"time limit of 0\.02 s"):
        ran(careless, time_limit=SHORT_S)
    assert cleaned == ["finally"]


def test_a_time_limit_cancels_a_coroutine() -> None:
    cleaned = []

    async def careful() -> None:
        try:
            await asyncio.sleep(WAIT_S)
        finally:
            cleaned.append("finally")

    with pytest.raises(TimeLimitExceeded):
        ran(careful, time_limit=SHORT_S)
    assert cleaned == ["finally"]


def test_a_task_that_ends_in_spite_of_its_interruption_has_succeeded() -> None:
    def stubborn() -> None:
        with suppress(TimeLimitExceeded):
            spin(threading.Event())

    ran(stubborn, time_limit=SHORT_S)


def test_a_task_that_does_not_end_is_reported() -> None:
    may_end = threading.Event()

    def blocked() -> None:
        may_end.wait(WAIT_S)  # inside C code: no exception is raised in it

    async def shielded() -> None:
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.001)

    with ThreadPoolExecutor(1) as threads:

        async def main() -> None:
            for function in (blocked, shielded):
                task = App("test").task(time_limit=SHORT_S)(function)
                with pytest.raises(StuckTaskError, match="had not ended"):
                    await execute(task, task.arguments.decode(b"{}"), threads, SHORT_S)
            may_end.set()

        asyncio.run(main())


def test_a_worker_that_stops_interrupts_what_it_does_not_wait_for() -> None:
    began, ended = threading.Event(), []

    def plain() -> None:
        try:
            began.set()
            spin(threading.Event())
        except Interrupted as error:
            ended.append(type(error))
            raise

    with ThreadPoolExecutor(1) as threads:

        async def main() -> None:
            task = App("test").task(plain)
            running = asyncio.create_task(execute(task, task.arguments.decode(b"{}"), threads))
            await asyncio.to_thread(began.wait)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

        asyncio.run(main())
    assert ended == [Interrupted]


def test_nothing_is_raised_in_a_thread_after_its_call() -> None:
    """A thread goes on with other tasks: what was meant for one must not reach the next."""
    survived = 0

    def short() -> int:
        return sum(range(50))

    with ThreadPoolExecutor(1) as threads:
        for _ in range(2000):
            call = InterruptibleCall(short)
            future = threads.submit(call)
            call.interrupt(TimeLimitExceeded)
            try:
                survived += future.result(WAIT_S) == 1225
            except TimeLimitExceeded:
                survived += 1
            assert threads.submit(short).result(WAIT_S) == 1225
    assert survived == 2000
