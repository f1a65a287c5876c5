"""Bytes that are not an acceptable record batch."""

from __future__ import annotations

from goqueue.model.errors.base import GoQueueError


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


class InvalidTimestampError(BatchError):
    """A record is dated further from the time of its append than its topic allows."""


class PriorityError(BatchError):
    """A priority is not one of the five."""


class DeliveryHeaderError(BatchError):
    """A header that says how a message is to be delivered does not say it."""
