"""Passes run at their intervals, outlive their failures, and stop when they are told to."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from goqueue.runtime.tasks import PeriodicTasks, in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Gate:
    """Stands in for sleep: a pass runs when the test lets it."""

    def __init__(self) -> None:
        self.asleep: asyncio.Queue[float] = asyncio.Queue()
        self._turns = asyncio.Semaphore(0)

    async def sleep(self, seconds: float) -> None:
        self.asleep.put_nowait(seconds)
        await self._turns.acquire()

    def open(self) -> None:
        """Let one interval pass."""
        self._turns.release()


def start(gate: Gate, work: Callable[[], Awaitable[object]]) -> PeriodicTasks:
    tasks = PeriodicTasks(gate.sleep)
    tasks.start("the pass", 60.0, work)
    return tasks


def test_a_pass_runs_once_after_each_interval() -> None:
    async def scenario() -> None:
        runs = []

        async def work() -> None:
            runs.append(None)

        gate = Gate()
        tasks = start(gate, work)
        for run_count in range(3):
            assert await gate.asleep.get() == 60.0
            assert len(runs) == run_count
            gate.open()
        await tasks.stop()

    asyncio.run(scenario())


def test_a_pass_that_fails_is_logged_and_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        runs = []

        async def work() -> None:
            runs.append(None)
            if len(runs) == 1:
                raise RuntimeError("broken")

        gate = Gate()
        tasks = start(gate, work)
        for run_count in range(3):
            await gate.asleep.get()
            assert len(runs) == run_count
            gate.open()
        await tasks.stop()

    with caplog.at_level(logging.ERROR):
        asyncio.run(scenario())
    (record,) = caplog.records
    assert record.getMessage() == "the pass failed, retrying in 60 s"


def test_stopping_cancels_a_pass_in_the_middle_and_waits_for_its_end() -> None:
    async def scenario() -> None:
        told: list[str] = []
        begun = asyncio.Event()

        async def work() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                told.append("put down")

        gate = Gate()
        tasks = start(gate, work)
        gate.open()
        await begun.wait()
        await tasks.stop()
        assert told == ["put down"]

    asyncio.run(scenario())


def test_a_cancelled_caller_still_waits_for_its_thread() -> None:
    async def scenario() -> None:
        begun, may_end = threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            may_end.wait()

        with ThreadPoolExecutor(1) as executor:
            caller = asyncio.create_task(in_thread(executor, work))
            await asyncio.to_thread(begun.wait)
            caller.cancel()
            for _ in range(10):
                await asyncio.sleep(0)
            assert not caller.done()
            may_end.set()
            with pytest.raises(asyncio.CancelledError):
                await caller

    asyncio.run(scenario())


def test_what_a_thread_returns_or_raises_reaches_the_caller() -> None:
    async def scenario() -> None:
        with ThreadPoolExecutor(1) as executor:
            assert await in_thread(executor, lambda: 7) == 7
            with pytest.raises(ZeroDivisionError):
                await in_thread(executor, lambda: 1 // 0)

    asyncio.run(scenario())


def test_an_interval_that_changes_is_asked_for_before_each_wait() -> None:
    async def scenario() -> None:
        intervals = iter((60.0, 5.0))

        async def work() -> None:
            pass

        gate = Gate()
        tasks = PeriodicTasks(gate.sleep)
        tasks.start("the pass", lambda: next(intervals), work)
        assert await gate.asleep.get() == 60.0
        gate.open()
        assert await gate.asleep.get() == 5.0
        await tasks.stop()

    asyncio.run(scenario())
