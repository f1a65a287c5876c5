"""Freed memory goes back to the system when there is enough of it."""

from __future__ import annotations

import asyncio

from goqueue.runtime.free_memory import WORTH_BYTES, FreeMemory, release_free_memory
from goqueue.runtime.process import read_resident_bytes

BEFORE = 100 << 20


def test_memory_is_given_back_when_the_process_has_grown_and_not_again_for_what_is_used() -> None:
    sizes = [BEFORE, BEFORE + WORTH_BYTES - 1, BEFORE + WORTH_BYTES]
    after = [BEFORE + WORTH_BYTES - 10, BEFORE + WORTH_BYTES, BEFORE + 2 * WORTH_BYTES, BEFORE]
    readings = iter([*sizes, *after])
    released: list[int] = []
    memory = FreeMemory(lambda: next(readings), lambda: released.append(1))

    async def scenario() -> list[int]:
        counts = []
        for _ in range(5):
            await memory.look()
            counts.append(len(released))
        return counts

    assert asyncio.run(scenario()) == [0, 0, 1, 1, 2]


def test_a_system_that_cannot_tell_is_left_alone() -> None:
    released: list[int] = []
    asyncio.run(FreeMemory(lambda: None, lambda: released.append(1)).look())
    assert released == []


def test_giving_memory_back_does_no_harm() -> None:
    release_free_memory()
    size_bytes = read_resident_bytes()
    assert size_bytes is None or size_bytes > 0
