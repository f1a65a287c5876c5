"""What a route answers, and the few shapes that answers have."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from goqueue.model.errors import GoQueueError

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"

encode: Final = msgspec.json.Encoder().encode


class RemoteError(NamedTuple):
    """What another node has said of an error."""

    name: str
    """Its class."""
    details: tuple[tuple[str, str], ...]
    """What it carries besides its text."""


class Response(NamedTuple):
    """A complete response; a streamed one is a `Stream`."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    error: GoQueueError | None = None
    """Why the request was refused, where it was."""
    remote_error: RemoteError | None = None
    """The same, where another node has refused it."""


class Stream(NamedTuple):
    """An answer that goes on for as long as its client listens, or until its parts end.

    The connection ends with it. Parts are asked for one by one, each when the client has taken
    what came before, so a slow client has at most one waiting. Only of routes that poll.
    """

    parts: AsyncGenerator[bytes]
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()
    status: int = HTTPStatus.OK


def json(value: Any, status: int = HTTPStatus.OK) -> Response:
    """Anything that msgspec can write."""
    return Response(status, encode(value))
