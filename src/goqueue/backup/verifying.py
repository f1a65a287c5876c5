"""Verifying: every file of a backup is there and is what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.errors import BackupKeyError, DamagedBackupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from goqueue.backup.manifest import StoredFile
    from goqueue.backup.repository import Repository


def problems_of(
    repository: Repository, files: Iterable[StoredFile], on_progress: Callable[[int], None]
) -> list[str]:
    """What is wrong with files of a backup; reads and decrypts all of them, in any thread."""
    problems: list[str] = []
    done = 0
    for file in files:
        try:
            repository.read(file)
        except BackupKeyError:
            raise
        except DamagedBackupError as error:
            problems.append(str(error))
        done += file.size_bytes
        on_progress(done)
    return problems
