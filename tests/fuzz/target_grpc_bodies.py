"""The gRPC services: bodies of calls, which may or may not be the Protobuf message they should be.

The first byte of an input chooses the method.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import grpc

from fuzz.live import TOPIC, WAIT_S, FindingError, broker
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

METHODS: Final = tuple(
    f"/{service.full_name}/{method.name}"
    for service in pb.DESCRIPTOR.services_by_name.values()
    for method in service.methods
    if not method.client_streaming and not method.server_streaming
)
_FAILED: Final = "the broker failed"
"""What a client is told of an exception that nobody expected."""


def seeds() -> list[bytes]:
    """A publish of each shape, and for every method its message with all fields filled in."""
    message = pb.NewMessage(key=b"k", value=b"v", headers=[pb.Header(name="h", value=b"1")])
    publishes = [
        pb.PublishRequest(topic=TOPIC, messages=[message, message]),
        pb.PublishRequest(topic=TOPIC, columns=pb.NewColumns(keys=[b"k"], values=[b"v"])),
        pb.PublishRequest(topic=TOPIC, messages=[pb.NewMessage(value=b"v", delay_ms=50)]),
    ]
    of_publish = METHODS.index("/goqueue.v1.PublishService/Publish")
    found = [bytes([of_publish]) + each.SerializeToString() for each in publishes]
    for number, method in enumerate(METHODS):
        found.append(bytes([number]) + _filled(_input_of(method)).SerializeToString())
    return found


def _input_of(method: str) -> Any:
    service, name = method.strip("/").split("/")
    found = pb.DESCRIPTOR.services_by_name[service.rpartition(".")[2]].methods_by_name[name]
    return getattr(pb, found.input_type.name)


def _filled(kind: Any) -> Any:
    """A message whose plain fields all have a value."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        value: Any = {field.CPPTYPE_STRING: TOPIC, field.CPPTYPE_BOOL: True}.get(field.cpp_type, 1)
        if field.type == field.TYPE_BYTES:
            value = b"x"
        if field.cpp_type == field.CPPTYPE_MESSAGE:
            continue
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)
    return message


@cache
def _call(address: str, method: str) -> Any:
    return _channel(address).unary_unary(method)


@cache
def _channel(address: str) -> grpc.Channel:
    return grpc.insecure_channel(address)


def check(data: bytes) -> None:
    """The call is answered, or fails with a status that says why."""
    if not data:
        return
    method = METHODS[data[0] % len(METHODS)]
    try:
        _call(broker().grpc_address, method)(data[1:], timeout=WAIT_S)
    except grpc.RpcError as error:
        status: Any = error
        if status.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise FindingError(f"{method} was not answered") from error
        if _FAILED in (status.details() or ""):
            raise FindingError(f"{method}: {status.details()}") from error
