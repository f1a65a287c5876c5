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
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.model.errors import DiskError, LogFailedError, StorageError
from goqueue.storage.config import Fsync

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Executor
    from pathlib import Path

    from goqueue.runtime.disk import Disk, DiskFile
    from goqueue.storage.checkpoint import CheckpointFile
    from goqueue.storage.log import Log
    from goqueue.storage.segment import Segment


@dataclass(frozen=True, slots=True)
class FlushPlan:
    """What has to reach the disk so that everything up to `end_offset` is there."""

    disk: Disk
    folder: Path
    end_offset: int
    marks: tuple[tuple[Segment, int], ...]
    """The segments to sync, and how long each is now."""
    files: tuple[DiskFile, ...]
    name_changes: int
    """How many files were made so far, when their names are not all durable; otherwise 0."""
    checkpoint: CheckpointFile | None
    recovery: Mapping[str, int]
    """The recovery point to note in the checkpoint once everything is there."""

    def run(self) -> float:
        """Do it; in any thread, while the log goes on. Returns how many seconds it took."""
        started_s = time.perf_counter()
        for file in self.files:
            file.sync()
        if self.name_changes:
            self.disk.sync_folder(self.folder)
        if self.checkpoint is not None:
            self.checkpoint.update(**self.recovery)
        return time.perf_counter() - started_s


class Flusher:
    """Keeps the contract for one log on an event loop; the syncing happens in a thread."""

    def __init__(
        self,
        log: Log,
        executor: Executor | None = None,
        on_flushed: Callable[[], None] = lambda: None,
        on_synced: Callable[[float | None], None] = lambda _: None,
    ) -> None:
        """Flush `log` in `executor`, or in the loop's own threads; call back after each flush.

        `on_synced` is told how many seconds the disk took, or None when it refused.
        """
        self._log = log
        self._executor = executor
        self._on_flushed = on_flushed
        self._on_synced = on_synced
        self._running: asyncio.Task[StorageError | None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def durable(self, end_offset: int) -> None:
        """Return when an append that ended at `end_offset` is as durable as the policy says.

        Raises:
            LogFailedError: the disk refused; the append is not acknowledged.
        """
        if not self.promises_sync(end_offset):
            self.appended()
            return
        while self._log.flushed_offset < end_offset:
            await self.flush()

    def promises_sync(self, end_offset: int) -> bool:
        """Whether an append that ended at `end_offset` is acknowledged only from the disk."""
        config = self._log.config
        if config.fsync is Fsync.ALWAYS:
            return True
        return end_offset - self._log.flushed_offset >= config.flush_messages

    def appended(self) -> None:
        """Arrange, without waiting, for what was just appended to be flushed in time."""
        if self._log.checkpoint_due or self.promises_sync(self._log.end_offset):
            self._start()
        elif self._log.config.fsync is Fsync.INTERVAL and self._timer is None:
            delay_s = self._log.config.fsync_interval_ms / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    async def flush(self) -> None:
        """Join the flush that is running, or start one; it may not cover the newest appends.

        Raises:
            LogFailedError: the disk refused this flush, or an earlier one has not been mended.
        """
        await self._join(self._start())

    async def checkpoint(self) -> None:
        """Flush all that is appended now, and spare the next recovery from scanning it.

        Raises:
            LogFailedError: the disk refused, or an earlier refusal has not been mended.
        """
        await self.settle()  # two flushes of one log would not know of each other
        await self._join(self._start(checkpoint=True))

    async def settle(self) -> None:
        """Wait until no flush is under way, and none can be before the caller awaits again."""
        while self._running is not None:
            await asyncio.shield(self._running)

    @staticmethod
    async def _join(running: asyncio.Task[StorageError | None]) -> None:
        error = await asyncio.shield(running)
        if error is not None:
            raise LogFailedError(f"not on the disk: {error}") from error

    async def stop(self) -> None:
        """Cancel the timer and wait for a flush that is under way.

        Cancelling the wait leaves the flush alone: its thread would run on, and nobody would know.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self.settle()

    def _on_timer(self) -> None:
        self._timer = None
        self._start()

    def _start(self, *, checkpoint: bool = False) -> asyncio.Task[StorageError | None]:
        if self._running is None:
            flush = self._flush_once(checkpoint=checkpoint)
            self._running = asyncio.get_running_loop().create_task(flush)
        return self._running

    async def _flush_once(self, *, checkpoint: bool) -> StorageError | None:
        """One flush; why it failed is for everyone who waits for it, whatever happens since."""
        log = self._log
        try:
            plan = log.plan_flush(checkpoint=checkpoint or log.checkpoint_due)
            took_s = await asyncio.get_running_loop().run_in_executor(self._executor, plan.run)
        except DiskError as error:
            log.flush_failed(error)
            self._on_synced(None)
            return error
        except StorageError as error:
            return error
        else:
            log.flushed(plan)
            self._on_synced(took_s)
            self._on_flushed()
        finally:
            self._running = None
        self._go_on()
        return None

    def _go_on(self) -> None:
        """Arrange for what was appended during the flush: the policy holds for it, too.

        Such an append joined the flush that was running, which does not cover it.
        """
        if self._log.flushed_offset < self._log.end_offset:
            self.appended()
