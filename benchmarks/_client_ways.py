"""What the clients that are compared have in common."""

from __future__ import annotations

import asyncio
import time
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

T = TypeVar("T")

VALUE_BYTES: Final = 100
VALUES: Final = [b"%0*d" % (VALUE_BYTES, number) for number in range(10_000)]
"""What is published over and over, each an object of its own."""


def values(count: int) -> Iterator[bytes]:
    """So many of them, one by one."""
    return islice(cycle(VALUES), count)


def taken(started: float, cpu_s: float) -> dict[str, Any]:
    """The seconds since then, and the processor time of this process."""
    return {
        "seconds": time.perf_counter() - started,
        "cpu_s": time.process_time() - cpu_s,
    }


def run_async(work: Coroutine[object, object, T]) -> T:
    """Run it on the event loop that a program which wants to be fast has."""
    try:
        import uvloop  # noqa: PLC0415 - there is none for Windows
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
