"""Where batches are opened: small ones at once, large ones in a thread, one after the other.

A batch that opens to tens of megabytes takes hundreds of milliseconds, and as much memory again.
The event loop must not wait for it, and several at a time must not fill the memory.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from goqueue.model.errors import BatchTooLargeError
from goqueue.records.opening import SMALL, Room
from goqueue.runtime.tasks import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable


_T = TypeVar("_T")


class BatchOpener:
    """Runs what opens batches where it holds up nobody."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="open")

    async def run(self, work: Callable[[Room | None], _T]) -> _T:
        """Do `work` in the room that it is given; None is all that a batch may take.

        It is tried here in little room first. What raises `BatchTooLargeError` there is done again
        in the thread, so `work` changes nothing before it has opened the batch.
        """
        try:
            return work(SMALL)
        except BatchTooLargeError:
            return await self.run_large(partial(work, None))

    def has_done(self, work: Callable[[Room | None], object]) -> bool:
        """Do `work` here if it fits into little room; otherwise it is for `run_large`."""
        try:
            work(SMALL)
        except BatchTooLargeError:
            return False
        return True

    async def run_large(self, work: Callable[[], _T]) -> _T:
        """Do what is known to be large in the thread, after whatever waits for it already."""
        return await in_thread(self._thread, work)

    def close(self) -> None:
        """Wait for what is under way."""
        self._thread.shutdown()
