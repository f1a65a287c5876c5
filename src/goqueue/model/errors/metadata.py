"""The metadata store."""

from __future__ import annotations

from goqueue.model.errors.base import GoQueueError
from goqueue.model.errors.storage import StorageError


class MetadataError(GoQueueError):
    """The metadata store refuses a request, or cannot answer it."""


class InvalidMetadataRequestError(MetadataError):
    """A key, a value or a transaction is malformed or larger than the limits."""


class MetadataCompactedError(MetadataError):
    """A watcher asks for changes that are no longer kept; it must read everything anew."""

    def __init__(self, after: int, oldest: int) -> None:
        super().__init__(
            f"the changes after revision {after} are no longer kept, only those after {oldest}: "
            "read the keys again and watch from the revision of that reading"
        )
        self.after = after
        self.oldest = oldest


class SessionLapsedError(MetadataError):
    """The session has ended and its keys are gone; open another one."""


class MetadataUnavailableError(MetadataError):
    """The metadata store is closed, in use by another process, or stopped after a failed write."""

    retriable = True


class CorruptMetadataError(StorageError):
    """The file that holds the metadata is damaged."""
