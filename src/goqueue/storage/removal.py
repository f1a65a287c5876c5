"""Removing the oldest segments of a log, with the slow steps apart from the writer's thread.

A large file takes the kernel tens of milliseconds to remove, and a log may lose thousands at once.
So only the step that changes the log in memory belongs to the writer; the other two wait for the
disk and may run in any thread. In this order a crash leaves files that the checkpoint says are
deleted, never a checkpoint that misses files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.storage.segments import remove_files

if TYPE_CHECKING:
    from goqueue.storage.segment import Segment
    from goqueue.storage.store import SegmentStore


class Removal:
    """Lets a log start at an offset: `announce`, then `let_go`, then `remove_files`.

    Until the last step is over the log may be neither recovered nor deleted, and no other removal
    may begin.
    """

    def __init__(self, store: SegmentStore, start: int) -> None:
        """Begin, on the writer's thread; `start` is not past the end of the log."""
        self._store = store
        self._start = start
        self._segments: list[Segment] = []
        if self._moves_start:
            store.make_folder()

    @property
    def _moves_start(self) -> bool:
        return self._start > self._store.checkpoint.log_start

    @property
    def _from(self) -> int:
        """Where the log starts in the end."""
        return max(self._start, self._store.checkpoint.log_start)

    @property
    def is_due(self) -> bool:
        """Whether there is anything to do."""
        oldest = next(iter(self._store.segments.sealed), None)
        return self._moves_start or (oldest is not None and oldest.end_offset <= self._from)

    def announce(self) -> None:
        """Make the new start durable; in any thread. Records below cannot be read from here on."""
        if self._moves_start:
            self._store.note_start(self._start)

    def let_go(self) -> None:
        """Take the segments below the start out of the log; on the writer's thread."""
        self._segments += self._store.drop_below(self._from)

    def remove_files(self) -> None:
        """Remove their files; in any thread, while the log goes on.

        The descriptors go here too: removed files are given back with the last of them.
        """
        remove_files(self._store.disk, self._segments)
        self._segments.clear()
