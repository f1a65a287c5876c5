"""Attacks on the HTTP and gRPC listeners."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import grpc

from benchmarks._attacks import ATTEMPT_S, CLOSED, HOST, Attack, Target, connect, send_all
from benchmarks._http_client import make_topic
from goqueue.protocols.grpc.v1 import goqueue_pb2 as pb

TOPIC: Final = "attacked"
_TRAILER_BYTES: Final = 8 << 20
_EMPTY_MESSAGES: Final = 2_000_000


def _make_topic(target: Target) -> None:
    make_topic(target.http_port, TOPIC)


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


@cache
def _publish_call(port: int) -> Any:
    """Eight threads share a channel as eight connections would share the listener."""
    return grpc.insecure_channel(f"{HOST}:{port}").unary_unary("/goqueue.v1.PublishService/Publish")


@cache
def _empty_messages() -> bytes:
    return pb.PublishRequest(topic=TOPIC).SerializeToString() + b"\x12\0" * _EMPTY_MESSAGES


def empty_messages(target: Target) -> str:
    """One publish of two million messages without anything in them."""
    try:
        _publish_call(target.grpc_port)(_empty_messages(), timeout=ATTEMPT_S)
    except grpc.RpcError as error:
        status: Any = error
        return f"{status.code().name}: {status.details()}"
    return "OK: stored"


ATTACKS: Final = [
    Attack(5, "gRPC empty messages", empty_messages, "INVALID_ARGUMENT", _make_topic),
    Attack(7, "HTTP trailers", trailers, "HTTP/1.1 431"),
]
