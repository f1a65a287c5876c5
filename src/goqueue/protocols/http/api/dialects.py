"""How a family of routes writes its answers, where clients of another product expect theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.model.tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from goqueue.model.errors import GoQueueError
    from goqueue.protocols.http.api.requests import Request
    from goqueue.protocols.http.api.responses import Response


class Dialect(NamedTuple):
    """How the registry differs from the rest of the API: media type and error body."""

    name: str
    media_types: tuple[str, ...]
    """Of answers, the usual one first."""
    error_type: type[msgspec.Struct]
    answer: Callable[[Request, int, bytes], Response]
    """A whole answer, of a status and a body."""
    refusal: Callable[[Request, GoQueueError], Response]
    """What is said to a client whose request is refused."""
