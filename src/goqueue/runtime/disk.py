"""The disk: the few operations that the log needs, and what each promises.

Everything stored goes through here, so that a test can put a faulty disk under the log. Errors of
the operating system become `DiskError` and its kinds, with the path and what to do.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from goqueue.model.errors import DiskError, DiskFullError, DiskPermissionError
from goqueue.model.tuples import NamedTuple
from goqueue.runtime.sync_all import SyncAll

if TYPE_CHECKING:
    from pathlib import Path

Bytes: TypeAlias = bytes | bytearray | memoryview

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
"""Whoever runs the broker alone reads what it stores: messages, and the keys of users."""
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class DiskUsage(NamedTuple):
    """The room on a disk."""

    total_bytes: int
    free_bytes: int
    """What this process may still write."""


class DiskFile(Protocol):
    """One open file. Reads and writes name their position, so they may run in any thread."""

    @property
    def path(self) -> Path:
        """Where the file was when it was opened."""

    def fileno(self) -> int:
        """The descriptor, for `sendfile`; it stays open as long as this object does."""

    def size(self) -> int:
        """The length of the file in bytes."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        """Like `read`, but None when that would have to wait for the disk."""

    def write(self, position: int, data: Bytes) -> None:
        """All of `data` at `position`, or an error; in the page cache, not yet on the disk."""

    def sync(self) -> None:
        """Return when all that was written is on the disk."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes."""

    def close(self) -> None:
        """Give the descriptor back; closing twice is harmless."""


class Disk(Protocol):
    """Folders and names."""

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> DiskFile:
        """Open a file; `create` makes it when it is missing."""

    def names(self, folder: Path) -> list[str]:
        """The names in a folder, sorted; a folder that is not there has none."""

    def exists(self, path: Path) -> bool:
        """Whether there is a file of that name."""

    def size(self, path: Path) -> int:
        """The length of a file that need not be open."""

    def modified_ms(self, path: Path) -> int:
        """When a file was last written, in milliseconds since the Unix epoch."""

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        """Say when a file was last written."""

    def make_folder(self, folder: Path) -> None:
        """Make the folder and its parents, and their names durable; there already is fine."""

    def create_folder(self, folder: Path) -> list[Path]:
        """Make the folder and its parents without waiting for the disk; returns those it made.

        Each is durable after `sync_folder` of its parent.
        """

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, replacing what had it; durable after `sync_folder`."""

    def remove(self, path: Path) -> None:
        """Remove a file; gone already is fine."""

    def remove_folder(self, folder: Path) -> None:
        """Remove a folder with all that is in it; gone already is fine."""

    def sync_folder(self, folder: Path) -> None:
        """Return when all names made, changed and removed in the folder are on the disk."""

    def sync_all(self, folder: Path) -> bool:
        """Return when all that was written to any file, and all names, are on the disk.

        False when this disk cannot do that for the file system of `folder`; nothing is synced then.
        """

    def usage(self, folder: Path) -> DiskUsage:
        """How large the disk is that holds the folder, and what is left of it."""


def translate(error: OSError, doing: str, path: Path) -> DiskError:
    """The error of ours that says what failed, where, and what to do about it."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return DiskFullError(
            f"no space left while {doing} {path}: free some space or lower the retention"
        )
    if error.errno in _FORBIDDEN:
        return DiskPermissionError(
            f"not allowed: {doing} {path} ({reason}); the user running this process must be able "
            "to read and write the folder"
        )
    return DiskError(f"{doing} {path} failed: {reason}")


class SystemFile:
    """A file of the operating system, closed when the last holder lets go of it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, position: int, length: int) -> bytes:
        try:
            data = os.pread(self._descriptor, length, position)
            while len(data) < length:
                more = os.pread(self._descriptor, length - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise translate(error, "reading", self.path) from error
        return data

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        if _NOWAIT is None:
            return None
        buffer = bytearray(length)
        try:
            count = os.preadv(self._descriptor, [buffer], position, _NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno == errno.EOPNOTSUPP:
                return None
            raise translate(error, "reading", self.path) from error
        return buffer if count == length else None

    def write(self, position: int, data: Bytes) -> None:
        try:
            written = os.pwrite(self._descriptor, data, position)
            while written < len(data):
                rest = memoryview(data)[written:]
                written += os.pwrite(self._descriptor, rest, position + written)
        except OSError as error:
            raise translate(error, "writing", self.path) from error

    def sync(self) -> None:
        try:
            _fdatasync(self._descriptor)
        except OSError as error:
            raise translate(error, "syncing", self.path) from error

    def truncate(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise translate(error, "cutting", self.path) from error

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.close()


class SystemDisk:
    """The file system of the machine."""

    def __init__(self) -> None:
        self._syncs: dict[Path, SyncAll | None] = {}
        """One for each folder of which all was to be synced: the data folder."""

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> SystemFile:
        flags = os.O_CLOEXEC | (os.O_RDWR if write else os.O_RDONLY)
        try:
            flags |= os.O_CREAT if create else 0
            return SystemFile(path, os.open(path, flags, FILE_MODE))
        except OSError as error:
            raise translate(error, "opening", path) from error

    def names(self, folder: Path) -> list[str]:
        try:
            return sorted(os.listdir(folder))  # noqa: PTH208 - a start lists thousands of folders
        except FileNotFoundError:
            return []
        except OSError as error:
            raise translate(error, "listing", folder) from error

    def exists(self, path: Path) -> bool:
        return path.exists()

    def size(self, path: Path) -> int:
        try:
            return os.stat(path).st_size  # noqa: PTH116 - a start measures thousands of files
        except OSError as error:
            raise translate(error, "measuring", path) from error

    def modified_ms(self, path: Path) -> int:
        try:
            return path.stat().st_mtime_ns // 1_000_000
        except OSError as error:
            raise translate(error, "dating", path) from error

    def set_modified_ms(self, path: Path, modified_ms: int) -> None:
        try:
            os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))
        except OSError as error:
            raise translate(error, "dating", path) from error

    def make_folder(self, folder: Path) -> None:
        for path in self.create_folder(folder):
            self.sync_folder(path.parent)

    def create_folder(self, folder: Path) -> list[Path]:
        try:
            os.mkdir(folder, FOLDER_MODE)  # noqa: PTH102 - much faster than pathlib, for thousands
        except FileNotFoundError:
            return [*self.create_folder(folder.parent), *self.create_folder(folder)]
        except FileExistsError:
            if folder.is_dir():
                return []
            raise translate(
                OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR)), "making the folder", folder
            ) from None
        except OSError as error:
            raise translate(error, "making the folder", folder) from error
        return [folder]

    def rename(self, source: Path, target: Path) -> None:
        try:
            source.replace(target)
        except OSError as error:
            raise translate(error, f"renaming to {target.name}", source) from error

    def remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise translate(error, "removing", path) from error

    def remove_folder(self, folder: Path) -> None:
        import shutil  # noqa: PLC0415 - it imports every format of archives

        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            return
        except OSError as error:
            raise translate(error, "removing the folder", folder) from error

    def sync_folder(self, folder: Path) -> None:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise translate(error, "syncing the folder", folder) from error

    def sync_all(self, folder: Path) -> bool:
        if folder not in self._syncs:
            self._syncs[folder] = SyncAll.of(folder)
        sync = self._syncs[folder]
        if sync is None:
            return False
        try:
            sync.sync()
        except OSError as error:
            raise translate(error, "syncing the file system of", folder) from error
        return True

    def usage(self, folder: Path) -> DiskUsage:
        try:
            found = os.statvfs(folder)
            return DiskUsage(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)
        except OSError as error:
            raise translate(error, "measuring", folder) from error


def read_file(disk: Disk, path: Path, most_bytes: int | None = None) -> bytes:
    """What is in a file; of a longer one than `most_bytes`, the beginning."""
    file = disk.open(path, write=False)
    try:
        size = file.size()
        return file.read(0, size if most_bytes is None else min(size, most_bytes))
    finally:
        file.close()


def replace_file(disk: Disk, path: Path, data: Bytes) -> None:
    """Put `data` at `path` so that a crash at any moment leaves the old file or the new one."""
    temporary = path.with_name(path.name + ".tmp")
    disk.remove(temporary)
    file = disk.open(temporary, create=True)
    try:
        file.write(0, data)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_folder(path.parent)


# macOS has neither fdatasync, where fsync is the nearest, nor reads that refuse to wait.
_fdatasync = getattr(os, "fdatasync", os.fsync)
_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)
