"""Requests of the HTTP API that Kafka connections carry, while another connection goes on.

An input is the body of a CallHttp request, or several in a row with their frames.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Final

from fuzz import target_kafka
from fuzz.live import TOPIC, WAIT_S, FindingError, broker
from fuzz.target_http import REQUESTS
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.writing import writer_of

_INTERNAL_ERROR: Final = 500
_HEAD: Final = struct.pack(">hhih", ApiKey.CALL_HTTP, 0, 1, 4) + b"fuzz"
_STATUS_AT: Final = 4 + 4 + 2
"""Behind the request's number, the throttle time and the error code."""
_MORE: Final[list[tuple[str, str, object]]] = [
    ("GET", "/v1/topics?details", None),
    ("GET", f"/groups/g/offsets?partitions={TOPIC}:0,{TOPIC}:1", None),
    ("POST", "/groups/g/offsets/reset", {"topic": TOPIC, "strategy": "latest", "partitions": [0]}),
    ("POST", "/messages/ack/batch", {"receipt_handles": ["a", "b"]}),
    ("GET", f"/topics/{TOPIC}/dlq", None),
    ("GET", "/events", None),
]


def seeds() -> list[bytes]:
    """One request of each kind."""
    return [_HEAD + _body(*each) for each in (*REQUESTS, *_MORE)]


def _body(method: str, target: str, content: object) -> bytes:
    written = bytearray()
    fields = {
        "method": method,
        "target": target,
        "headers": [{"name": "Accept", "value": "application/json"}],
        "body": b"" if content is None else json.dumps(content).encode(),
    }
    writer_of(schema_of(ApiKey.CALL_HTTP, 0, "request"))(written, fields)
    return bytes(written)


def check(data: bytes) -> None:
    """It is answered or its connection is closed; a neighbour is answered as before."""
    port = broker().kafka_port
    frame = _HEAD + _body("GET", "/healthz", None)
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as neighbour:
        target_kafka.send(port, data)
        try:
            neighbour.sendall(struct.pack(">i", len(frame)) + frame)
            (size,) = struct.unpack(">i", _exactly(neighbour, 4))
            answer = _exactly(neighbour, size)
        except OSError as error:
            raise FindingError(f"another connection was cut off: {error!r}") from error
    (status,) = struct.unpack_from(">h", answer, _STATUS_AT)
    if status >= _INTERNAL_ERROR:
        raise FindingError(f"another connection was answered with {status}")


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise ConnectionError("closed")
        data += part
    return data
