"""Folders that were made and whose names are not yet known to be on the disk.

A log makes its folder when it is first written, without waiting for the disk. A flush of that log
syncs the folders above it before anybody is told that the append is durable. Many logs share the
folders above them, and one sync of such a folder is enough for all that were made in it before.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.runtime.disk import Disk

UnsyncedNames: TypeAlias = tuple[tuple["Path", int], ...]
"""Folders to sync, and of each which change in it must be on the disk."""


class FolderNames:
    """The folders in which names were made since they were last synced.

    Holds an entry for each folder with unsynced names, so never more than there are folders.
    """

    def __init__(self, disk: Disk, root: Path | None = None) -> None:
        """Follow the folders below `root`, which is durable.

        Without one, nobody could tell which folders a killed process has made: each is synced
        when it is made.
        """
        self._disk = disk
        self._root = root
        self._lock = threading.Lock()
        self._versions = itertools.count(1)
        self._changed: dict[Path, int] = {}
        """The newest change in each folder that is not known to be on the disk."""
        self._durable: dict[Path, int] = {}
        """The newest change that a sync has covered, of folders that have changed since."""

    def make(self, folder: Path) -> UnsyncedNames:
        """Make a folder; returns what to sync before anything in it is durable."""
        if self._root is None:
            self._disk.make_folder(folder)
            return ()
        for made in self._disk.create_folder(folder):
            self._change(made.parent)
        return self._unsynced(folder)

    def doubt(self, folder: Path) -> UnsyncedNames:
        """Take the name of a folder that a killed process has made for not durable."""
        for parent in folder.parents:
            if self._root is None or not parent.is_relative_to(self._root):
                break
            self._change(parent)
        return self._unsynced(folder)

    def _change(self, parent: Path) -> None:
        with self._lock:
            self._changed[parent] = next(self._versions)

    def _unsynced(self, folder: Path) -> UnsyncedNames:
        found = []
        with self._lock:
            for parent in folder.parents:
                if parent in self._changed:
                    found.append((parent, self._changed[parent]))
                if parent == self._root:
                    break
        return tuple(found)

    def sync(self, names: UnsyncedNames) -> None:
        """Return when these changes are on the disk; in any thread.

        Raises:
            DiskError: a folder could not be synced.
        """
        for folder, version in names:
            with self._lock:
                newest = self._changed.get(folder)
                if newest is None or self._durable.get(folder, 0) >= version:
                    continue
            self._disk.sync_folder(folder)
            with self._lock:
                self._durable[folder] = max(self._durable.get(folder, 0), newest)
                if self._changed.get(folder) == newest:
                    del self._changed[folder]
                    del self._durable[folder]
