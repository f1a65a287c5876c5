"""The HTTP listener: the bytes of a connection, from its first to its last."""

from __future__ import annotations

import json
import re
import socket
from typing import Final

from fuzz.live import TOPIC, WAIT_S, FindingError, broker

_STATUS: Final = re.compile(rb"HTTP/1\.1 (\d{3}) [ -~]*\r\n")
_INTERNAL_ERROR: Final = 500
_READ_BYTES: Final = 1 << 20
REQUESTS: Final[list[tuple[str, str, object]]] = [
    ("GET", "/health", None),
    ("GET", "/topics?limit=5&prefix=a", None),
    ("POST", "/topics", {"name": TOPIC, "partitions": 2, "config": {"retention.ms": "60000"}}),
    ("PATCH", f"/topics/{TOPIC}", {"config": {"retention.ms": "70000"}}),
    ("POST", f"/topics/{TOPIC}/messages", {"messages": [{"key": "k", "value": "v", "delay": 1}]}),
    ("GET", f"/topics/{TOPIC}/partitions/0/messages?offset=0&limit=10", None),
    ("GET", "/groups", None),
    ("POST", "/subjects/s-value/versions", {"schema": '{"type":"string"}'}),
    ("POST", "/queue/groups/g/join", {"topics": [TOPIC], "client_id": "c"}),
    ("GET", "/console/topics", None),
    ("GET", "/traces?limit=5", None),
]


def seeds() -> list[bytes]:
    """One request of each kind, with a length and in chunks, and two in a row."""
    whole = [_request(*each) for each in REQUESTS]
    chunked = [_request(*each, chunked=True) for each in REQUESTS if each[2] is not None]
    return [*whole, *chunked, whole[0] + whole[1]]


def _request(method: str, target: str, body: object, *, chunked: bool = False) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
    if chunked:
        head += "content-type: application/json\r\ntransfer-encoding: chunked\r\n"
        data = b"%x;a=b\r\n%b\r\n0\r\nx-trailer: t\r\n\r\n" % (len(data), data)
    elif data:
        head += f"content-type: application/json\r\ncontent-length: {len(data)}\r\n"
    return head.encode() + b"\r\n" + data


def check(data: bytes) -> None:
    """It is answered or the connection is closed, and nothing is answered with 500."""
    address = ("127.0.0.1", broker().http_port)
    answer = bytearray()
    with socket.create_connection(address, timeout=WAIT_S) as sock:
        try:
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)
            while len(answer) < _READ_BYTES and (part := sock.recv(1 << 16)):
                answer += part
        except TimeoutError as error:
            raise FindingError("neither answered nor closed") from error
        except OSError:
            pass  # refused while it was still sending
    if answer and not _STATUS.match(answer):
        raise FindingError(f"this is no answer: {bytes(answer[:200])!r}")
    if any(int(found) == _INTERNAL_ERROR for found in _STATUS.findall(answer)):
        raise FindingError(f"answered with 500: {bytes(answer[:1000])!r}")
