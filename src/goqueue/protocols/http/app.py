"""The ASGI adapter: from what the HTTP server says to a `Request`, and back from a `Response`.

Whatever a handler does, the client gets an answer: errors are caught here and nowhere else.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import parse_qsl

from goqueue.protocols.http.responses import Response, problem
from goqueue.protocols.http.routing import Request

if TYPE_CHECKING:
    from goqueue.protocols.http.routing import Router

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

_log = logging.getLogger(__name__)


class HttpApp:
    """An ASGI application over a router."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def __call__(self, scope: Message, _receive: Receive, send: Send) -> None:
        """Serve one request. Bodies are not read: no route takes one yet."""
        request = _request(scope)
        await _send(send, await self._answer(request), with_body=request.method != "HEAD")

    async def _answer(self, request: Request) -> Response:
        try:
            return await self._router.answer(request)
        except Exception:  # noqa: BLE001 - the one place where handlers' errors are caught
            _log.exception("%s %s failed", request.method, request.path)
            return problem(500, "the server failed on this request; its log says why")


def _request(scope: Message) -> Request:
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return Request(scope["method"], scope["path"], dict(query), headers)


async def _send(send: Send, response: Response, *, with_body: bool) -> None:
    headers = [
        (b"content-type", response.content_type.encode("latin-1")),
        (b"content-length", str(len(response.body)).encode("latin-1")),
        *((name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers),
    ]
    await send({"type": "http.response.start", "status": int(response.status), "headers": headers})
    await send({"type": "http.response.body", "body": response.body if with_body else b""})
