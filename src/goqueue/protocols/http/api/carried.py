"""Requests that came over a connection of another protocol, which bounds their size and number."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import GoQueueError
from goqueue.protocols.http.api.errors import (
    BodyTooLargeError,
    DeadlineExceededError,
    HeadTooLargeError,
    HttpOnlyError,
    MalformedRequestError,
)
from goqueue.protocols.http.api.responses import Response, Stream
from goqueue.protocols.http.limits import MAX_CARRIED_HEADERS, MAX_HEAD_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.protocols.http.api.app import HttpApp
    from goqueue.protocols.http.api.requests import Request
    from goqueue.protocols.http.api.router import Match

_MAX_METHOD_CHARS: Final = 16
POLL_S: Final = 75.0
"""How long a request may wait for something to happen; then 504."""


async def answer_carried(
    app: HttpApp,
    request: Request,
    headers: Sequence[tuple[bytes, bytes]],
    may_wait: Callable[[], bool],
    poll_s: float = POLL_S,
) -> Response | None:
    """The answer to a request whose headers are `headers`. Raises nothing but `CancelledError`.

    `may_wait` is asked before a request that waits for something to happen; such a one may be
    cancelled from there on. When it says no, nobody is there any more, and the answer is None.
    """
    request.headers = dict(headers)
    request.request_id = app.request_id(request.headers)
    match: Match | None = None
    try:
        _check_head(request, headers)
        match = app.match(request)
        _check(request, match)
    except GoQueueError as error:
        return app.refusal(request, error, match)
    route = match.endpoint.route
    if not route.polls:
        return _whole(app, request, await app.answer(request, match))
    if not may_wait():
        return None
    try:
        async with asyncio.timeout(poll_s):
            return _whole(app, request, await app.answer(request, match))
    except TimeoutError:
        late = DeadlineExceededError(f"no answer within {poll_s:g} s")
        return app.refusal(request, late, match)


def _check_head(request: Request, headers: Sequence[tuple[bytes, bytes]]) -> None:
    size_bytes = len(request.target) + sum(len(name) + len(value) for name, value in headers)
    if size_bytes > MAX_HEAD_BYTES or len(headers) > MAX_CARRIED_HEADERS:
        raise HeadTooLargeError(
            f"the target and {len(headers)} headers have {size_bytes} bytes, expected at most "
            f"{MAX_CARRIED_HEADERS} headers and {MAX_HEAD_BYTES} bytes"
        )
    if not request.target.startswith(b"/"):
        raise MalformedRequestError("the target is not a path: it starts with /, as in /v1/topics")
    if len(request.method) > _MAX_METHOD_CHARS:
        raise MalformedRequestError("the method is not one of HTTP's")


def _check(request: Request, match: Match) -> None:
    endpoint = match.endpoint
    if endpoint.route.is_page or endpoint.types.streams:
        path = endpoint.route.path
        what = "a page" if endpoint.route.is_page else "a stream"
        raise HttpOnlyError(f"{path} is {what}: open it at the server's HTTP address")
    limit = endpoint.route.max_body_bytes
    if len(request.body) > limit:
        raise BodyTooLargeError(
            f"{endpoint.route.path} takes a body of up to {limit} bytes, this one has "
            f"{len(request.body)}"
        )


def _whole(app: HttpApp, request: Request, answer: Response | Stream) -> Response:
    if isinstance(answer, Stream):
        return app.refusal(request, HttpOnlyError("the answer is a stream"))
    return answer._replace(body=b"") if request.method == "HEAD" else answer
