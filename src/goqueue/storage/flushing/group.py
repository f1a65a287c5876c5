"""Flushes that somebody waits for, of many logs, together in few threads.

Where the disk syncs a file in a tenth of a millisecond, most of what a flush costs is the way into
a thread and back. So everything that is wanted in one turn of the event loop goes into one thread,
and what is wanted meanwhile goes together afterwards. What was flushed together is told together: a
follower acknowledges ten partitions in one request then. Where the disk takes its time, several
threads let it join their syncs.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from goqueue.storage.flushing.due import Due, End, Run

PORTION: Final = 32
"""Logs that one thread flushes in one go, at most; the others wait for the next."""
THREADS: Final = 4
"""At a time, where the disk is slow."""
QUICK_S: Final = 0.001
"""A disk that syncs a file in less than this is given one thread."""
_WEIGHT: Final = 0.1
"""Of the last portion in the average time of a sync."""


class FlushGroup:
    """The logs of one event loop that are to be flushed now."""

    def __init__(self, executor: Executor | None = None) -> None:
        self._executor = executor
        self._wanted: dict[Due, None] = {}
        """Each once, so as many as there are logs."""
        self._running = 0
        self._is_due = False
        self._sync_s = 0.0

    def add(self, due: Due) -> None:
        """Flush a log at the end of this turn, or as soon as a thread is free."""
        self._wanted[due] = None
        if not self._is_due and self._running < self._threads:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._start)

    def discard(self, due: Due) -> bool:
        """Leave a log to somebody else; says whether it was to be flushed."""
        return due in self._wanted and self._wanted.pop(due) is None

    @property
    def _threads(self) -> int:
        return 1 if self._sync_s < QUICK_S else THREADS

    def _start(self) -> None:
        self._is_due = False
        while self._wanted and (free := self._threads - self._running) > 0:
            size = min(-(-len(self._wanted) // free), PORTION)
            portion = list(self._wanted)[:size]
            for each in portion:
                del self._wanted[each]
            runs = [run for each in portion if (run := each.begin()) is not None]
            if runs:
                self._running += 1
                loop = asyncio.get_running_loop()
                work = loop.run_in_executor(self._executor, _flushed, runs)
                work.add_done_callback(self._ended)

    def _ended(self, work: asyncio.Future[tuple[float, list[End]]]) -> None:
        self._running -= 1
        took_s, endings = work.result()  # a run catches what happens in it
        self._sync_s += _WEIGHT * (took_s / len(endings) - self._sync_s)
        try:
            for end in endings:
                end()
        finally:
            if self._wanted and not self._is_due:
                self._start()


def _flushed(runs: Sequence[Run]) -> tuple[float, list[End]]:
    """In a thread: flush one after the other; how long that took, and what to do on the loop."""
    began_s = time.perf_counter()
    endings = [run(False) for run in runs]  # noqa: FBT003 - see `Due`
    return time.perf_counter() - began_s, endings
