"""Where backups are kept: files under names, in a folder or in an object store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from goqueue.model.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from goqueue.runtime.disk import Bytes

_S3: Final = "s3://"


class Vault(Protocol):
    """Files under names; every call waits for the disk or the network, and runs in any thread.

    Each raises `BackupUnavailableError` when the destination refuses.
    """

    def write(self, name: str, data: Iterable[Bytes], *, is_synced: bool = True) -> None:
        """Store a file, whole or not at all; without `is_synced`, durable after `sync`."""

    def sync(self, names: Iterable[str]) -> None:
        """Return when these files survive a power cut."""

    def read(self, name: str) -> bytes:
        """A whole file. Raises `DamagedBackupError` when there is none."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """The files under a prefix that ends with a slash, and their sizes."""

    def find(self, name: str) -> bytes | None:
        """A whole file; None when there is none."""

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; gone already is fine."""


def open_vault(destination: str, data_dir: Path) -> Vault:
    """The vault at a destination: an absolute path, or `s3://bucket/prefix`.

    Raises:
        BackupError: it cannot be one, or what it needs is not installed.
    """
    make: Callable[[], Vault]
    if destination.startswith(_S3):
        from goqueue.backup.s3_vault import S3Vault  # noqa: PLC0415 - needs an extra

        def make() -> Vault:
            return S3Vault(destination)
    elif "://" in destination:
        raise BackupError(
            f"{destination!r} is no destination: expected an absolute path at the server, or "
            "s3://bucket/prefix"
        )
    else:
        from goqueue.backup.folder_vault import FolderVault  # noqa: PLC0415 - one of two

        def make() -> Vault:
            return FolderVault(destination, data_dir)

    return make()
