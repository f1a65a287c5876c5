"""The data folder: one process at a time works in it.

The lock is the kernel's, on a file that is never removed, and dies with its holder: a process that
was killed blocks nobody, whatever it left lying about. `goqueue.pid` is for people and scripts, and
for the message that a second server ends with.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from goqueue.runtime.disk import translate
from goqueue.server.errors import DataFolderInUseError

if TYPE_CHECKING:
    from pathlib import Path

LOCK_FILE: Final = "goqueue.lock"
PID_FILE: Final = "goqueue.pid"


class DataFolder:
    """A folder that is held between `acquire` and `release`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Make the folder if need be, and hold it.

        Raises:
            DataFolderInUseError: another process has it; the text says which.
            DiskError: it cannot be made or written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(self.path / LOCK_FILE, flags, 0o644)
        except OSError as error:
            raise translate(error, "preparing the data folder", self.path) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise DataFolderInUseError(self._in_use()) from error
        except OSError as error:
            os.close(descriptor)
            raise translate(error, "locking the data folder", self.path) from error
        self._descriptor = descriptor
        try:
            (self.path / PID_FILE).write_text(f"{os.getpid()}\n")
        except OSError as error:
            self.release()
            raise translate(error, "writing", self.path / PID_FILE) from error

    def release(self) -> None:
        """Let another process have it."""
        if self._descriptor is None:
            return
        with suppress(OSError):
            (self.path / PID_FILE).unlink()
        os.close(self._descriptor)
        self._descriptor = None

    def holder(self) -> int | None:
        """The process that the PID file names, if it names one."""
        try:
            return int((self.path / PID_FILE).read_text())
        except (OSError, ValueError):
            return None

    def _in_use(self) -> str:
        pid = self.holder()
        who = "another server" if pid is None else f"the server with PID {pid}"
        return f"the data folder {self.path} is in use by {who}: stop it, or use another --data-dir"
