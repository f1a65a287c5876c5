"""Work that is done once for all who want it at the same time."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.runtime.shared_work import SharedWork
from support.waiting import until


class Work:
    """Counts its runs, each of which lasts until it is let go, and may fail."""

    def __init__(self) -> None:
        self.runs = 0
        self.error: Exception | None = None
        self.go = asyncio.Event()

    async def __call__(self) -> None:
        self.runs += 1
        await self.go.wait()
        if self.error is not None:
            raise self.error


def test_whoever_asks_waits_for_a_run_that_begins_later_and_all_share_it() -> None:
    async def scenario() -> None:
        work = Work()
        shared = SharedWork(work)
        first = asyncio.ensure_future(shared.done())
        await until(lambda: work.runs)
        others = [asyncio.ensure_future(shared.done()) for _ in range(50)]
        await asyncio.sleep(0)
        assert work.runs == 1
        work.go.set()
        await asyncio.gather(first, *others)
        assert work.runs == 2

    asyncio.run(scenario())


def test_all_who_wait_are_told_of_an_error_and_the_next_run_is_another_one() -> None:
    async def scenario() -> None:
        work = Work()
        work.error = ValueError("no")
        work.go.set()
        shared = SharedWork(work)
        told = await asyncio.gather(*(shared.done() for _ in range(3)), return_exceptions=True)
        assert told == [work.error] * 3
        work.error = None
        await shared.done()

    asyncio.run(scenario())


def test_one_who_gives_up_takes_nothing_from_the_others() -> None:
    async def scenario() -> None:
        work = Work()
        shared = SharedWork(work)
        one, other = (asyncio.ensure_future(shared.done()) for _ in range(2))
        await until(lambda: work.runs)
        one.cancel()
        work.go.set()
        await other
        with pytest.raises(asyncio.CancelledError):
            await one
        assert work.runs == 1

    asyncio.run(scenario())


def test_whoever_waits_when_it_is_stopped_waits_no_more() -> None:
    async def scenario() -> None:
        work = Work()
        shared = SharedWork(work)
        waiting = [asyncio.ensure_future(shared.done()) for _ in range(2)]
        await until(lambda: work.runs)
        waiting.append(asyncio.ensure_future(shared.done()))
        await asyncio.sleep(0)
        await shared.stop()
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in told)

    asyncio.run(scenario())
