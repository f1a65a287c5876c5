"""Kafka and HTTP as an attacker writes them: any field, any bytes, one connection an attempt."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from benchmarks._attacks import CLOSED, HOST, connect, send_all
from goqueue.wire.kafka.frames import parse_response, request_frame

if TYPE_CHECKING:
    import socket

    from goqueue.wire.kafka.api_keys import ApiKey

_INT: Final = struct.Struct(">i")


def request(key: ApiKey, version: int, **fields: Any) -> bytes:
    """A request of Kafka's protocol."""
    return bytes(request_frame(1, b"bench", fields, key, version))


def ask(port: int, key: ApiKey, version: int, **fields: Any) -> Any:
    """Send a request on a connection of its own; what came back, and how many bytes.

    Raises:
        ConnectionError: the broker closed the connection.
    """
    with connect(port) as sock:
        send_all(sock, request(key, version, **fields))
        data = _exactly(sock, _INT.unpack(_exactly(sock, _INT.size))[0])
    return parse_response(memoryview(data), key, version)[1], len(data)


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("the broker closed the connection")
        data += piece
    return bytes(data)


def first_line(port: int, data: bytes) -> str:
    """Send bytes to a port; the first line of what comes back."""
    with connect(port) as sock:
        send_all(sock, data)
        head = sock.recv(1 << 16)
    return head.split(b"\r\n", 1)[0].decode("latin-1") or CLOSED


def http_request(port: int, method: str, path: str, headers: str = "", body: bytes = b"") -> bytes:
    """A request with `headers`, each of which ends its line."""
    if body:
        headers += f"content-length: {len(body)}\r\n"
    return f"{method} {path} HTTP/1.1\r\nhost: {HOST}:{port}\r\n{headers}\r\n".encode() + body
