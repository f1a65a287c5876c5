"""Coroutines that are run up to where they wait, and go on in a task."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from goqueue.runtime.tasks import Begun, deadline

if TYPE_CHECKING:
    from collections.abc import Callable


async def _waits(future: asyncio.Future[int], seen: list[str]) -> int:
    seen.append("begun")
    try:
        return await future
    except asyncio.CancelledError:
        seen.append("cancelled")
        raise
    finally:
        await asyncio.sleep(0)
        seen.append("ended")


async def _returns() -> int:
    return 7


async def _raises() -> int:
    raise KeyError("k")


def test_what_does_not_wait_is_through_at_once() -> None:
    begun = Begun(_returns())
    assert begun.is_done
    assert begun.result == 7


def test_what_it_raises_is_raised_at_once() -> None:
    with pytest.raises(KeyError):
        Begun(_raises())


def test_what_waits_goes_on_where_it_was() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        seen: list[str] = []
        begun = Begun(_waits(future, seen))
        assert seen == ["begun"]
        assert not begun.is_done
        task = asyncio.ensure_future(begun)
        await asyncio.sleep(0)
        future.set_result(3)
        assert await task == 3
        assert seen == ["begun", "ended"]

    asyncio.run(main())


def test_what_is_waited_for_may_be_over_before_anybody_awaits() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        begun = Begun(_waits(future, []))
        future.set_result(4)
        assert await begun == 4

    asyncio.run(main())


def test_an_error_of_what_it_waits_for_reaches_it() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        begun = Begun(_waits(future, []))
        future.set_exception(KeyError("k"))
        with pytest.raises(KeyError):
            await begun

    asyncio.run(main())


def test_cancelling_reaches_it() -> None:
    async def main() -> None:
        seen: list[str] = []
        task = asyncio.ensure_future(
            Begun(_waits(asyncio.get_running_loop().create_future(), seen))
        )
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == ["begun", "cancelled", "ended"]

    asyncio.run(main())


async def _waits_with_a_deadline(future: asyncio.Future[int], seconds: float) -> int:
    async with deadline(seconds):
        return await future


def test_a_deadline_counts_in_its_first_step_as_well() -> None:
    async def main() -> None:
        future = asyncio.get_running_loop().create_future()
        in_time: Begun[int] = await _outside_of_tasks(
            lambda: Begun(_waits_with_a_deadline(future, 60))
        )
        late: Begun[int] = await _outside_of_tasks(
            lambda: Begun(_waits_with_a_deadline(asyncio.Future(), 0.01))
        )
        future.set_result(5)
        assert await in_time == 5
        with pytest.raises(TimeoutError):
            await late

    asyncio.run(main())


async def _outside_of_tasks(make: Callable[[], Begun[int]]) -> Begun[int]:
    """Make it as a connection does, which is called by the event loop."""
    made: asyncio.Future[Begun[int]] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(lambda: made.set_result(make()))
    return await made
