"""The Kafka listener: requests of every API and version that it serves.

An input is a frame without its length, so that a damaged one is still read to its end. One that
begins with 0xFF is sent as it is, length and all.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, Any, Final

from fuzz.live import TOPIC, FindingError, broker
from goqueue.protocols.kafka.api_reference import served_specs
from goqueue.records import Record, encode
from goqueue.wire.kafka.schemas import schema_of, versions
from goqueue.wire.kafka.writing import writer_of

if TYPE_CHECKING:
    from goqueue.wire.kafka.schema import Field

_SENT_AS_IT_IS: Final = 0xFF
_QUIET_S: Final = 0.05
"""After this long without a byte from the broker, it has said what it has to say."""
_READ_BYTES: Final = 1 << 20
_NUMBERS: Final = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000, "acks": -1}


def seeds() -> list[bytes]:
    """A request of each API in each version, with every field filled in, and raw bytes."""
    return [*requests(), b"\xff\xff\xff\xff", b"\xff" + bytes(100)]


def requests() -> list[bytes]:
    """A request of each API in each version."""
    return [_request(key, version) for key in served_specs() for version in versions(key)]


def _request(key: int, version: int) -> bytes:
    schema = schema_of(key, version, "request")
    head = struct.pack(">hhih", key, version, 1, 4) + b"fuzz"
    body = bytearray(b"\0" if schema.has_flexible_header else b"")
    writer_of(schema)(body, {each.name: _filled(each) for each in schema.fields})
    return head + bytes(body)


def _filled(field: Field) -> Any:
    """A value that the broker might take."""
    if field.schema is not None:
        one: Any = {each.name: _filled(each) for each in field.schema.fields}
    elif field.kind in {"string", "bytes"}:
        one = TOPIC if field.kind == "string" else b"\0\x01"
    elif field.kind == "records":
        one = bytes(encode([Record(0, 0, b"k", b"v")]))
    elif field.is_array:
        one = None if field.kind == "uuid" else 0
    else:
        one = _NUMBERS.get(field.name, field.default)
    return [one] if field.is_array else one


def check(data: bytes) -> None:
    """The broker answers or closes; what became of it is seen after the round."""
    send(broker().kafka_port, data)


def send(port: int, data: bytes) -> None:
    """Send an input, and read what comes back."""
    if not data.startswith(bytes([_SENT_AS_IT_IS])):
        data = struct.pack(">i", len(data)) + data
    try:
        sock = socket.create_connection(("127.0.0.1", port), timeout=5.0)
    except OSError as error:
        raise FindingError(f"no connection: {error!r}") from error
    with sock:
        answer = bytearray()
        try:
            sock.sendall(data)
            sock.settimeout(_QUIET_S)
            while len(answer) < _READ_BYTES and (part := sock.recv(1 << 16)):
                answer += part
        except OSError:
            pass  # it has said nothing more, or it has closed
    if answer and len(answer) < struct.calcsize(">ii"):
        raise FindingError(f"this is no answer: {bytes(answer)!r}")
