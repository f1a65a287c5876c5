"""Requests of the HTTP API that came by a Kafka connection. It is loaded with the first of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from goqueue.protocols.kafka.cluster.http_calls import HttpAnswer, HttpCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from goqueue.protocols.http.api.app import HttpApp
    from goqueue.protocols.http.api.responses import Response
    from goqueue.protocols.kafka.context import RequestContext

_MAX_DETAIL_CHARS: Final = 1000
"""Of what an error carries; the rest is cut off."""


class HttpCalls:
    """The HTTP API of a node, as its Kafka listener sees it."""

    def __init__(self, app: Callable[[], HttpApp]) -> None:
        self._app = app

    async def __call__(self, ctx: RequestContext, call: HttpCall) -> HttpAnswer | None:
        """Answer a call; see `HttpCallsApi`."""
        from goqueue.protocols.http.api.carried import answer_carried  # noqa: PLC0415 - as said
        from goqueue.protocols.http.api.forwarded import take_marks  # noqa: PLC0415 - as said
        from goqueue.protocols.http.api.requests import Request  # noqa: PLC0415 - as said
        from goqueue.protocols.http.server.response_writer import (  # noqa: PLC0415 - as said
            log_access,
        )

        def may_wait() -> bool:
            ctx.is_long_poll = True
            return ctx.peer.is_open

        host = ctx.client_host
        request = Request(call.method, call.target, body=call.body, client_host=host)
        app, session = self._app(), ctx.peer.session
        if session.node is None:
            request.may = session.permissions
        else:
            principal = take_marks(request, call.headers, session.node.node_id)
            if app.gate is not None:
                request.may = app.gate.permissions_of(principal, request.client_host)
        response = await answer_carried(app, request, call.headers, may_wait)
        if response is None:
            return None
        log_access(request, response)
        return _answer(response)


def _answer(response: Response) -> HttpAnswer:
    from goqueue.protocols.http.api.errors import AtFieldError  # noqa: PLC0415 - as said

    headers = [("content-type", response.content_type), *response.headers]
    error, remote = response.error, response.remote_error
    if remote is not None:
        return HttpAnswer(response.status, headers, response.body, *remote)
    if error is None:
        return HttpAnswer(response.status, headers, response.body)
    if isinstance(error, AtFieldError):
        error = error.cause
    details = tuple((name, str(value)[:_MAX_DETAIL_CHARS]) for name, value in vars(error).items())
    return HttpAnswer(response.status, headers, response.body, type(error).__name__, details)
