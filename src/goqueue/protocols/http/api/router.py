"""Which handler serves which path: `Router(TopicRoutes(...), ...)` collects what `@route` declares.

Every path is also there under `/v1`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from goqueue.model.tuples import NamedTuple
from goqueue.protocols.http.api.endpoint import Endpoint, RefusingEndpoint
from goqueue.protocols.http.api.errors import (
    MalformedRequestError,
    MethodNotAllowedError,
    NoSuchPathError,
)
from goqueue.protocols.http.api.route import Route, routes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec

    from goqueue.model.errors import GoQueueError


VERSION_PREFIX: Final = "v1"
_REMEMBERED_PATHS: Final = 4096
"""Paths that need not be taken apart again; at the bound all are forgotten."""
_REMEMBERED_PATH_BYTES: Final = 256
"""A longer path is taken apart each time."""


class Match(NamedTuple):
    """The endpoint of a request, with the parameters of its path."""

    endpoint: Endpoint
    path: msgspec.Struct | None


class _Node:
    """One step of a path: what may follow, and what ends here."""

    __slots__ = ("endpoints", "literals", "parameter", "rest")

    def __init__(self) -> None:
        self.literals: dict[str, _Node] = {}
        self.parameter: _Node | None = None
        self.rest: _Node | None = None
        """What takes all further steps at once, where no literal does."""
        self.endpoints: dict[str, Endpoint] = {}


class Router:
    """Every handler by its path and method."""

    def __init__(self, *families: object) -> None:
        self._root = _Node()
        self._remembered: dict[tuple[str, bytes], Match] = {}
        self.endpoints: list[Endpoint] = []
        for family in families:
            self.add(family)

    def add(self, family: object, refusal: GoQueueError | None = None) -> None:
        """Take in the handlers of one family, in the order in which they are written.

        With a `refusal` all of them answer it.

        Raises:
            ValueError: a path is declared twice for one method.
        """
        for name, function in _functions(type(family)):
            for declared in routes_of(function):
                handler = getattr(family, name)
                endpoint = Endpoint(declared, handler)
                if refusal is not None:
                    endpoint = RefusingEndpoint(declared, handler, refusal)
                node = self._node(declared)
                if declared.method in node.endpoints:
                    raise ValueError(f"two handlers declare {declared.method} {declared.path}")
                node.endpoints[declared.method] = endpoint
                self.endpoints.append(endpoint)

    def _node(self, declared: Route) -> _Node:
        node = self._root
        steps = _steps(declared.path)
        for number, step in enumerate(steps, 1):
            if declared.takes_rest and number == len(steps):
                node.rest = node.rest or _Node()
                node = node.rest
            elif step.startswith("{"):
                node.parameter = node.parameter or _Node()
                node = node.parameter
            else:
                node = node.literals.setdefault(step, _Node())
        return node

    def match(self, method: str, raw_path: bytes) -> Match:
        """The endpoint that serves a request; HEAD is served by GET.

        Raises:
            NoSuchPathError, MethodNotAllowedError: there is none.
            MalformedRequestError: the path does not decode.
            FieldError: a part of the path is not what it has to be.
        """
        found = self._remembered.get((method, raw_path))
        if found is None:
            found = self._find(method, raw_path)
            if len(raw_path) <= _REMEMBERED_PATH_BYTES:
                if len(self._remembered) >= _REMEMBERED_PATHS:
                    self._remembered.clear()
                self._remembered[method, raw_path] = found
        return found

    def _find(self, method: str, raw_path: bytes) -> Match:
        node, values = self._walk(raw_path)
        endpoint = node.endpoints.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            allowed = _allowed(node)
            raise MethodNotAllowedError(
                f"{_shown(raw_path)} takes {allowed}, not {method}", allowed
            )
        return Match(endpoint, endpoint.bind_path(values))

    def allowed(self, raw_path: bytes) -> str:
        """The methods that a path takes. Raises like `match`."""
        return _allowed(self._walk(raw_path)[0])

    def _walk(self, raw_path: bytes) -> tuple[_Node, list[str]]:
        steps = list(_steps(raw_path.decode("latin-1")))
        if steps[:1] == [VERSION_PREFIX]:
            del steps[0]
        values: list[str] = []
        node: _Node | None = self._root
        for number, step in enumerate(steps):
            following = node.literals.get(step) if node else None
            if following is None and node is not None and node.rest is not None:
                values.append("/".join(_decoded(each) for each in steps[number:]))
                node = node.rest
                break
            if following is None and node is not None and node.parameter is not None:
                values.append(_decoded(step))
                following = node.parameter
            node = following
        if node is None or not node.endpoints:
            raise NoSuchPathError(f"there is nothing at {_shown(raw_path)}; /docs lists the API")
        return node, values


def _functions(family: type) -> Iterator[tuple[str, Any]]:
    """What a class and its ancestors define, in the order in which it is written."""
    for kind in reversed(family.__mro__):
        yield from vars(kind).items()


def _steps(path: str) -> list[str]:
    """The parts of a path; a slash at the end says nothing."""
    path = path.removeprefix("/").removesuffix("/")
    return path.split("/") if path else []


def _decoded(step: str) -> str:
    try:
        return unquote_to_bytes(step.encode("latin-1")).decode()
    except UnicodeDecodeError as error:
        raise MalformedRequestError(f"{step[:60]!r} in the path is not UTF-8") from error


def _allowed(node: _Node) -> str:
    more = {"OPTIONS", *({"HEAD"} if "GET" in node.endpoints else ())}
    return ", ".join(sorted({*node.endpoints, *more}))


def _shown(raw_path: bytes) -> str:
    text = raw_path.decode("latin-1")
    return text if len(text) <= 100 else text[:100] + "…"
