"""A bound on the files that the logs of one process hold open, however many segments there are.

A segment opens its file when it is first used. At the bound, the segment that was not used for the
longest gives its descriptors back, and opens them again at its next use. Whoever reads from a file
meanwhile keeps that one descriptor open until the read is over.

A file with bytes that are not synced stays open: an error of the kernel's own writing is told to
descriptors that were open then. Flushes begin early when there are many such files (see
`flushing/schedule.py`). If one request writes to more logs than may be open, the oldest of them is
closed nevertheless; its flush opens it again, and hears of an error if the kernel has
not forgotten the file meanwhile.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from goqueue.model.limits import MAX_OPEN_SEGMENTS
from goqueue.runtime.disk import Disk, SystemDisk
from goqueue.storage.folder_names import FolderNames

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MIN_OPEN_SEGMENTS: Final = 8
"""However few files the process may open."""
_UNSYNCED_FACTOR: Final = 2
"""Unsynced segments, which have one descriptor each, may be so many times as many; then the one
written first is closed."""
_DESCRIPTORS_A_SEGMENT: Final = 3
_SHARE_OF_LIMIT: Final = 2
"""The other half of the process's descriptors is for connections and everything else."""


class Openable(Protocol):
    """What the bound is told of a segment."""

    was_used: bool
    """Since the bound has last looked at it; then it is spared once."""

    def rest(self) -> None:
        """Give the descriptors back."""


def open_segments_within(descriptor_limit: int | None) -> int:
    """How many segments may be open in a process that may open so many files."""
    if descriptor_limit is None:
        return MAX_OPEN_SEGMENTS
    share = descriptor_limit // (_SHARE_OF_LIMIT * _DESCRIPTORS_A_SEGMENT)
    return max(min(share, MAX_OPEN_SEGMENTS), _MIN_OPEN_SEGMENTS)


class OpenFiles:
    """The segments that have descriptors: those that may be closed, and those that may not yet."""

    def __init__(self, limit: int = MAX_OPEN_SEGMENTS) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._idle: OrderedDict[Openable, None] = OrderedDict()
        """The one opened or spared last at the end."""
        self._unsynced: OrderedDict[Openable, None] = OrderedDict()
        """The one written first at the front."""

    def __len__(self) -> int:
        return len(self._idle) + len(self._unsynced)

    def opened(self, segment: Openable) -> None:
        """Note that a segment has descriptors now, and close others at the bound."""
        with self._lock:
            segment.was_used = True
            if segment not in self._unsynced:
                self._idle[segment] = None
            self._make_room(segment)

    def written(self, segment: Openable) -> None:
        """A segment has unsynced bytes from now on: it stays open."""
        with self._lock:
            self._idle.pop(segment, None)
            self._unsynced[segment] = None
            self._make_room(segment)

    def synced(self, segment: Openable) -> None:
        """All bytes of a segment are on the disk: it may be closed."""
        with self._lock:
            if self._unsynced.pop(segment, self) is None:
                self._idle[segment] = None
                self._make_room(segment)

    def forget(self, segment: Openable) -> None:
        """A segment leaves its log: whoever still reads it keeps it open."""
        with self._lock:
            self._idle.pop(segment, None)
            self._unsynced.pop(segment, None)

    def _make_room(self, spared: Openable) -> None:
        while len(self) > self.limit and (victim := self._idlest(spared)) is not None:
            del self._idle[victim]
            victim.rest()
        while len(self._unsynced) > _UNSYNCED_FACTOR * self.limit:
            self._unsynced.popitem(last=False)[0].rest()

    def _idlest(self, spared: Openable) -> Openable | None:
        """The first that was not used since the last look at it; None when only one is left."""
        for _ in range(2 * len(self._idle)):
            segment = next(iter(self._idle))
            if segment is not spared and not segment.was_used:
                return segment
            segment.was_used = False
            self._idle.move_to_end(segment)
        return None


class SharedFiles:
    """Handed to every log; a log that is opened alone has one of its own."""

    def __init__(
        self,
        disk: Disk | None = None,
        open_files: OpenFiles | None = None,
        root: Path | None = None,
    ) -> None:
        """Share `disk`; the folders of all logs are made below `root`, if there are several."""
        self.disk = disk or SystemDisk()
        self.open_files = OpenFiles() if open_files is None else open_files
        self.folders = FolderNames(self.disk, root)
        self.on_loss: Callable[[Path], None] = lambda _: None
        """Told of a log's folder, by any thread, before batches that were whole once are cut off:
        whoever opens the log next would not see that they are gone."""
