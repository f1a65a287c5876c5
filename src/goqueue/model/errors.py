"""One tree of errors. Each class says whether a client may try the same request again.

Protocols map classes to their own codes in one table each; nothing recognises an error by its text.
"""

from __future__ import annotations

from typing import ClassVar


class GoQueueError(Exception):
    """Everything that this product raises on purpose."""

    retriable: ClassVar[bool] = False


# --- Bytes that are not an acceptable record batch ---------------------------------------------


class BatchError(GoQueueError):
    """A record batch cannot be accepted or read."""


class TruncatedBatchError(BatchError):
    """The bytes end before the batch does."""


class ForeignMagicError(BatchError):
    """The bytes are not a batch of magic 2: another format, or not a batch at all."""


class ChecksumMismatchError(BatchError):
    """The CRC32C of a batch does not match its bytes."""


class MalformedBatchError(BatchError):
    """The header of a batch contradicts itself (counts, deltas, lengths)."""


class MalformedRecordError(BatchError):
    """A record inside a batch does not parse."""


class MalformedHeadersError(MalformedRecordError):
    """The headers of a record do not parse, or are larger than the limit."""


class UnknownCompressionError(BatchError):
    """The batch names a compression codec that does not exist."""


class DecompressionError(BatchError):
    """The compressed part of a batch does not decompress, or would grow past the limit."""


class BatchTooLargeError(BatchError):
    """A batch or a record in it is larger than the limit."""


class PriorityError(BatchError):
    """A priority is not one of the five."""


# --- The disk ----------------------------------------------------------------------------------


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


# --- One partition's log -----------------------------------------------------------------------


class LogClosedError(StorageError):
    """The log was closed; open it again to use it."""

    retriable = True


class LogFailedError(StorageError):
    """A write or a sync failed earlier; the log refuses appends until it has recovered."""

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


class InvariantError(GoQueueError):
    """A check of our own state failed: a bug, never a user's mistake."""
