"""One sync for all files of a file system, where the kernel says what became of them.

Syncing thousands of new files one by one makes the file system commit its journal hundreds of
times, and whoever makes a file meanwhile waits for each commit. `syncfs` makes it commit once. It
is used on Linux 5.8 and newer, which report failed writes to it, and on file systems that are known
to have everything on the disk when it returns; network and FUSE file systems need not.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path
from typing import Final

_KNOWN: Final = frozenset({"ext4", "xfs", "btrfs"})
_REPORTS_ERRORS: Final = (5, 8)
_MOUNTS: Final = Path("/proc/self/mountinfo")


class SyncAll:
    """Syncs the file system that holds a folder; the folder is held open, or errors get lost.

    The kernel tells a failed write once to each descriptor that was open when it happened.
    """

    def __init__(self, folder: Path) -> None:
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._libc = ctypes.CDLL(None, use_errno=True)

    @classmethod
    def of(cls, folder: Path) -> SyncAll | None:
        """For the file system of a folder; None where files have to be synced one by one."""
        if sys.platform != "linux" or kernel_version() < _REPORTS_ERRORS:
            return None
        try:
            mounts = _MOUNTS.read_text()
            return cls(folder) if file_system_of(folder.resolve(), mounts) in _KNOWN else None
        except (OSError, AttributeError):
            return None

    def sync(self) -> None:
        """Return when everything that was written before is on the disk; in any thread.

        Raises:
            OSError: something was not stored, of whomever it is: files have to be synced singly.
        """
        if self._libc.syncfs(self._descriptor) != 0:
            code = ctypes.get_errno() or errno.EIO
            raise OSError(code, os.strerror(code))

    def close(self) -> None:
        """Give the descriptor back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


def kernel_version() -> tuple[int, ...]:
    """The first two numbers of the running kernel's release."""
    first = os.uname().release.split(".")[:2]
    return tuple(int("".join(filter(str.isdigit, part)) or 0) for part in first)


def file_system_of(folder: Path, mounts: str) -> str:
    """The type of the file system that holds a folder, by the text of `mountinfo`.

    A line has the mount point as its fifth word and the type as the first one after " - ".
    """
    best, found = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = before.split()[4].encode().decode("unicode_escape")
        if folder.is_relative_to(point) and len(point) >= best:  # a later one lies over it
            best, found = len(point), after.split()[0]
    return found
