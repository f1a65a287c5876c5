"""What a route answers, and the few shapes that answers have."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"

encode: Final = msgspec.json.Encoder().encode


class Response(NamedTuple):
    """A whole answer; nothing here is streamed."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


def json(value: Any, status: int = HTTPStatus.OK) -> Response:
    """Anything that msgspec can write."""
    return Response(status, encode(value))
