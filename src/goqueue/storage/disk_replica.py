"""A log on the disk that other nodes hold too, on an event loop: what is slow is in a thread."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from goqueue.model.errors import LogFailedError
from goqueue.runtime.tasks import in_thread
from goqueue.storage.disk_log import DiskLog, LogHost

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goqueue.runtime.clock import Clock
    from goqueue.storage.checkpoints.checkpoint import LogSummary
    from goqueue.storage.config import LogConfig
    from goqueue.storage.open_files import SharedFiles

_T = TypeVar("_T")


class DiskReplica(DiskLog):
    """A log that other nodes hold too. At one time, one thing is appended, noted or cut."""

    def __init__(
        self,
        folder: Path,
        config: LogConfig,
        host: LogHost,
        *,
        shared: SharedFiles,
        clock: Clock,
        summary: LogSummary | None = None,
    ) -> None:
        """Open the log in `folder`; what is damaged or missing there is cut off."""
        super().__init__(
            folder, config, host, shared=shared, clock=clock, summary=summary, is_replica=True
        )

    async def begin_epoch(self, epoch: int) -> None:
        """Note durably that a leader writes from the end on."""
        if epoch != self.epochs.latest:
            await in_thread(self._executor, partial(self.note_epoch, epoch))

    async def end_epochs(self) -> None:
        """Forget durably the epochs of leaders that wrote nothing."""
        if self.epochs.starts and self.epochs.starts[-1].start_offset >= self.end_offset:
            await in_thread(self._executor, self.forget_epochs)

    async def truncate(self, end_offset: int, rebuild: Callable[[], _T]) -> _T | None:
        """Cut the log and let its owner `rebuild` what it knows of it, in a thread.

        None when there is nothing to cut, or the log is closed.
        """
        if end_offset >= self.end_offset:
            return None
        cut = partial(self.truncate_to, end_offset)
        return await self._cut_alone(cut, rebuild, self.flusher.cut_off)

    async def restart(self, offset: int, rebuild: Callable[[], _T]) -> _T | None:
        """Let go everything and go on empty at an offset; otherwise as `truncate`."""
        restart = partial(self.restart_at, offset)
        return await self._cut_alone(restart, rebuild, self.flusher.cut_off)

    async def _cut_alone(
        self,
        cut: Callable[[], object],
        rebuild: Callable[[], _T],
        then: Callable[[], None] = lambda: None,
    ) -> _T | None:
        """Cut while nothing else works on the files; what compaction has begun is called off."""
        if self._compaction is not None:
            self._compaction.cancel()
        async with self._upkeep, self._removing:
            if self._closed:
                return None
            if self.failure is not None:
                raise LogFailedError(f"it refuses to be cut: {self.failure}")
            if self._host.book is not None:
                self._host.book.forget(self.folder)
            rebuilt: list[_T] = []

            def work() -> None:
                cut()
                rebuilt.append(rebuild())

            await self.flusher.alone(in_thread(self._executor, work), then)
            return rebuilt[0]

    async def settle_patched(self, rebuild: Callable[[], _T]) -> _T | None:
        """Note what is still damaged, and `rebuild` from what is whole now."""
        return await self._cut_alone(self.settle_damage, rebuild)

    async def forgive(self) -> None:
        """Let what is damaged be, as the only copy of a log does."""
        await in_thread(self._executor, self.keep_damage)

    async def restore_whole(self, rebuild: Callable[[], _T]) -> _T | None:
        """`restore` of a log of which the disk has dropped nothing."""
        return await self.restore_by(self.rewrite_whole, rebuild)

    async def discard_unsynced(self, rebuild: Callable[[], _T]) -> _T | None:
        """Cut a failed log to what is on the disk, and `rebuild`, before it takes appends."""
        return await self.restore_by(self.cut_unsynced, rebuild)
