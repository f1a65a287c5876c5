"""What can be wrong with an HTTP request before the broker sees it."""

from __future__ import annotations

from goqueue.model.errors import GoQueueError


class HttpError(GoQueueError):
    """A request that the HTTP server refuses."""


class MalformedRequestError(HttpError):
    """The bytes on the connection are not HTTP, or the address in them does not decode."""


class NoSuchPathError(HttpError):
    """There is nothing at that path."""


class MethodNotAllowedError(HttpError):
    """There is something at that path, and it takes other methods."""

    def __init__(self, message: str, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class ForeignHostError(HttpError):
    """The request is for a name that this server is not known by."""


class ForeignOriginError(HttpError):
    """A web page of another site has sent the request."""


class UnsupportedMediaTypeError(HttpError):
    """The body is of a type that no path takes."""


class MalformedBodyError(HttpError):
    """The body is not JSON in UTF-8."""


class FieldError(HttpError):
    """One field of a request is missing, unknown, or not what it has to be."""

    def __init__(
        self, message: str, *, field: str, location: str = "body", expected: str | None = None
    ) -> None:
        super().__init__(message)
        self.field = field
        self.location = location
        self.expected = expected


class AtFieldError(HttpError):
    """The broker refuses, and we know for which field: the client is told both."""

    def __init__(self, cause: GoQueueError, field: str, location: str = "body") -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.field = field
        self.location = location


class BodyTooLargeError(HttpError):
    """The body is larger than this path takes."""


class HeadTooLargeError(HttpError):
    """Request line and headers are larger than any path takes."""


class RequestTimeoutError(HttpError):
    """The request did not arrive in time."""

    retriable = True


class DeadlineExceededError(HttpError):
    """The answer was not ready in time; what was asked for may still be done."""


class OverloadedError(HttpError):
    """As many connections, or bytes of requests, as the server takes at once."""

    retriable = True


class StoppingError(HttpError):
    """The server is starting or stopping; ask again soon, or another one."""

    retriable = True


class UnavailableError(HttpError):
    """Something that this server could serve is turned off."""
