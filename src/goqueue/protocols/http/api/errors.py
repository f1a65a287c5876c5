"""What can be wrong with an HTTP request before the broker sees it."""

from __future__ import annotations

from goqueue.model.errors import GoQueueError


class HttpError(GoQueueError):
    """A request that the HTTP server refuses."""


class MalformedRequestError(HttpError):
    """The bytes on the connection are not HTTP, or the address in them does not decode."""


class NoSuchPathError(HttpError):
    """No resource exists at that path."""


class MethodNotAllowedError(HttpError):
    """The path does not support this method."""

    def __init__(self, message: str, allowed: str) -> None:
        super().__init__(message)
        self.allowed = allowed


class ForeignHostError(HttpError):
    """The Host header names another server."""


class ForeignOriginError(HttpError):
    """The Origin header names a site that may not call this server."""


class CsrfTokenError(HttpError):
    """A change that is authenticated by a cookie, without the token of its session."""


class HttpOnlyError(HttpError):
    """The path answers with a page or a stream, which only a connection of HTTP can carry."""


class UnsupportedMediaTypeError(HttpError):
    """The media type of the body is not supported."""


class MalformedBodyError(HttpError):
    """The body is not JSON in UTF-8."""


class FieldError(HttpError):
    """One field of a request is missing, unknown or invalid."""

    def __init__(
        self, message: str, *, field: str, location: str = "body", expected: str | None = None
    ) -> None:
        super().__init__(message)
        self.field = field
        self.location = location
        self.expected = expected


class AtFieldError(HttpError):
    """The broker refused the request because of one field, which the response names."""

    def __init__(self, cause: GoQueueError, field: str, location: str = "body") -> None:
        super().__init__(str(cause))
        self.cause = cause
        self.field = field
        self.location = location


class BodyTooLargeError(HttpError):
    """The body exceeds the limit of this path."""


class HeadTooLargeError(HttpError):
    """Request line and headers exceed the limit."""


class RequestTimeoutError(HttpError):
    """The request did not arrive in time."""

    retriable = True


class DeadlineExceededError(HttpError):
    """The deadline passed before the response was ready; the request may still take effect."""


class OverloadedError(HttpError):
    """The limit of connections, or of request bytes in memory, is reached."""

    retriable = True


class StoppingError(HttpError):
    """The server is starting or stopping; retry later, or on another server."""

    retriable = True


class UnavailableError(HttpError):
    """The feature is disabled on this server."""
