"""Attacks on the gRPC listener."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import grpc

from benchmarks._attacks import ATTEMPT_S, HOST, Attack, Target
from benchmarks._attacks_http import TOPIC, make_attacked
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

_EMPTY_MESSAGES: Final = 2_000_000


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
    Attack(5, "gRPC empty messages", empty_messages, ("INVALID_ARGUMENT",), make_attacked)
]
