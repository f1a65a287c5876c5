"""What is asked of each system that is measured, and what it is given to do.

A system is a class with two loops, written as its users would write them: one that publishes what a
`Feed` hands out, and one that acknowledges what it receives and shows it to a `Tally`.
"""

from __future__ import annotations

import asyncio
import math
import struct
import time
from array import array
from itertools import count as counting
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from benchmarks._queue_board import Board

VALUE_BYTES: Final = 100
BACKLOG: Final = 10_000
"""How many messages the producer may be ahead of what has been acknowledged."""
CHUNK: Final = 100
"""How many messages a client is handed, or asks for, at a time, where it has to choose."""
WAIT_S: Final = 0.1
"""How long a consumer waits for messages before it looks whether there will be any more."""

_HEADER: Final = struct.Struct(">qq")
_PADDING: Final = bytes(VALUE_BYTES - _HEADER.size)
_PAUSE_S: Final = 0.001
_STUCK_S: Final = 20.0


class System(Protocol):
    """One way to have a work queue; made in each process, with the address of its server."""

    def __init__(self, address: str) -> None: ...

    async def prepare(self, topic: str) -> None:
        """Make the queue and its group of consumers."""

    async def produce(self, topic: str, feed: Feed) -> None:
        """Publish all chunks of the feed; return when the server has confirmed the last one."""

    async def consume(self, topic: str, tally: Tally) -> None:
        """Acknowledge each message, until the tally is done."""

    async def left(self, topic: str) -> int:
        """How many messages are not acknowledged, by the server's own account."""


class Feed:
    """The messages of one run, numbered, in chunks.

    Without a rate there is always a next chunk while fewer than `BACKLOG` messages wait. With one,
    each message carries the moment at which it was due, also when the producer is late: what a
    message has to wait for because the one before it had to wait counts.
    """

    def __init__(self, board: Board, rate: float | None) -> None:
        self.sent = 0
        self._board = board
        self._rate = rate

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        """The next messages, as soon as they may be sent."""
        rate = self._rate
        moments = self._as_fast_as_possible() if rate is None else self._at_rate(rate)
        async for due_ns in moments:
            first = self.sent
            self.sent += len(due_ns)
            yield [
                _HEADER.pack(number, moment) + _PADDING
                for number, moment in enumerate(due_ns, start=first)
            ]

    async def _as_fast_as_possible(self) -> AsyncIterator[list[int]]:
        while not self._board.is_stopped:
            if self.sent - self._board.acked > BACKLOG - CHUNK:
                await asyncio.sleep(_PAUSE_S)
                continue
            yield [time.perf_counter_ns()] * CHUNK

    async def _at_rate(self, rate: float) -> AsyncIterator[list[int]]:
        started = time.perf_counter_ns()
        step_ns = int(_PAUSE_S * 1e9)
        each = rate * _PAUSE_S
        for step in counting():
            if self._board.is_stopped:
                return
            due_at = started + step * step_ns
            await _until(due_at)
            due = int((step + 1) * each) - self.sent
            if due:
                yield [due_at] * due


async def _until(moment_ns: int) -> None:
    """Sleep in whole milliseconds: uvloop rounds, and takes less than half of one for none."""
    while (early_ns := moment_ns - time.perf_counter_ns()) > 0:  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(math.ceil(early_ns / 1e6) / 1000)


class Tally:
    """What one consumer has seen, and how long ago that had been sent."""

    def __init__(self, board: Board, consumer: int) -> None:
        self.name = f"consumer-{consumer}"
        self._board = board
        self._consumer = consumer
        self._acked = 0
        self._numbers = array("q")
        self._sent_ns = array("q")
        self._seen_ns = array("q")
        self._changed_at = time.monotonic()

    def ready(self) -> None:
        """Call it when messages that are published from now on will be seen."""
        self._board.ready(self._consumer)
        self._changed_at = time.monotonic()

    def see(self, values: Iterable[bytes]) -> None:
        """Note messages that the client has handed over just now."""
        now = time.perf_counter_ns()
        for value in values:
            number, sent_ns = _HEADER.unpack_from(value)
            self._numbers.append(number)
            self._sent_ns.append(sent_ns)
            self._seen_ns.append(now)

    def acked(self, count: int) -> None:
        """Note that so many of them are acknowledged."""
        self._acked += count
        self._board.count_acked(self._consumer, self._acked)
        self._changed_at = time.monotonic()

    @property
    def is_done(self) -> bool:
        """Whether there is nothing left; also when nothing has come for a long time."""
        return self._board.is_done or time.monotonic() - self._changed_at > _STUCK_S

    def save(self, folder: Path) -> None:
        """Leave the numbers and the times for who checks them."""
        for name, column in self._columns().items():
            (folder / f"{self.name}.{name}").write_bytes(column.tobytes())

    def _columns(self) -> dict[str, array[int]]:
        return {"numbers": self._numbers, "sent": self._sent_ns, "seen": self._seen_ns}


def load(folder: Path, name: str, column: str) -> array[int]:
    """A column that a consumer has saved."""
    found = array("q")
    found.frombytes((folder / f"{name}.{column}").read_bytes())
    return found
