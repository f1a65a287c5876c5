"""How a handler is declared: `@route` on a method of a family of handlers.

    class TopicRoutes(BrokerRoutes):
        @route("GET", "/topics/{topic}", tag="topics", place=LOCAL, right=on_topic(DESCRIBE))
        async def describe(self, path: TopicPath) -> TopicInfo:
            '''What a topic looks like now.'''

A handler asks for what it wants by the names of its parameters: `path`, `query` and `body` are
msgspec Structs that the request is checked against, `request` is the request itself, `may` is what
its client may do. What it returns is a Struct, or a `Response` that it made itself. `place` says
which node of a cluster calls the handler (`places`); on one node it says nothing. `right` says what
a client must be allowed to do (`rights`). Everything else, the document that describes the API
included, follows from these types; the docstring is the description.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.http.api.dialects import Dialect
    from goqueue.protocols.http.api.places import Place
    from goqueue.protocols.http.api.rights import Needs

KILOBYTE: Final = 1024
DEFAULT_BODY_BYTES: Final = 1024 * KILOBYTE
"""What a body may hold unless its route says otherwise; a larger one is answered with 413."""

_ROUTES: Final = "__http_routes__"

_F = TypeVar("_F", bound=Callable[..., Any])


class BrokerRoutes:
    """A family of handlers over one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker


@dataclass(frozen=True, slots=True)
class Route:
    """How a handler is reached, and what is said of it."""

    method: str
    path: str
    tag: str
    right: Needs
    """What a client must be allowed to do."""
    status: int = 200
    answers: Mapping[int, Any] = field(default_factory=dict)
    """What else than problems it may answer, by status: a Struct, or a media type."""
    max_body_bytes: int = DEFAULT_BODY_BYTES
    dialect: Dialect | None = None
    """How its answers are written, where they are not as everywhere."""
    polls: bool = False
    """It waits for something to happen: no deadline, and none to wait for when the client goes."""
    takes_rest: bool = False
    """Its last parameter stands for all the rest of the path, slashes included."""
    is_page: bool = False
    """It is for people to look at, and any site may link to it; it changes nothing."""
    waits: str | None = None
    """The field that says how long it may wait, such as `query.timeout`."""
    place: Place | None = None
    """Which node of a cluster answers; one node answers everything."""


def route(method: str, path: str, *, tag: str, right: Needs, **options: Any) -> Callable[[_F], _F]:
    """Declare that the method below serves a path; several may be stacked."""
    declared = Route(method, path, tag, right, **options)

    def stamp(function: _F) -> _F:
        setattr(function, _ROUTES, (declared, *getattr(function, _ROUTES, ())))
        return function

    return stamp


def routes_of(function: object) -> tuple[Route, ...]:
    """What was declared for a method, in the order in which it is written."""
    return getattr(function, _ROUTES, ())
