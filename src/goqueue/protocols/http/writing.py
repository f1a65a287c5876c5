"""Answers as bytes. What is the same for many answers is written once."""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING

from goqueue.protocols.http.app import CORS

if TYPE_CHECKING:
    from goqueue.protocols.http.requests import Request
    from goqueue.protocols.http.responses import Response


def head_of(
    response: Response, request: Request, date: bytes, *, closes: bool, old_version: bool
) -> bytes:
    """Everything before the body."""
    status, body, content_type, headers = response
    if b"origin" in request.headers:
        headers = (*headers, *CORS)
    if closes:
        headers = (*headers, ("connection", "close"))
    elif old_version:
        headers = (*headers, ("connection", "keep-alive"))
    request_id = (request.request_id or "-").encode("ascii")
    return b"%bdate: %b\r\ncontent-length: %d\r\nx-request-id: %b\r\n\r\n" % (
        _common(status, content_type, headers),
        date,
        len(body),
        request_id,
    )


@lru_cache(maxsize=256)
def _common(status: int, content_type: str, headers: tuple[tuple[str, str], ...]) -> bytes:
    """The status line and every header that does not change from answer to answer."""
    lines = [f"HTTP/1.1 {int(status)} {HTTPStatus(status).phrase}"]
    if content_type:
        lines.append(f"content-type: {content_type}")
    lines += [f"{name}: {value}" for name, value in headers]
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")
