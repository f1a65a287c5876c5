"""A client that says exactly what a test tells it to, in any version, with kio as its codec."""

from __future__ import annotations

import dataclasses
import io
import socket
import struct
import time
from datetime import timedelta
from types import NoneType
from typing import TYPE_CHECKING, Any, Self, get_args, get_origin

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import MOVED_S, RawKafka
from protocol.raw_routes import MOVED, port_for
from support.server import siblings

if TYPE_CHECKING:
    from types import TracebackType

TIMEOUT_S = 90.0
LISTS: dict[int, tuple[str | None, str]] = {
    ApiKey.LIST_GROUPS: (None, "groups"),
    ApiKey.DESCRIBE_GROUPS: ("groups", "groups"),
    ApiKey.DELETE_GROUPS: ("groups_names", "results"),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("group_ids", "groups"),
    ApiKey.SHARE_GROUP_DESCRIBE: ("group_ids", "groups"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: ("groups", "groups"),
}
"""What administrators' clients ask of several nodes: the list asked with, and the one answered."""
SHARED = (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)


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
    """One connection; in a cluster, one to each node that serves what a test asks for."""

    def __init__(self, address: str, client_id: str = "wire") -> None:
        host, _, port = address.rpartition(":")
        self._port = int(port)
        self._socket = socket.create_connection((host, self._port), timeout=TIMEOUT_S)
        self._client_id = client_id
        self._correlation_id = 0
        self._sent: list[tuple[socket.socket, int, Any]] = []
        self._others: dict[int, socket.socket] = {}
        """The connections to other nodes, by their ports."""
        self._routes: RawKafka | None = None
        """Asks who serves what."""
        self._shared: socket.socket | None = None
        """Where the share session is."""

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
        for each in (self._socket, *self._others.values()):
            each.close()
        if self._routes is not None:
            self._routes.close()

    def _link(self, key: int, fields: dict[str, Any]) -> socket.socket:
        """The connection to whoever serves a request."""
        if len(siblings(self._port)) == 1:
            return self._socket
        is_opened = key == ApiKey.SHARE_ACKNOWLEDGE or fields.get("share_session_epoch")
        if key in SHARED and is_opened and self._shared is not None:
            return self._shared
        if self._routes is None:
            self._routes = RawKafka(self._port)
        port = port_for(self._routes.ask_here, self._port, ApiKey(key), fields)
        found = self._socket if port == self._port else self._others.get(port)
        if found is None:
            made = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
            found = self._others[port] = made
        if key in SHARED:
            self._shared = found
        return found

    @property
    def shared_address(self) -> str:
        """The node that has the share session."""
        _, port = (self._shared or self._socket).getpeername()
        return f"127.0.0.1:{port}"

    def address_for(self, key: ApiKey, **fields: Any) -> str:
        """The node that serves a request."""
        if self._routes is None:
            self._routes = RawKafka(self._port)
        return f"127.0.0.1:{port_for(self._routes.ask_here, self._port, key, fields)}"

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
        link = self._link(key, fields)
        link.sendall(struct.pack(">i", len(data)) + data)
        self._sent.append((link, self._correlation_id, load_response_schema(key, version)))

    def receive(self) -> Any:
        """The answer to the oldest request that has none."""
        link, correlation_id, schema = self._sent.pop(0)
        (size,) = struct.unpack(">i", _read(link, 4))
        data = _read(link, size)
        header, at = entity_reader(schema.__header_schema__)(data, 0)
        assert header.correlation_id == correlation_id
        answer, used = entity_reader(schema)(data, at)
        assert at + used == size, f"{size - at - used} bytes too many"
        return answer

    def call(self, key: int, version: int, /, **fields: Any) -> Any:
        """Send a request and wait for its answer; in a cluster, until nothing of it moves."""
        if len(siblings(self._port)) > 1 and key in LISTS:
            asked, told = LISTS[key]
            if asked is None or len(fields.get(asked) or ()) > 1:
                return self._gathered(ApiKey(key), version, fields, asked, told)
        return self._call(key, version, fields)

    def _gathered(
        self, key: ApiKey, version: int, fields: dict[str, Any], asked: str | None, told: str
    ) -> Any:
        """What all nodes list, or what the coordinator of each group says of it, put together."""
        if asked is None:
            answers = []
            for port in siblings(self._port):
                with WireClient(f"127.0.0.1:{port}") as link:
                    link.send(key, version, **fields)
                    answers.append(link.receive())
        else:
            answers = [self._call(key, version, {**fields, asked: [one]}) for one in fields[asked]]
        found = tuple(each for answer in answers for each in getattr(answer, told))
        return dataclasses.replace(answers[0], **{told: found})

    def _call(self, key: int, version: int, fields: dict[str, Any]) -> Any:
        deadline = time.monotonic() + MOVED_S
        while True:
            self.send(key, version, **fields)
            answer = self.receive()
            is_alone = len(siblings(self._port)) == 1
            has_moved = getattr(answer, "error_code", 0) in MOVED
            if is_alone or not has_moved or time.monotonic() > deadline:
                return answer
            time.sleep(0.05)


def _read(link: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = link.recv(size - len(data))
        if not chunk:
            raise ConnectionResetError("the server closed the connection")
        data += chunk
    return bytes(data)
