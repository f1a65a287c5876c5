"""Bytes that may be held at a time, and whose turn it is."""

from __future__ import annotations

import asyncio

from goqueue.runtime.byte_room import ByteRoom
from support.scenarios import scenario


def test_who_finds_no_room_is_called_in_order_when_there_is() -> None:
    room, called = ByteRoom(10), list[str]()
    first, second, third = room.part(), room.part(), room.part()
    assert first.take(6, lambda: called.append("first"))
    assert not second.take(5, lambda: called.append("second"))
    assert room.is_full
    assert not third.take(1, lambda: called.append("third")), "it would overtake"
    assert room.held_bytes == 6
    first.close()
    assert called == ["second", "third"]
    assert (room.held_bytes, room.is_full) == (6, False)
    second.close()
    third.close()
    assert room.held_bytes == 0


def test_what_is_larger_than_the_room_has_it_for_itself() -> None:
    room, called = ByteRoom(10), list[str]()
    small, large, later = room.part(), room.part(), room.part()
    assert small.take(1, lambda: None)
    assert not large.take(50, lambda: called.append("large"))
    assert not later.take(1, lambda: called.append("later"))
    small.close()
    assert (called, room.held_bytes) == (["large"], 50)
    large.close()
    assert (called, room.held_bytes) == (["large", "later"], 1)


def test_who_goes_away_is_not_waited_for() -> None:
    room, called = ByteRoom(10), list[str]()
    first, gone, last = room.part(), room.part(), room.part()
    assert first.take(10, lambda: None)
    assert not gone.take(10, lambda: called.append("gone"))
    assert not last.take(2, lambda: called.append("last"))
    gone.close()
    assert not gone.take(1, lambda: called.append("gone"))
    first.close()
    assert (called, room.held_bytes) == (["last"], 2)


@scenario
async def test_a_block_begins_when_there_is_room_or_is_cancelled() -> None:
    room = ByteRoom(10)
    began: list[int] = []

    async def hold(number: int) -> None:
        async with room.holding(6):
            began.append(number)

    async with room.holding(6):
        tasks = [asyncio.ensure_future(hold(number)) for number in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.wait(tasks[:1])
        assert not began
    await asyncio.wait(tasks)
    assert began == [1, 2]
    assert room.held_bytes == 0
