# ruff: noqa: D102 - `Vault` says what each call promises
"""A vault in a folder: a local disk, or one that all nodes of a cluster have mounted."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from goqueue.backup.manifest import check_file_name
from goqueue.model.errors import BackupError, BackupUnavailableError, DamagedBackupError
from goqueue.runtime.disk import FILE_MODE, FOLDER_MODE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from goqueue.runtime.disk import Bytes

MARKER: Final = "repository.json"
_TEMPORARY: Final = ".tmp"


class FolderVault:
    """Files of a folder that holds nothing else."""

    def __init__(self, destination: str, data_dir: Path) -> None:
        """Use a folder; it is made with the first file.

        Raises:
            BackupError: the path is relative, lies in the data folder, or holds something else.
        """
        path = Path(destination)
        if not path.is_absolute():
            raise BackupError(
                f"{destination!r} is a relative path: name an absolute path at the server"
            )
        self.folder = path.resolve()
        data_dir = data_dir.resolve()
        if self.folder == data_dir or data_dir in self.folder.parents:
            raise BackupError(
                f"{self.folder} lies in the data folder {data_dir}, which it would be lost with: "
                "choose another disk"
            )
        with _told(self.folder):
            if self.folder.exists() and not (self.folder / MARKER).exists():
                for entry in self.folder.iterdir():
                    if not entry.name.endswith(_TEMPORARY):
                        raise BackupError(
                            f"{self.folder} holds {entry.name!r} and no backups: choose an empty "
                            "folder"
                        )

    def _path(self, name: str) -> Path:
        if name != MARKER:
            check_file_name(name)
        return self.folder / name

    def write(self, name: str, data: Iterable[Bytes], *, is_synced: bool = True) -> None:
        path = self._path(name)
        temporary = path.with_name(path.name + _TEMPORARY)
        with _told(path):
            path.parent.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, FILE_MODE)
            try:
                for each in data:
                    view = memoryview(each)
                    while view:
                        view = view[os.write(descriptor, view) :]
                if is_synced:
                    os.fsync(descriptor)
                elif hasattr(os, "posix_fadvise"):
                    # Begin to write it out, so that `sync` waits for little.
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
            temporary.rename(path)
            if is_synced:
                _sync(path.parent)

    def sync(self, names: Iterable[str]) -> None:
        folders: set[Path] = set()
        for name in names:
            path = self._path(name)
            with _told(path):
                _sync(path)
            while path != self.folder:
                path = path.parent
                folders.add(path)
        for folder in folders:
            with _told(folder):
                _sync(folder)

    def find(self, name: str) -> bytes | None:
        path = self._path(name)
        with _told(path), suppress(FileNotFoundError, NotADirectoryError):
            return path.read_bytes()
        return None

    def read(self, name: str) -> bytes:
        data = self.find(name)
        if data is None:
            raise DamagedBackupError(f"{self.folder / name} is missing")
        return data

    def sizes(self, prefix: str) -> dict[str, int]:
        found: dict[str, int] = {}
        with _told(self.folder):
            for root, _, names in os.walk(self.folder / prefix):
                for name in names:
                    if name.endswith(_TEMPORARY):
                        continue
                    path = Path(root, name)
                    with suppress(FileNotFoundError):
                        found[path.relative_to(self.folder).as_posix()] = path.stat().st_size
        return found

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            path = self._path(name)
            with _told(path), suppress(FileNotFoundError):
                path.unlink()
            with suppress(OSError):  # others are in it
                path.parent.rmdir()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say what the operating system has refused, and where."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise BackupUnavailableError(
            f"{path}: {error.strerror or error}; the user that runs the server must be able to "
            "read and write the destination"
        ) from error
