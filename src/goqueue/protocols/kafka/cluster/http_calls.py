"""CallHttp, an API of our own: a request of the HTTP API over a connection of a Kafka client.

A client that knows the Kafka address only, and has logged in there, administers the broker by it.
The HTTP API is handed in; this package does not know it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import within
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.protocols.kafka.context import RequestContext, Response, Struct


class HttpCall(msgspec.Struct, frozen=True):
    """A request of the HTTP API."""

    method: str
    target: bytes
    """Path and query."""
    headers: list[tuple[bytes, bytes]]
    body: bytes


class HttpAnswer(msgspec.Struct, frozen=True):
    """Its answer."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    error_name: str = ""
    """The class of the error, where it was refused."""
    error_details: tuple[tuple[str, str], ...] = ()
    """What the error carried besides its text."""


CallHttp: TypeAlias = "Callable[[RequestContext, HttpCall], Awaitable[HttpAnswer | None]]"
"""Answers a call; None when the client has gone before it began."""


class HttpCallsApi:
    """Hands requests to the HTTP API."""

    def __init__(self, call: CallHttp) -> None:
        self._call = call

    @api(ApiKey.CALL_HTTP, right=within(note="what its route needs"))
    async def call_http(self, ctx: RequestContext, request: Struct) -> Response | None:
        """The answer of the HTTP API, whatever its status is."""
        headers = [(each.name.lower().encode(), each.value.encode()) for each in request.headers]
        call = HttpCall(request.method, request.target.encode(), headers, request.body)
        answer = await self._call(ctx, call)
        if answer is None:
            return None
        return {
            "error_code": ErrorCode.none,
            "status": answer.status,
            "error_name": answer.error_name,
            "error_details": _pairs(answer.error_details),
            "headers": _pairs(answer.headers),
            "body": answer.body,
        }


def _pairs(
    pairs: list[tuple[str, str]] | tuple[tuple[str, str], ...],
) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in pairs]
