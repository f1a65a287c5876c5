"""Attacks on the HTTP and gRPC listeners."""

from __future__ import annotations

from functools import cache
from typing import Final

from benchmarks._attacks import CLOSED, HOST, Attack, Target, connect, send_all

TOPIC: Final = "attacked"
_TRAILER_BYTES: Final = 8 << 20


def _status(port: int, data: bytes) -> str:
    """Send bytes; the status of the first answer."""
    with connect(port) as sock:
        send_all(sock, data)
        head = sock.recv(1 << 16)
    return head.split(b"\r\n", 1)[0].decode("latin-1") or CLOSED


def _post(port: int, headers: str, body: bytes = b"") -> bytes:
    head = f"POST /topics/{TOPIC}/messages HTTP/1.1\r\nhost: {HOST}:{port}\r\n{headers}\r\n"
    return head.encode() + body


@cache
def _trailers() -> bytes:
    line = b"x-%07d: " + b"t" * 1000 + b"\r\n"
    return b"".join(line % number for number in range(_TRAILER_BYTES // 1000))


def trailers(target: Target) -> str:
    """A body of nothing, and megabytes of trailers after it."""
    head = _post(target.http_port, "transfer-encoding: chunked\r\n", b"0\r\n")
    return _status(target.http_port, head + _trailers())


ATTACKS: Final = [
    Attack(7, "HTTP trailers", trailers, "HTTP/1.1 431"),
]
