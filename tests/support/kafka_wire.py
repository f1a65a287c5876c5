"""A client that says exactly what a test tells it to, in any version, with kio as its codec."""

from __future__ import annotations

import dataclasses
import io
import socket
import struct
from datetime import timedelta
from types import NoneType
from typing import TYPE_CHECKING, Any, Self, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

if TYPE_CHECKING:
    from types import TracebackType

TIMEOUT_S = 90.0


def build(schema: Any, fields: dict[str, Any]) -> Any:
    """An entity of a schema; fields that this version does not have are left out.

    Milliseconds may be given for times, and lists of dictionaries for nested entities.
    """
    return schema(
        **{
            field.name: _value(field, fields[field.name])
            for field in dataclasses.fields(schema)
            if field.name in fields
        }
    )


def _value(field: dataclasses.Field[Any], value: Any) -> Any:
    kind = field.metadata.get("kafka_type", "")
    if kind.startswith("timedelta"):
        return timedelta(milliseconds=value)
    annotation: Any = field.type
    if NoneType in get_args(annotation):
        annotation = next(arg for arg in get_args(annotation) if arg is not NoneType)
    if value is None:
        return None
    if get_origin(annotation) is tuple:
        inner = get_args(annotation)[0]
        if dataclasses.is_dataclass(inner):
            return tuple(build(inner, each) for each in value)
        return tuple(value)
    return build(annotation, value) if dataclasses.is_dataclass(annotation) else value


class WireClient:
    """One connection."""

    def __init__(self, address: str, client_id: str = "wire") -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._client_id = client_id
        self._correlation_id = 0
        self._sent: list[tuple[int, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, key: int, version: int, /, **fields: Any) -> None:
        """Send a request and do not wait."""
        schema = load_request_schema(key, version)
        self._correlation_id += 1
        out = io.BytesIO()
        header: Any = schema.__header_schema__
        head = {
            "request_api_key": key,
            "request_api_version": version,
            "correlation_id": self._correlation_id,
            "client_id": self._client_id,
        }
        entity_writer(header)(out, build(header, head))
        entity_writer(schema)(out, build(schema, fields))
        data = out.getvalue()
        self._socket.sendall(struct.pack(">i", len(data)) + data)
        self._sent.append((self._correlation_id, load_response_schema(key, version)))

    def receive(self) -> Any:
        """The answer to the oldest request that has none."""
        correlation_id, schema = self._sent.pop(0)
        (size,) = struct.unpack(">i", self._read(4))
        data = self._read(size)
        header, at = entity_reader(schema.__header_schema__)(data, 0)
        assert header.correlation_id == correlation_id
        answer, used = entity_reader(schema)(data, at)
        assert at + used == size, f"{size - at - used} bytes too many"
        return answer

    def call(self, key: int, version: int, /, **fields: Any) -> Any:
        """Send a request and wait for its answer."""
        self.send(key, version, **fields)
        return self.receive()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._socket.recv(size - len(data))
            if not chunk:
                raise ConnectionResetError("the server closed the connection")
            data += chunk
        return bytes(data)
