"""Time of the event loop is counted, whatever a coroutine does."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from goqueue.protocols.kafka.throttling import BusyTime
from goqueue.quotas.client_meter import ClientMeter
from goqueue.quotas.token_bucket import TokenBucket


def busy(rate: float = 1e-9) -> tuple[BusyTime, list[float]]:
    waits: list[float] = []
    bucket = TokenBucket(rate, 0.0)
    peer: Any = SimpleNamespace(throttle=waits.append)
    return BusyTime(peer, ClientMeter("user 'a'", lambda: 0.0, busy_s=bucket)), waits


def test_every_step_of_a_coroutine_is_counted_and_its_result_kept() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "done"

    async def run() -> str:
        return await timed.of(work())

    timed, waits = busy()
    assert asyncio.run(run()) == "done"
    assert len(waits) == 3
    assert waits == sorted(waits)


def test_errors_go_through_and_cancelling_reaches_the_coroutine() -> None:
    seen = []

    async def failing() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def waiting() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def run() -> None:
        with pytest.raises(ValueError, match="no"):
            await timed.of(failing())
        task = asyncio.ensure_future(timed.of(waiting()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    timed, _ = busy()
    asyncio.run(run())
    assert seen == ["cancelled"]


def test_a_share_that_is_large_enough_makes_nobody_wait() -> None:
    timed, waits = busy(rate=1000.0)
    with timed:
        sum(range(1000))
    assert waits == []
