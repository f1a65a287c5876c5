"""What is wrong with bytes that came from the network, and with messages that cannot be written."""

from __future__ import annotations

from goqueue.model.errors import GoQueueError, InvariantError


class RequestError(GoQueueError):
    """A request that cannot be served as it was sent; the connection is closed, as Kafka does."""


class MalformedRequestError(RequestError):
    """The bytes of a request, or of a response, contradict its schema."""


class TruncatedRequestError(MalformedRequestError):
    """The message ends before its fields do."""


class TooManyElementsError(MalformedRequestError):
    """The arrays and tagged fields of a message have more elements than the reader accepts."""


class FrameTooLargeError(MalformedRequestError):
    """The length before a frame is negative, or larger than the listener accepts."""


class SchemaMismatchError(InvariantError):
    """A message that does not fit its schema was to be written: a bug in its sender."""
