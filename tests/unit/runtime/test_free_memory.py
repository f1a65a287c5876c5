"""Freed memory goes back to the system when there is enough of it."""

from __future__ import annotations

import asyncio
import platform

import pytest

from goqueue.runtime.free_memory import WORTH_BYTES, FreeMemory, release_free_memory
from goqueue.runtime.process import read_resident_bytes
from support.alone import alone

BEFORE = 100 << 20


def test_memory_is_given_back_when_much_is_unused_and_not_again_for_what_cannot_be() -> None:
    unused = [BEFORE, BEFORE + WORTH_BYTES - 1, BEFORE + WORTH_BYTES]
    after = [BEFORE + WORTH_BYTES - 10, BEFORE + WORTH_BYTES, BEFORE + 2 * WORTH_BYTES, BEFORE]
    readings = iter([*unused, *after])
    released: list[int] = []
    memory = FreeMemory(lambda: next(readings), lambda: released.append(1))

    async def scenario() -> list[int]:
        counts = []
        for _ in range(5):
            await memory.look()
            counts.append(len(released))
        return counts

    assert asyncio.run(scenario()) == [0, 0, 1, 1, 2]


def _free_what_was_in_use_at_a_look() -> None:
    size_bytes = 4 * WORTH_BYTES
    memory = FreeMemory()
    asyncio.run(memory.look())
    pieces = [bytes(60_000) for _ in range(size_bytes // 60_000)]
    pins = pieces[::50]
    asyncio.run(memory.look())
    held_bytes = read_resident_bytes() or 0
    del pieces
    asyncio.run(memory.look())
    given_bytes = held_bytes - (read_resident_bytes() or 0)
    assert given_bytes > size_bytes // 2, f"{given_bytes} bytes were given back"
    assert len(pins) > 1  # what is freed lies between blocks that are in use


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do not tell")
def test_memory_that_was_in_use_at_a_look_is_given_back_once_it_is_free() -> None:
    alone(_free_what_was_in_use_at_a_look)


def test_a_system_that_cannot_tell_is_left_alone() -> None:
    released: list[int] = []
    asyncio.run(FreeMemory(lambda: None, lambda: released.append(1)).look())
    assert released == []


def test_giving_memory_back_does_no_harm() -> None:
    release_free_memory()
    size_bytes = read_resident_bytes()
    assert size_bytes is None or size_bytes > 0
