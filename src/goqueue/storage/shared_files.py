"""What the logs of one process share: the disk, the bound on open files, the names of folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.runtime.disk import Disk, SystemDisk
from goqueue.storage.folder_names import FolderNames
from goqueue.storage.open_files import OpenFiles

if TYPE_CHECKING:
    from pathlib import Path


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
