"""A producer or a consumer of a work queue, in a process of its own (see `_client.py`)."""

from __future__ import annotations

import asyncio
import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from benchmarks._client import serve_calls
from benchmarks._queue_board import Board
from benchmarks._queue_system import Feed, System, Tally

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def pid() -> int:
    """For who wants to know what this process uses."""
    return os.getpid()


def prepare(way: str, address: str, topic: str) -> None:
    """Make the queue."""
    _run(_system(way, address).prepare(topic))


def produce(way: str, address: str, topic: str, board: str, rate: float | None) -> int:
    """Publish until the board says to stop; how many messages that were."""
    feed = Feed(Board(Path(board)), rate)
    _run(_system(way, address).produce(topic, feed))
    return feed.sent


def consume(way: str, address: str, topic: str, board: str, consumer: int) -> None:
    """Acknowledge until all is done, and leave what was seen beside the board."""
    tally = Tally(Board(Path(board)), consumer)
    _run(_system(way, address).consume(topic, tally))
    tally.save(Path(board).parent)


def left(way: str, address: str, topic: str) -> int:
    """How many messages are not acknowledged."""
    return _run(_system(way, address).left(topic))


def _system(way: str, address: str) -> System:
    module, _, name = way.partition(":")
    made: System = getattr(importlib.import_module(f"benchmarks.{module}"), name)(address)
    return made


def _run(work: Coroutine[object, object, T]) -> T:
    try:
        import uvloop  # noqa: PLC0415 - there is none for Windows
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


if __name__ == "__main__":
    serve_calls({each.__name__: each for each in (pid, prepare, produce, consume, left)})
