"""What a route answers, and the few shapes that answers have."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import msgspec

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer; nothing here is streamed."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


def json(value: Any, status: int = HTTPStatus.OK) -> Response:
    """Anything that msgspec can write."""
    return Response(status, msgspec.json.encode(value))


def problem(status: int, detail: str, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """What is wrong, as RFC 9457 writes it; `error` says the same under the API's own name."""
    body = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "detail": detail,
        "error": detail,
    }
    return Response(status, msgspec.json.encode(body), PROBLEM, headers)
