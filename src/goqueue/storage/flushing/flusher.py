"""When appended batches reach the disk: the contract, and the two ways to keep it.

`always`    an acknowledged append is on the disk. Many appends that wait share one fdatasync.
`interval`  an acknowledged append is in the operating system's cache, and on the disk at most one
            interval later. Killing the process loses nothing; a power cut may lose the interval.
`never`     an acknowledged append is in the operating system's cache, which decides when to write.
            Sealed segments are still synced, so that recovery never has to doubt them.

Under the last two, an append that makes `flush_messages` unsynced records waits as under `always`.

Whatever the policy, everything below `Log.flushed_offset` survives a power cut. Of what lies above
it the operating system may have written any part: what is whole is kept under its own offset, what
is torn at the end is cut off, and what is missing in between is reported and told to readers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from goqueue.model.errors import DiskError, LogFailedError, StorageError
from goqueue.storage.config import Fsync
from goqueue.storage.flushing.schedule import FlushSchedule

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor

    from goqueue.storage.flushing.due import End, Run
    from goqueue.storage.flushing.plan import FlushPlan
    from goqueue.storage.log import Log

_T = TypeVar("_T")


class Flusher:
    """Keeps the contract for one log on an event loop; the syncing happens in a thread."""

    def __init__(
        self,
        log: Log,
        executor: Executor | None = None,
        on_flushed: Callable[[], None] = lambda: None,
        on_synced: Callable[[float | None], None] = lambda _: None,
        schedule: FlushSchedule | None = None,
    ) -> None:
        """Flush `log` in `executor`, or in the loop's own threads; call back after each flush.

        `on_synced` is told how many seconds the disk took, or None when it refused. Flushes that
        nobody waits for are left to `schedule`, which many logs may share.
        """
        self._log = log
        self._store = log.store
        self._executor = executor
        self._on_flushed = on_flushed
        self._on_synced = on_synced
        self._schedule = FlushSchedule(executor) if schedule is None else schedule
        self._schedule.know(self)
        self._group = self._schedule.group if log.is_replica else None
        """Replicas are flushed together: each message makes one flush on every node."""
        self._running: asyncio.Future[StorageError | None] | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Those who wait for the disk, each with the offset that it waits for, the lowest first; as
        many as there are appends under way."""
        self._is_scheduled = False

    def durable(self, end_offset: int) -> asyncio.Future[None]:
        """Done when an append that ended at `end_offset` is as durable as the policy says.

        It fails with `LogFailedError` when the disk refuses: the append is not acknowledged.
        """
        if self.promises_sync(end_offset):
            return self.flush_to(end_offset)
        self.appended()
        return _done()

    def flush_to(self, end_offset: int) -> asyncio.Future[None]:
        """Done when everything below an offset is on the disk, whatever the policy says.

        It fails with `LogFailedError` when the disk refuses.
        """
        if self._store.flushed_offset >= end_offset:
            return _done()
        waiting = self._waiting
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        at = len(waiting)
        while at and waiting[at - 1][0] > end_offset:
            at -= 1
        waiting.insert(at, (end_offset, future))
        self._start_soon()
        return future

    def promises_sync(self, end_offset: int) -> bool:
        """Whether an append that ended at `end_offset` is acknowledged only from the disk."""
        config = self._log.config
        if config.fsync is Fsync.ALWAYS:
            return True
        return end_offset - self._store.flushed_offset >= config.flush_messages

    def appended(self) -> None:
        """Arrange, without waiting, for what was just appended to be flushed in time."""
        log = self._log
        config, store = log.config, self._store
        if (
            config.fsync is Fsync.ALWAYS
            or store.end_offset - store.flushed_offset >= config.flush_messages
            or store.checkpoint_due
        ):
            self._start_soon()
        elif not self._is_scheduled and config.fsync is Fsync.INTERVAL:
            self._is_scheduled = True
            self._schedule.add(self, config.fsync_interval_ms / 1000)

    async def flush(self) -> None:
        """Join the flush that is running, or start one; it may not cover the newest appends.

        Raises:
            LogFailedError: the disk refused this flush, or has not recovered from an earlier one.
        """
        await self._join(self._start())

    async def checkpoint(self) -> None:
        """Flush all that is appended now, and spare the next recovery from scanning it.

        Raises:
            LogFailedError: the disk refused, or an earlier refusal has not been recovered from.
        """
        await self.settle()  # two flushes of one log would not know of each other
        await self._join(self._start(checkpoint=True))

    async def settle(self) -> None:
        """Wait until no flush is under way, and none can be before the caller awaits again."""
        while self._running is not None:
            await asyncio.shield(self._running)

    async def alone(self, work: Awaitable[None], then: Callable[[], _T]) -> _T:
        """Wait for `work` while no flush is under way; then do `then`, also when cancelled."""
        await self.settle()
        running = self._running = asyncio.get_running_loop().create_future()
        try:
            await work
        finally:
            try:
                result = then()
            finally:
                self._running = None
                running.set_result(None)
                self._go_on()
        return result

    def cut_off(self) -> None:
        """The log was cut: whoever waits is told that what they wait for may be gone.

        Other records will have those offsets, and would be taken for it when they are on the disk.
        """
        self._tell(LogFailedError("the log was cut"))

    @staticmethod
    async def _join(running: asyncio.Future[StorageError | None]) -> None:
        error = await asyncio.shield(running)
        if error is not None:
            raise LogFailedError(f"not on the disk: {error}") from error

    async def stop(self) -> None:
        """Let no flush begin by itself, and wait for one that is under way.

        Cancelling the wait leaves the flush alone: its thread would run on, and nobody would know.
        """
        self._is_scheduled = False
        self._schedule.discard(self)
        if self._group is not None and self._group.discard(self):
            self._start()
        await self.settle()

    # --- One flush -------------------------------------------------------------------------------

    def _start_soon(self) -> None:
        """A flush whose outcome `_tell` tells, together with others where that is cheaper."""
        if self._group is None:
            self._start()
        elif self._running is None:
            self._group.add(self)

    def _start(self, *, checkpoint: bool = False) -> asyncio.Future[StorageError | None]:
        """A flush of this log alone, in a thread of its own."""
        if self._running is None:
            flush = self._flush_alone(checkpoint=checkpoint)
            self._running = asyncio.get_running_loop().create_task(flush)
        return self._running

    async def _flush_alone(self, *, checkpoint: bool) -> StorageError | None:
        """One flush; why it failed is for everyone who waits for it, whatever happens since."""
        try:
            plan = self._log.plan_flush(checkpoint=checkpoint or self._log.checkpoint_due)
            run = partial(_run, plan)
            outcome = await asyncio.get_running_loop().run_in_executor(self._executor, run)
        except StorageError as error:
            self._running = None
            self._tell(error)
            return error
        except BaseException as error:
            self._running = None
            self._tell(error)
            raise
        return self._finished(plan, outcome)

    def begin(self) -> Run | None:
        """A flush together with other logs; see `Due`."""
        self._is_scheduled = False
        if self._running is not None or self._log.flushed_offset >= self._log.end_offset:
            return None  # whoever flushes it now arranges for what comes meanwhile
        try:
            plan = self._log.plan_flush(checkpoint=self._log.checkpoint_due)
        except StorageError as error:
            self._tell(error)  # it is failed or closed
            return None
        running = self._running = asyncio.get_running_loop().create_future()

        def run(is_synced: bool) -> End:  # noqa: FBT001 - the schedule says one thing to all
            try:
                outcome = _run(plan, is_synced=is_synced)
            except BaseException as error:  # noqa: BLE001 - whoever waits must not wait for ever
                return partial(self._broken, running, error)
            return lambda: running.set_result(self._finished(plan, outcome))

        return run

    def _broken(self, running: asyncio.Future[StorageError | None], error: BaseException) -> None:
        self._running = None
        self._tell(error)
        running.set_exception(error)

    def _finished(self, plan: FlushPlan, outcome: float | DiskError) -> StorageError | None:
        self._running = None
        if isinstance(outcome, DiskError):
            self._log.flush_failed(outcome)
            self._on_synced(None)
            self._tell(outcome)
            return outcome
        self._log.flushed(plan)
        self._on_synced(outcome)
        self._on_flushed()
        self._tell(None)
        self._go_on()
        return None

    def _tell(self, error: BaseException | None) -> None:
        """Tell those whose appends are on the disk; or all who wait, why they are not."""
        waiting, flushed = self._waiting, self._store.flushed_offset
        failure = error
        if isinstance(error, StorageError):
            failure = LogFailedError(f"not on the disk: {error}")
            failure.__cause__ = error
        while waiting and (failure is not None or waiting[0][0] <= flushed):
            future = waiting.popleft()[1]
            if future.done():
                continue  # whoever waited is gone
            if failure is None:
                future.set_result(None)
            else:
                future.set_exception(failure)
                future.exception()  # seen: nobody may be there to look at it

    def _go_on(self) -> None:
        """Arrange for what was appended during the flush: the policy holds for it, too.

        Such an append joined the flush that was running, which does not cover it.
        """
        if self._waiting:
            self._start_soon()
        elif self._log.flushed_offset < self._log.end_offset:
            self.appended()


def _done() -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_result(None)
    return future


def _run(plan: FlushPlan, *, is_synced: bool = False) -> float | DiskError:
    """Run a plan in a thread; returns the seconds that it took, or why the disk refused."""
    try:
        return plan.run(is_synced=is_synced)
    except DiskError as error:
        return error
