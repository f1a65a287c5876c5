"""The few things done to files, each whole or not at all; tests stop between any two."""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
from typing import TYPE_CHECKING

from goqueue.spark.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Disk:
    """A local or shared POSIX file system."""

    def read(self, path: Path) -> bytes | None:
        """The whole file; None if there is none."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, path: Path, data: bytes) -> None:
        """Make this the file's content, durably; readers see the old or the new one."""
        fresh = path.with_name(f".{path.name}.new")
        self._write(fresh, data)
        self._rename(fresh, path)
        self.sync_folder(path.parent)

    def move(self, source: Path, target: Path) -> None:
        """Give a file its place; its folder is made. Sync the folder afterwards."""
        target.parent.mkdir(parents=True, exist_ok=True)
        self._rename(source, target)

    def make_folder(self, folder: Path) -> None:
        """Make a folder, and those above it, that survive a loss of power."""
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for each in missing:
            self.sync_folder(each.parent)

    def remove(self, path: Path) -> None:
        """Delete a file, if it is there."""
        path.unlink(missing_ok=True)

    def sync_folder(self, folder: Path) -> None:
        """Let what the folder lists survive a loss of power."""
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _write(self, path: Path, data: bytes) -> None:
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _rename(self, source: Path, target: Path) -> None:
        source.replace(target)


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock that ends with this process, however it ends.

    A shared one makes nothing: where there is no lock file, nobody has ever written.
    """
    if shared and not path.exists():
        yield
        return
    flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
    handle = os.open(path, flags, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def saying_where(folder: Path) -> Iterator[None]:
    """Errors of the file system, as sentences that say who may not do what, and what to do."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        raise LakeError(
            f"cannot write to the table at {folder}: {where}: {error.strerror or error}. This "
            f"process runs as the user {_user()}: let that user write to the folder, or choose "
            "another path"
        ) from error


def _user() -> str:
    try:
        return f"{getpass.getuser()} (uid {os.geteuid()})"
    except (KeyError, OSError):  # a container's user may have no name
        return f"with uid {os.geteuid()}"
