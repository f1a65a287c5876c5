"""Attacks on the HTTP listener."""

from __future__ import annotations

import os
import time
from functools import cache
from typing import Final

from benchmarks._attacks import CLOSED, Attack, Target, any_closed, connect, send_all
from benchmarks._attacks_wire import first_line, http_request
from benchmarks._http_client import make_topic

TOPIC: Final = "attacked"
_PUBLISH: Final = f"/topics/{TOPIC}/messages"
_TRAILER_BYTES: Final = 8 << 20
_PATH_BYTES: Final = 60_000
_IDLE_CONNECTIONS: Final = 200
"""Of each thread: eight of them want more connections than the listener has."""
_IDLE_S: Final = 2.0


def make_attacked(target: Target) -> None:
    """Make the topic that is attacked."""
    make_topic(target.http_port, TOPIC)


def web_page(target: Target) -> str:
    """A page of another site publishes as its forms can: as text."""
    said = (
        "origin: https://evil.example\r\nsec-fetch-site: cross-site\r\ncontent-type: text/plain\r\n"
    )
    body = b'{"messages":[{"value":"v"}]}'
    return first_line(
        target.http_port, http_request(target.http_port, "POST", _PUBLISH, said, body)
    )


@cache
def _trailers() -> bytes:
    line = b"x-%07d: " + b"t" * 1000 + b"\r\n"
    return b"".join(line % number for number in range(_TRAILER_BYTES // 1000))


def trailers(target: Target) -> str:
    """A body of nothing, and megabytes of trailers after it."""
    said = "transfer-encoding: chunked\r\n"
    head = http_request(target.http_port, "POST", _PUBLISH, said)
    return first_line(target.http_port, head + b"0\r\n" + _trailers())


def console_paths(target: Target) -> str:
    """A page of the console that nobody has asked for before, with the longest path."""
    path = f"/console/{os.urandom(16).hex()}/" + "p" * _PATH_BYTES
    return first_line(target.http_port, http_request(target.http_port, "GET", path))


def idle_connections(target: Target) -> str:
    """Connections that say nothing, or half of a request."""
    half = http_request(target.http_port, "GET", "/healthz")[:-2]
    held = [connect(target.http_port) for _ in range(_IDLE_CONNECTIONS)]
    try:
        for sock in held[::2]:
            send_all(sock, half)
        time.sleep(_IDLE_S)
        return CLOSED if any_closed(held) else "held"
    finally:
        for sock in held:
            sock.close()


ATTACKS: Final = [
    Attack(1, "web page", web_page, ("HTTP/1.1 403",), make_attacked),
    Attack(7, "HTTP trailers", trailers, ("HTTP/1.1 431",), make_attacked),
    Attack(7, "console paths", console_paths, ("HTTP/1.1 200",)),
    Attack(7, "idle HTTP connections", idle_connections, (CLOSED,)),
]
