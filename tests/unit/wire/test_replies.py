"""Answers that are still to come: told at once, once, and also to one who waits in a task."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from goqueue.wire.kafka.replies import Reply


def test_the_reader_is_called_in_the_step_in_which_the_answer_is_known() -> None:
    reply: Reply[int] = Reply()
    seen: list[int] = []
    reply.add_done_callback(lambda known: seen.append(known.result()))
    assert not reply.done()
    reply.set_result(7)
    assert (seen, reply.done(), reply.exception()) == ([7], True, None)


def test_a_reader_that_comes_late_is_called_at_once() -> None:
    reply: Reply[int] = Reply()
    reply.set_exception(ValueError("no"))
    seen: list[BaseException | None] = []
    reply.add_done_callback(lambda known: seen.append(known.exception()))
    assert isinstance(seen[0], ValueError)
    with pytest.raises(ValueError, match="no"):
        reply.result()


def test_what_is_not_known_cannot_be_read() -> None:
    with pytest.raises(asyncio.InvalidStateError):
        Reply[int]().result()


def test_cancelling_tells_the_reader_and_comes_too_late_for_an_answer() -> None:
    reply: Reply[int] = Reply()
    seen: list[bool] = []
    reply.add_done_callback(lambda known: seen.append(known.cancelled()))
    reply.cancel()
    assert seen == [True]
    with pytest.raises(asyncio.CancelledError):
        reply.result()
    answered: Reply[int] = Reply()
    answered.set_result(1)
    answered.cancel()
    assert answered.result() == 1


def test_a_task_may_wait_beside_the_reader() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        seen: list[int] = []
        reply: Reply[int] = Reply()
        reply.add_done_callback(lambda known: seen.append(known.result()))
        future = reply.as_future()
        loop.call_soon(reply.set_result, 3)
        assert await future == 3
        assert seen == [3]
        refused: Reply[int] = Reply()
        loop.call_soon(refused.set_exception, ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            await refused
        given_up: Reply[int] = Reply()
        loop.call_soon(given_up.cancel)
        with pytest.raises(asyncio.CancelledError):
            await given_up.as_future()

    asyncio.run(scenario())


def test_readers_are_called_in_the_order_in_which_they_were_named() -> None:
    reply: Reply[int] = Reply()
    seen: list[tuple[str, int]] = []

    def read(name: str, known: Reply[int]) -> None:
        seen.append((name, known.result()))

    for name in ("first", "second", "third"):
        reply.add_done_callback(partial(read, name))
    reply.set_result(7)
    assert seen == [("first", 7), ("second", 7), ("third", 7)]
