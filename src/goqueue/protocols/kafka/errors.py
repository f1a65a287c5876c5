"""Which Kafka error code a client sees for each class of error. A test walks the whole tree.

A class that has no line of its own takes the code of its nearest ancestor that has one, so a new
kind of error is never answered with a code that says something untrue: at worst a vaguer one.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from goqueue.model import errors as model
from goqueue.model.errors import GoQueueError


class RequestError(GoQueueError):
    """A request that cannot be served as it was sent; the connection is closed, as Kafka does."""


class MalformedRequestError(RequestError):
    """The bytes of a request contradict its schema."""


class TruncatedRequestError(MalformedRequestError):
    """The request ends before its fields do."""


class TrailingBytesError(MalformedRequestError):
    """Bytes are left over after the last field of the request."""


class FrameTooLargeError(MalformedRequestError):
    """The length before a frame is negative, or larger than the listener accepts."""


class UnsupportedRequestError(RequestError):
    """No handler serves this API, or this version of it."""


class UnauthenticatedRequestError(RequestError):
    """An API was called before the connection said who it is."""


class SchemaMismatchError(model.InvariantError):
    """A handler built an answer that does not fit the schema: a bug in the handler."""


KAFKA_CODES: Final[dict[type[GoQueueError], ErrorCode]] = {
    GoQueueError: ErrorCode.unknown_server_error,
    model.InvariantError: ErrorCode.unknown_server_error,
    # what a producer sent
    model.BatchError: ErrorCode.invalid_record,
    model.TruncatedBatchError: ErrorCode.corrupt_message,
    model.ForeignMagicError: ErrorCode.unsupported_for_message_format,
    model.ChecksumMismatchError: ErrorCode.corrupt_message,
    model.MalformedBatchError: ErrorCode.invalid_record,
    model.MalformedRecordError: ErrorCode.invalid_record,
    model.MalformedHeadersError: ErrorCode.invalid_record,
    model.UnknownCompressionError: ErrorCode.unsupported_compression_type,
    model.DecompressionError: ErrorCode.corrupt_message,
    model.BatchTooLargeError: ErrorCode.message_too_large,
    model.PriorityError: ErrorCode.invalid_record,
    # the disk and the log on it
    model.StorageError: ErrorCode.kafka_storage_error,
    model.OffsetOutOfRangeError: ErrorCode.offset_out_of_range,
    model.OffsetGapError: ErrorCode.offset_out_of_range,
    model.DamagedRangeError: ErrorCode.corrupt_message,
    # the wire itself
    RequestError: ErrorCode.invalid_request,
    UnsupportedRequestError: ErrorCode.unsupported_version,
    UnauthenticatedRequestError: ErrorCode.illegal_sasl_state,
}
"""Disk and log classes without a line share `StorageError`'s: a client can only try again."""


def code_for(error: GoQueueError | type[GoQueueError]) -> ErrorCode:
    """The code a Kafka client is told for this error."""
    kind = error if isinstance(error, type) else type(error)
    for ancestor in kind.__mro__:
        code = KAFKA_CODES.get(ancestor)
        if code is not None:
            return code
    return ErrorCode.unknown_server_error
