"""How a handler says which path it serves, and how a request finds it.

A family is any object whose methods carry `@route`:

    class TopicRoutes:
        @route("GET", "/topics")
        async def list_topics(self, request: Request) -> Response: ...

`Router(TopicRoutes(...), ...)` collects them. Every path is also there under `/v1`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from goqueue.protocols.http.responses import Response, problem

VERSION_PREFIX: Final = "/v1"
_STAMP: Final = "__http_routes__"


@dataclass(frozen=True, slots=True)
class Request:
    """What a handler is told."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """By their names in lower case."""

    def flag(self, name: str) -> bool:
        """Whether the query says yes to something: `?name`, `?name=true`, `?name=1`."""
        return self.query.get(name, "no").lower() in {"", "1", "true", "yes"}


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
_F = TypeVar("_F", bound=Callable[..., Any])


def route(method: str, path: str) -> Callable[[_F], _F]:
    """Declare that the method below serves a path; several may be stacked."""

    def stamp(function: _F) -> _F:
        setattr(function, _STAMP, (*getattr(function, _STAMP, ()), (method, path)))
        return function

    return stamp


class Router:
    """Every handler by its path and method."""

    def __init__(self, *families: object) -> None:
        self._methods: dict[str, dict[str, Handler]] = {}
        for family in families:
            self.add(family)

    def add(self, family: object) -> None:
        """Take in the handlers of one family.

        Raises:
            ValueError: a path is declared twice for one method.
        """
        for name in dir(type(family)):
            for method, path in getattr(getattr(type(family), name), _STAMP, ()):
                methods = self._methods.setdefault(path, {})
                if method in methods:
                    raise ValueError(f"two handlers declare {method} {path}")
                methods[method] = getattr(family, name)

    async def answer(self, request: Request) -> Response:
        """Let the right handler answer; say what there is when there is none."""
        methods = self._methods.get(_plain(request.path))
        if methods is None:
            return problem(404, f"there is nothing at {request.path}")
        # HEAD is GET, whose body the adapter leaves out.
        handler = methods.get("GET" if request.method == "HEAD" else request.method)
        if handler is None:
            allowed = ", ".join(sorted({*methods, *({"HEAD"} if "GET" in methods else ())}))
            return problem(
                405, f"{request.path} takes {allowed}, not {request.method}", (("allow", allowed),)
            )
        return await handler(request)


def _plain(path: str) -> str:
    """The path as routes are declared: without the version, without a slash at the end."""
    if path.startswith(VERSION_PREFIX + "/"):
        path = path.removeprefix(VERSION_PREFIX)
    return path.rstrip("/") or "/"
