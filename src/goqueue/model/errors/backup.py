"""Backups."""

from __future__ import annotations

from goqueue.model.errors.base import GoQueueError


class BackupError(GoQueueError):
    """A backup cannot be made, read or restored as it was asked for."""


class UnknownBackupError(BackupError):
    """There is no backup and no job with that id."""


class DamagedBackupError(BackupError):
    """A file of a backup is missing, or is not what was written."""


class BackupKeyError(BackupError):
    """The key of an encrypted backup is missing or wrong."""


class BackupBusyError(BackupError):
    """Another job is under way, one at a time."""

    retriable = True


class BackupUnavailableError(BackupError):
    """The destination cannot be read or written now, or a node does not answer."""

    retriable = True


class RestoreConflictError(BackupError):
    """What a backup would restore is in the way of what is there already."""
