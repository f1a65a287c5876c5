"""Answers as bytes. What is the same for many answers is written once."""

from __future__ import annotations

import logging
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from goqueue.protocols.http.api.requests import Request
    from goqueue.protocols.http.api.responses import Response, Stream

_access: Final = logging.getLogger("goqueue.http.access")

_NOT_MODIFIED: Final = 304
LAST_CHUNK: Final = b"0\r\n\r\n"


def head_of(
    response: Response, request: Request, date: bytes, *, closes: bool, old_version: bool
) -> bytes:
    """Everything before the body."""
    status, body, content_type, headers, _, _ = response
    if request.cors:
        headers = (*headers, *request.cors)
    if closes:
        headers = (*headers, ("connection", "close"))
    elif old_version:
        headers = (*headers, ("connection", "keep-alive"))
    request_id = (request.request_id or "-").encode("ascii")
    if status == _NOT_MODIFIED:  # a length would be that of what the client has already
        return b"%bdate: %b\r\nx-request-id: %b\r\n\r\n" % (
            _common(status, content_type, headers),
            date,
            request_id,
        )
    return b"%bdate: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n\r\n" % (
        _common(status, content_type, headers),
        date,
        len(body),
        request_id,
    )


def stream_head(stream: Stream, request: Request, date: bytes, *, old_version: bool) -> bytes:
    """Everything before the parts of an answer whose length nobody knows."""
    headers = (*stream.headers, ("connection", "close"))
    if request.cors:
        headers = (*headers, *request.cors)
    if not old_version:
        headers = (*headers, ("transfer-encoding", "chunked"))
    request_id = (request.request_id or "-").encode("ascii")
    common = _common(stream.status, stream.content_type, headers)
    return b"%bdate: %b\r\nx-request-id: %b\r\n\r\n" % (common, date, request_id)


def chunk_of(part: bytes) -> bytes:
    """A part of such an answer; an empty one would end it."""
    return b"%x\r\n%b\r\n" % (len(part), part) if part else b""


@lru_cache(maxsize=256)
def _common(status: int, content_type: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    """The status line and every header that does not change from answer to answer."""
    lines = [f"HTTP/1.1 {int(status)} {HTTPStatus(status).phrase}"]
    if content_type:
        lines.append(f"content-type: {content_type}")
    lines += [f"{name}: {value}" for name, value in headers]
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")


def log_access(request: Request, response: Response) -> None:
    """One line a request, for who wants to see them all."""
    if not _access.isEnabledFor(logging.DEBUG):
        return
    target = request.target.decode("latin-1")
    _access.debug(
        "%s %s %s %d %d bytes %s",
        request.client_host,
        request.method,
        target,
        response.status,
        len(response.body),
        request.request_id,
    )
