"""The data folder: one process at a time works in it.

The lock is the kernel's, on a file that is never removed, and dies with its holder: a process that
was killed blocks nobody, whatever it left lying about. `goqueue.pid` is for people and scripts, and
for the message that a second server ends with.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from goqueue.runtime.disk import FILE_MODE, FOLDER_MODE, translate
from goqueue.server.errors import DataFolderInUseError, StartError

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

LOCK_FILE: Final = "goqueue.lock"
PID_FILE: Final = "goqueue.pid"
METADATA_FILE: Final = "metadata.db"
"""The metadata of a server that runs on its own."""
NODE_FILE: Final = "node.json"
"""Which node of which cluster the folder belongs to."""
MEMBER_FILE: Final = "etcd/member.json"
"""Which member of which cluster's etcd is in the folder."""
UMASK: Final = 0o077
"""No file that the server makes, by whichever library, can be read by other users."""
OUR_NAMES: Final = (
    "goqueue.",
    METADATA_FILE,
    NODE_FILE,
    "etcd",
    "clean-stop",
    "high-watermarks",
    "history",
    "log-summaries",
    "topics",
    "traces",
    "delay-slots",
    "tls",
    "audit",
)
"""What names in the folder begin with that the server makes."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


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
            self.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(self.path / LOCK_FILE, flags, FILE_MODE)
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
        self._keep_others_out()
        try:
            (self.path / PID_FILE).write_text(f"{os.getpid()}\n")
        except OSError as error:
            self.release()
            raise translate(error, "writing", self.path / PID_FILE) from error

    def _keep_others_out(self) -> None:
        """Take the rights of other users away that an older version, or somebody, has given them.

        From what is ours directly in the folder, and from the folder if nothing else is in it:
        nobody gets past those to what lies below.
        """
        changed = []
        ours = [path for path in self.path.iterdir() if path.name.startswith(OUR_NAMES)]
        if len(ours) == sum(1 for _ in self.path.iterdir()):
            ours.append(self.path)
        for path in ours:
            try:
                status = path.lstat()
                if stat.S_ISLNK(status.st_mode) or not status.st_mode & _OTHERS:
                    continue
                path.chmod(stat.S_IMODE(status.st_mode) & ~_OTHERS)
                changed.append(path.name)
            except OSError as error:
                logger.warning(
                    "%s can be read by other users, and that cannot be changed (%s): it holds "
                    "messages and the keys of users",
                    path,
                    error.strerror,
                )
        if changed:
            logger.warning(
                "%s: removed the access of other users from: %s", self.path, ", ".join(changed[:20])
            )

    def release(self) -> None:
        """Let another process have it."""
        if self._descriptor is None:
            return
        with suppress(OSError):
            (self.path / PID_FILE).unlink()
        os.close(self._descriptor)
        self._descriptor = None

    def check_alone(self) -> None:
        """Refuse the folder of a cluster's node to a server that runs on its own.

        Raises:
            StartError: it is one, and what to do.
        """
        if any((self.path / name).exists() for name in (NODE_FILE, MEMBER_FILE)):
            raise StartError(
                f"the data folder {self.path} belongs to a node of a cluster: start it with the "
                "cluster's settings (cluster.peers), or use another --data-dir and copy topics "
                "with `goqueue consume` and `goqueue produce`"
            )

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
