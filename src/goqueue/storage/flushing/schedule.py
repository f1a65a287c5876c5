"""Flushes that are due some time later, of many logs, with one timer and a few threads.

A log that was appended to waits here for its interval. All logs that are due together are flushed
together: a few threads each take a portion, so that the disk has several syncs to join at a time,
and no portion holds more than a few files open. When many logs wait, they are flushed before their
time: each keeps a file open until then.

Where the disk can sync all files at once, that is done for a large group instead: a log of one
message is a new file in a new folder, and two syncs for each would make everybody wait who makes
files meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

from goqueue.model.errors import DiskError
from goqueue.model.limits import MAX_LOGS_AWAITING_FLUSH
from goqueue.storage.flushing.group import FlushGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from goqueue.storage.flushing.due import Due, Run

_T = TypeVar("_T")

PORTION: Final = 32
"""Logs that one thread flushes in one go, at most: each holds a file open until then."""
PORTIONS_AT_A_TIME: Final = 4
"""Portions under way at a time. Others wait, so that syncs which publishers wait for find a free
thread."""


MANY: Final = 64
"""Logs that are due together for which all files of the disk are synced at once. Fewer are synced
one by one, since others may have much more to write to the same disk."""
_EARLY: Final = 0.2
"""The last part of its interval in which a log is flushed together with one that is due."""


class FlushSchedule:
    """The logs of one event loop that wait to be flushed."""

    def __init__(
        self,
        executor: Executor | None = None,
        max_waiting: int = MAX_LOGS_AWAITING_FLUSH,
        sync_all: Callable[[], bool] | None = None,
    ) -> None:
        """Flush in `executor`; `sync_all` syncs all files at once and says whether it could."""
        self._executor = executor
        self.group = FlushGroup(executor)
        """Those that are to be flushed now, where logs share threads for that."""
        self._sync_all = sync_all
        self._max_waiting = max_waiting
        self._portion = max(1, min(PORTION, max_waiting // (2 * PORTIONS_AT_A_TIME)))
        self._waiting: OrderedDict[Due, tuple[float, float]] = OrderedDict()
        """From when on each may be flushed, and when it is due, on the clock of the loop."""
        self._logs: WeakKeyDictionary[Due, None] = WeakKeyDictionary()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_s = 0.0
        self._flushing: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """How many logs wait."""
        return len(self._waiting)

    def know(self, log: Due) -> None:
        """A log was opened; `flush_all` flushes it for as long as somebody holds it."""
        self._logs[log] = None

    def add(self, due: Due, delay_s: float) -> None:
        """Flush a log after so long at the latest; one that waits already keeps its time."""
        if due in self._waiting:
            return
        loop = asyncio.get_running_loop()
        due_s = loop.time() + delay_s
        self._waiting[due] = (due_s - _EARLY * delay_s, due_s)
        if self._flushing is not None:
            return  # what is left is looked at afterwards
        if len(self._waiting) > self._max_waiting:
            self._start()
        elif self._timer is None or due_s < self._timer_at_s:
            self._set_timer(due_s)

    def discard(self, due: Due) -> None:
        """A log is flushed by somebody else, or is gone."""
        self._waiting.pop(due, None)
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_s = due_s
        self._timer = asyncio.get_running_loop().call_at(due_s, self._start)

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush_due())

    async def _flush_due(self) -> None:
        try:
            await self.flush(self._take_due())
            while len(self._waiting) > self._max_waiting:
                await self.flush(self._take_due())
        finally:
            self._flushing = None
        if self._waiting:
            self._set_timer(min(due_s for _, due_s in self._waiting.values()))

    def _take_due(self) -> list[Due]:
        """Those whose time has come or nearly so; all, when there are too many."""
        now_s = asyncio.get_running_loop().time()
        crowded = len(self._waiting) > self._max_waiting
        due = [each for each, (from_s, _) in self._waiting.items() if crowded or from_s <= now_s]
        for each in due:
            del self._waiting[each]
        return due

    async def flush_all(self) -> None:
        """Flush every log that is known, now."""
        await self.flush(list(self._logs))

    async def flush(self, logs: Sequence[Due]) -> None:
        """Flush these logs now, and return when all of that is over."""
        for group in _portions(logs, self._max_waiting):
            begun = [run for each in group if (run := each.begin()) is not None]
            is_synced = len(begun) >= MANY and await self._in_thread(self._synced_all)
            await self._finish(begun, is_synced=is_synced)

    def _synced_all(self) -> bool:
        """Whether all files are on the disk now; if something was refused, each log finds out."""
        try:
            return self._sync_all is not None and self._sync_all()
        except DiskError:
            return False

    async def _finish(self, begun: Sequence[Run], *, is_synced: bool) -> None:
        portions = _portions(begun, self._portion)

        async def work() -> None:
            for portion in portions:
                endings = await self._in_thread(lambda runs: [r(is_synced) for r in runs], portion)
                for end in endings:
                    end()

        await asyncio.gather(*(work() for _ in range(PORTIONS_AT_A_TIME)))

    async def _in_thread(self, work: Callable[..., _T], *given: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, *given)


def _portions(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    return iter([items[at : at + size] for at in range(0, len(items), size)])
