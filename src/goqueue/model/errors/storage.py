"""The disk, and the log of one partition."""

from __future__ import annotations

from goqueue.model.errors.base import GoQueueError


class StorageError(GoQueueError):
    """Something is wrong with stored data or with the disk under it."""


class DiskError(StorageError):
    """The operating system refused an operation on a file."""

    retriable = True


class DiskFullError(DiskError):
    """There is no space left for a write."""


class DiskPermissionError(DiskError):
    """A file or folder may not be read or written by this process."""

    retriable = False


class ForeignFileError(StorageError):
    """A folder of ours holds a file that could be taken for one of ours and is not."""


class UnsupportedFormatError(StorageError):
    """Stored data was written by a newer version, in a format this one does not know."""


class LogClosedError(StorageError):
    """The log was closed; open it again to use it."""

    retriable = True


class LogFailedError(StorageError):
    """A write or a sync failed earlier; the log refuses appends until it has recovered."""

    retriable = True


class CompactionCancelledError(StorageError):
    """A compaction was called off before it changed anything; a later one does its work."""

    retriable = True


class OffsetOutOfRangeError(StorageError):
    """An offset lies outside what the log holds."""

    def __init__(self, offset: int, log_start: int, log_end: int) -> None:
        super().__init__(
            f"offset {offset} is outside this log: it holds {log_start} up to, not including, "
            f"{log_end}"
        )
        self.offset = offset
        self.log_start = log_start
        self.log_end = log_end


class OffsetGapError(StorageError):
    """A follower's append does not continue its log."""

    def __init__(self, expected: int, found: int) -> None:
        super().__init__(
            f"the batch starts at offset {found}, the log ends at {expected}: "
            f"fetch again from {expected}"
        )
        self.expected = expected
        self.found = found


class DamagedRangeError(StorageError):
    """Stored batches are damaged; everything before and after them can still be read."""

    def __init__(self, first: int, resume_at: int, reason: str) -> None:
        super().__init__(
            f"records from offset {first} up to, not including, {resume_at} are damaged on disk "
            f"({reason}); continue reading at {resume_at}"
        )
        self.first = first
        self.resume_at = resume_at
        self.reason = reason
