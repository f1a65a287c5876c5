"""Who runs a node: a file in its data folder that the supervisor holds and others read.

The lock is the kernel's and dies with its holder, so that what a killed supervisor has left in the
file deceives nobody.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING, Final

from goqueue.runtime.disk import FILE_MODE, FOLDER_MODE, translate
from goqueue.server.errors import DataFolderInUseError
from goqueue.server.folder import LOCK_FILE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE: Final = "goqueue.supervisor"
SUPERVISOR: Final = "supervisor"
_READ_BYTES: Final = 4096
_TRIES: Final = 10
_DYING_TRIES: Final = 100
_TRY_S: Final = 0.05
"""A reader holds the lock for a moment, too: the supervisor tries again for half a second."""


class NodeLock:
    """Held from `acquire` to `release`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Make the folder if need be, and hold it against other supervisors.

        Raises:
            DataFolderInUseError: another process runs this node; the text says which.
            DiskError: it cannot be made or written.
        """
        try:
            self._folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(self._folder / FILE, flags, FILE_MODE)
            for _ in range(_TRIES):
                try:
                    fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(_TRY_S)
                else:
                    self.note({})
                    return
        except OSError as error:
            self.release()
            raise translate(error, "locking the data folder", self._folder) from error
        self.release()
        pid = _written(self._folder).get(SUPERVISOR)
        raise DataFolderInUseError(
            f"the data folder {self._folder} is in use by the server with PID {pid}: stop it, or "
            "use another --data-dir"
        )

    def note(self, children: Mapping[str, int]) -> None:
        """Write down which processes run the node."""
        if self._descriptor is None:
            return
        pids = {SUPERVISOR: os.getpid(), **children}
        text = "".join(f"{name} {pid}\n" for name, pid in pids.items()).encode()
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))

    def release(self) -> None:
        """Let another supervisor have the folder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def wait_until_free(folder: Path) -> None:
    """Wait for a broker that dies with a supervisor that was killed; for a few seconds at most."""
    for _ in range(_DYING_TRIES):
        if not _is_locked(folder / LOCK_FILE):
            return
        time.sleep(_TRY_S)


def running(folder: Path) -> dict[str, int]:
    """The processes that run the node of a data folder, by name; none when nobody does."""
    return _written(folder) if _is_locked(folder / FILE) else {}


def _is_locked(path: Path) -> bool:
    """Whether a process holds the lock on a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _written(folder: Path) -> dict[str, int]:
    with (folder / FILE).open("rb") as file:
        lines = file.read(_READ_BYTES).decode("ascii", "replace").splitlines()
    pairs = (line.partition(" ") for line in lines)
    return {name: int(pid) for name, _, pid in pairs if pid.isdigit()}
