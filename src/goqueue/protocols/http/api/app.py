"""From a request to its answer: find the endpoint, let it answer, catch what went wrong.

Whatever a handler does, the client gets an answer: errors are caught here and nowhere else.
"""

from __future__ import annotations

import itertools
import logging
import re
import secrets
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from goqueue.access.tenants.namespace import Namespace, namespace_of
from goqueue.cluster.facts import as_refused
from goqueue.model.errors import GoQueueError, InvariantError
from goqueue.protocols.http.api.responses import Response, Stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.protocols.http.api.endpoint import Endpoint
    from goqueue.protocols.http.api.gate import Gate
    from goqueue.protocols.http.api.requests import Request
    from goqueue.protocols.http.api.router import Match, Router

_log = logging.getLogger(__name__)

_REQUEST_ID: Final = re.compile(rb"[!-~]{1,128}")

_ALLOWED_HEADERS: Final = "Accept, Authorization, Content-Type, X-API-Key, X-Request-ID"
_FOR_PAGES: Final = (("www-authenticate", 'Bearer realm="goqueue"'),)


class HttpApp:
    """Answers requests, whatever they were carried by."""

    def __init__(
        self,
        load: Callable[[], Router],
        rewrite: Callable[[bytes], bytes] = bytes,
        gate: Gate | None = None,
    ) -> None:
        """Find endpoints in the router that `load` makes, by targets as `rewrite` returns them.

        `gate` asks clients who they are; without it everybody may do everything.
        """
        self.gate = gate
        self._load = load
        self._rewrite = rewrite
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
            request.target = self._rewrite(request.target)
            return self.router.match(request.method, request.raw_path)
        except GoQueueError:
            raise
        except Exception as error:
            # The parser that calls this would take it for a request that is none.
            _log.exception("%s %r failed", request.method, request.target)
            raise InvariantError from error

    async def answer(self, request: Request, match: Match) -> Response | Stream:
        """Let an endpoint answer. Raises nothing but `CancelledError`."""
        response = await self._answered(request, match)
        namespace = _namespace_of(request)
        if namespace is None or request.sender is not None:
            return response  # another node, which the client has called, translates it
        if isinstance(response, Stream) or not _is_json(response) or not response.body:
            return response  # an export has bare names already
        from goqueue.protocols.http.namespaces import body_outside  # noqa: PLC0415 - of tenants alone

        return response._replace(body=body_outside(response.body, namespace))

    async def _answered(self, request: Request, match: Match) -> Response | Stream:
        try:
            endpoint, arguments = match.endpoint, await self.arguments(request, match)
            response = await self._called(request, endpoint, arguments)
        except GoQueueError as error:
            return self.refusal(request, error, match)
        except Exception:  # noqa: BLE001 - the one place where handlers' errors are caught
            return self.failed(request, match)
        if self.gate is not None:
            self.gate.answered(request, endpoint.route, response)
        return response

    async def arguments(self, request: Request, match: Match) -> dict[str, Any]:
        """What the handler is called with, for a client that may call it.

        Raises:
            AuthenticationFailedError, AuthorizationFailedError: it may not.
            RateLimitedError: it may not yet.
            FieldError, MalformedBodyError, MalformedRequestError: the request is not what it has
                to be.
        """
        endpoint, gate = match.endpoint, self.gate
        if gate is None:
            return endpoint.arguments(request, match.path)
        right = endpoint.route.right
        may = await gate.admit(request, right)
        arguments = endpoint.arguments(request, match.path)
        namespace = _namespace_of(request)
        if namespace is not None:
            from goqueue.protocols.http.namespaces import arguments_inside  # noqa: PLC0415 - as above

            arguments = arguments_inside(arguments, namespace)
        if not gate.may_call(may, right):
            right.require(may, arguments)
        gate.charge(request, endpoint.route)
        return arguments

    async def _called(
        self, request: Request, endpoint: Endpoint, arguments: dict[str, Any]
    ) -> Response | Stream:
        return endpoint.response(request, await endpoint.handler(**arguments))

    def failed(self, request: Request, match: Match) -> Response:
        """What is said of a handler that has just failed in a way that nobody expected."""
        _log.exception("%s %r failed", request.method, request.target)
        return self.refusal(request, InvariantError(), match)

    def refusal(
        self, request: Request, error: GoQueueError, match: Match | None = None
    ) -> Response:
        """What is said to a client whose request is refused; `match` is whom it was for."""
        from goqueue.protocols.http.api.problems import problem_of  # noqa: PLC0415 - with the first refusal

        error = as_refused(error)
        dialect = None if match is None else match.endpoint.route.dialect
        if dialect is None:
            response = problem_of(error, request.request_id)
        else:
            response = dialect.refusal(request, error)
        if response.status == HTTPStatus.UNAUTHORIZED and b"sec-fetch-site" in request.headers:
            # A browser would ask for a password by itself, in front of the console's own page.
            response = response._replace(headers=_FOR_PAGES)
        if response.status == 500 and str(error):
            _log.error("%s %r failed: %r", request.method, request.target, error)
        # A refusal that is still held somewhere must not hold the request by its frames.
        error.with_traceback(None)
        return response._replace(error=error)

    def options(self, request: Request) -> Response:
        """What a path takes; a browser asks before it lets a page of another origin call.

        Raises:
            NoSuchPathError: there is nothing at the path.
        """
        star = request.target == b"*"
        allowed = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
        if not star:
            allowed = self.router.allowed(self._rewrite(request.target).partition(b"?")[0])
        headers = [("allow", allowed)]
        if request.cors:
            headers += [
                ("access-control-allow-methods", allowed),
                ("access-control-allow-headers", _ALLOWED_HEADERS),
                ("access-control-max-age", "300"),
            ]
        return Response(204, b"", "", tuple(headers))


def _is_json(response: Response) -> bool:
    """Whether an answer is one JSON document."""
    return "json" in response.content_type and "ndjson" not in response.content_type


def _namespace_of(request: Request) -> Namespace | None:
    """The names of the client's tenant, if it belongs to one."""
    tenant = None if request.may is None else request.may.principal.tenant
    return None if tenant is None else namespace_of(tenant)
