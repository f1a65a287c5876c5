"""From a request to its answer: find the endpoint, let it answer, catch what went wrong.

Whatever a handler does, the client gets an answer: errors are caught here and nowhere else.
"""

from __future__ import annotations

import itertools
import logging
import re
import secrets
from functools import cached_property
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError, InvariantError
from goqueue.protocols.http.responses import Response
from goqueue.protocols.http.schema_contexts import is_in_context, without_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.protocols.http.node_state import NodeState
    from goqueue.protocols.http.requests import Request
    from goqueue.protocols.http.responses import Stream
    from goqueue.protocols.http.routing import Match, Router

_log = logging.getLogger(__name__)

_REQUEST_ID: Final = re.compile(rb"[!-~]{1,128}")

_ALLOWED_HEADERS: Final = "Accept, Authorization, Content-Type, X-API-Key, X-Request-ID"


def api_of(node: NodeState) -> HttpApp:
    """The whole API of one node, loaded with the first request: a start need not wait for it."""

    def load() -> Router:
        from goqueue.protocols.http.families import build_router  # noqa: PLC0415 - as said

        return build_router(node)

    return HttpApp(load)


class HttpApp:
    """Answers requests, whatever they were carried by."""

    def __init__(self, load: Callable[[], Router]) -> None:
        self._load = load
        self._run = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    @cached_property
    def router(self) -> Router:
        """Every route."""
        return self._load()

    def request_id(self, headers: dict[bytes, bytes]) -> str:
        """The client's own id for a request if it is a sane one, else one of ours."""
        given = headers.get(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode("ascii")
        return f"{self._run}-{next(self._numbers):x}"

    def match(self, request: Request) -> Match:
        """The endpoint of a request, before its body is there. Raises like `Router.match`."""
        try:
            if is_in_context(request.target):
                request.target = without_context(request.target)
            return self.router.match(request.method, request.raw_path)
        except GoQueueError:
            raise
        except Exception as error:
            # The parser that calls this would take it for a request that is none.
            _log.exception("%s %r failed", request.method, request.target)
            raise InvariantError from error

    async def answer(self, request: Request, match: Match) -> Response | Stream:
        """Let an endpoint answer. Raises nothing but `CancelledError`."""
        try:
            return await match.endpoint.answer(request, match.path)
        except GoQueueError as error:
            return self.refusal(request, error, match)
        except Exception:  # noqa: BLE001 - the one place where handlers' errors are caught
            _log.exception("%s %r failed", request.method, request.target)
            return self.refusal(request, InvariantError(), match)

    def refusal(
        self, request: Request, error: GoQueueError, match: Match | None = None
    ) -> Response:
        """What is said to a client whose request is refused; `match` is whom it was for."""
        from goqueue.protocols.http.problems import problem_of  # noqa: PLC0415 - as `api_of`

        dialect = None if match is None else match.endpoint.route.dialect
        if dialect is None:
            response = problem_of(error, request.request_id)
        else:
            response = dialect.refusal(request, error)
        if response.status == 500 and str(error):
            _log.error("%s %r failed: %r", request.method, request.target, error)
        # A refusal that is still held somewhere must not hold the request by its frames.
        error.with_traceback(None)
        return response

    def options(self, request: Request) -> Response:
        """What a path takes; a browser asks before it lets a page of another origin call.

        Raises:
            NoSuchPathError: there is nothing at the path.
        """
        star = request.target == b"*"
        allowed = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
        if not star:
            target = request.target
            if is_in_context(target):
                target = without_context(target)
            allowed = self.router.allowed(target.partition(b"?")[0])
        headers = [("allow", allowed)]
        if request.cors:
            headers += [
                ("access-control-allow-methods", allowed),
                ("access-control-allow-headers", _ALLOWED_HEADERS),
                ("access-control-max-age", "300"),
            ]
        return Response(204, b"", "", tuple(headers))
