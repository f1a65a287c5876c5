"""The gRPC listener: HTTP/2 frames as they are on the wire."""

from __future__ import annotations

import socket
import struct
from typing import Final

from fuzz.live import TOPIC, FindingError, broker
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _END_HEADERS = 1, 4
_QUIET_S: Final = 0.05
"""After this long without a byte from the server, it has said what it has to say."""


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _literal(name: bytes, value: bytes) -> bytes:
    """A header that uses no table, as HPACK writes it."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def seeds() -> list[bytes]:
    """A whole call, one that is reset, and a connection with nothing but control frames."""
    head = b"".join(
        _literal(name, value)
        for name, value in (
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", b"/goqueue.v1.PublishService/Publish"),
            (b":authority", b"localhost"),
            (b"content-type", b"application/grpc"),
            (b"te", b"trailers"),
        )
    )
    request = pb.PublishRequest(topic=TOPIC, messages=[pb.NewMessage(value=b"v")])
    body = request.SerializeToString()
    message = b"\0" + struct.pack(">I", len(body)) + body
    start = _PREFACE + _frame(_SETTINGS, 0, 0, struct.pack(">HI", 4, 65535))
    call = start + _frame(_HEADERS, _END_HEADERS, 1, head)
    return [
        call + _frame(_DATA, _END_STREAM, 1, message),
        call + _frame(_RST, 0, 1, struct.pack(">I", 8)),
        start + _frame(_PING, 0, 0, bytes(8)) + _frame(_WINDOW, 0, 0, struct.pack(">I", 1)),
        start + _frame(_GOAWAY, 0, 0, bytes(8)),
    ]


def check(data: bytes) -> None:
    """The listener answers or closes; what became of the broker is seen after the round."""
    try:
        sock = socket.create_connection(("127.0.0.1", broker().grpc_port), timeout=5.0)
    except OSError as error:
        raise FindingError(f"no connection: {error!r}") from error
    with sock:
        try:
            sock.sendall(data)
            sock.settimeout(_QUIET_S)
            while sock.recv(1 << 16):
                pass
        except OSError:
            pass  # it has said nothing more, or it has closed
