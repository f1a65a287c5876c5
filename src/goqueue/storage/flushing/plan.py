"""What one flush does, in whichever thread."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from goqueue.runtime.disk import DiskFile
from goqueue.storage.checkpoints.checkpoint import CheckpointFile
from goqueue.storage.folder_names import UnsyncedNames
from goqueue.storage.open_files import SharedFiles
from goqueue.storage.segment import Segment


class FlushPlan(msgspec.Struct, frozen=True):
    """What has to reach the disk so that everything up to `end_offset` is there."""

    shared: SharedFiles
    folder: Path
    folder_names: UnsyncedNames
    """Folders above, in which the name of this one is not yet durable."""
    end_offset: int
    marks: tuple[tuple[Segment, int], ...]
    """The segments to sync, and how long each is now."""
    files: tuple[DiskFile, ...]
    name_changes: int
    """How many files were made so far, when their names are not all durable; otherwise 0."""
    checkpoint: CheckpointFile | None
    recovery: Mapping[str, int]
    """The recovery point to note in the checkpoint once everything is there."""

    def run(self, *, is_synced: bool = False) -> float:
        """Do it; in any thread, while the log goes on. Returns how many seconds it took.

        With `is_synced` all files and names are on the disk since the plan was made.
        """
        started_s = time.perf_counter()
        if not is_synced:
            self._sync()
        if self.checkpoint is not None:
            self.checkpoint.update(**self.recovery)
        return time.perf_counter() - started_s

    def _sync(self) -> None:
        for file in self.files:
            file.sync()
        if self.name_changes:
            self.shared.disk.sync_folder(self.folder)
        self.shared.folders.sync(self.folder_names)
