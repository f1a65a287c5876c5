"""Kafka and HTTP as an attacker writes them: any field, any bytes, one connection an attempt."""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from benchmarks._attacks import CLOSED, HOST, connect, send_all
from benchmarks._raw_client import frame
from goqueue.protocols.kafka.reading import reader_of
from goqueue.protocols.kafka.schema import schema_of
from goqueue.protocols.kafka.wire import Cursor
from goqueue.protocols.kafka.writing import writer_of

if TYPE_CHECKING:
    import socket

    from goqueue.protocols.kafka.api_keys import ApiKey

_INT: Final = struct.Struct(">i")
_WRITER: Final = cache(lambda key, version: writer_of(schema_of(key, version, "request")))
_READER: Final = cache(lambda key, version: reader_of(schema_of(key, version, "response")))


def request(key: ApiKey, version: int, **fields: Any) -> bytes:
    """A request of Kafka's protocol."""
    body = bytearray()
    _WRITER(key, version)(body, fields)
    flexible = schema_of(key, version, "request").has_flexible_header
    return frame(key, version, (b"\0" if flexible else b"") + bytes(body))


def ask(port: int, key: ApiKey, version: int, **fields: Any) -> Any:
    """Send a request on a connection of its own; what came back, and how many bytes.

    Raises:
        ConnectionError: the broker closed the connection.
    """
    with connect(port) as sock:
        send_all(sock, request(key, version, **fields))
        data = _exactly(sock, _INT.unpack(_exactly(sock, _INT.size))[0])
    flexible = schema_of(key, version, "response").has_flexible_header
    return _READER(key, version)(Cursor(memoryview(data)[5 if flexible else 4 :])), len(data)


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
