"""A schema that names an address or a file makes the broker open neither."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.http_api import HttpApi

SECRET = "root:"


class Listener:
    """A server inside the network of the broker; counts who connects."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.connections = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                connection.close()


def _json(schema: dict[str, Any]) -> tuple[str, str]:
    return "JSON", json.dumps(schema)


def _avro(name: str) -> tuple[str, str]:
    fields = [{"name": "a", "type": name}]
    return "AVRO", json.dumps({"type": "record", "name": "A", "fields": fields})


def _protobuf(imported: str) -> tuple[str, str]:
    return "PROTOBUF", f'syntax = "proto3"; import "{imported}"; message A {{ string a = 1; }}'


SCHEMAS: dict[str, Callable[[str], tuple[str, str]]] = {
    "$ref": lambda url: _json({"$ref": f"{url}/other.json"}),
    "$ref in a property": lambda url: _json({"properties": {"a": {"$ref": f"{url}/a.json"}}}),
    "$ref against an $id": lambda url: _json({"$id": f"{url}/root.json", "$ref": "other.json"}),
    "$schema": lambda url: _json({"$schema": f"{url}/meta.json", "type": "object"}),
    "$dynamicRef": lambda url: _json({"$dynamicRef": f"{url}/other.json#node"}),
    "a file": lambda _: _json({"$ref": "file:///etc/passwd"}),
    "a file without a scheme": lambda _: _json({"$ref": "/etc/passwd"}),
    "avro": lambda url: _avro(f"{url}/other.avsc"),
    "protobuf": lambda url: _protobuf(f"{url}/other.proto"),
    "protobuf and a file": lambda _: _protobuf("/etc/passwd"),
    "protobuf and a path": lambda _: _protobuf("google/protobuf/../../../../../etc/passwd"),
}


@pytest.mark.parametrize("make", SCHEMAS.values(), ids=list(SCHEMAS))
def test_nothing_is_fetched_for_a_schema_or_a_message(
    api: HttpApi, name: Callable[[str], str], make: Callable[[str], tuple[str, str]]
) -> None:
    topic = name("references")
    settings = {"goqueue.schema.validation": "latest"}
    api.post("/topics", {"name": topic, "num_partitions": 1, "settings": settings})
    with Listener() as listener:
        kind, schema = make(f"http://127.0.0.1:{listener.port}")
        body = {"schema": schema, "schemaType": kind}
        subject = f"/subjects/{topic}-value/versions"
        message = {"messages": [{"value": '{"a": {"a": 1}}'}]}
        said = [
            api.ask("POST", subject, body),
            api.ask("POST", f"/compatibility{subject}/latest", body),
            api.ask("POST", f"/topics/{topic}/messages", message),
        ]
        assert listener.connections == 0
    for answer in said:
        assert answer.status < 500, answer
        assert SECRET not in json.dumps(answer.json)


def test_a_reference_by_name_cannot_be_an_address(api: HttpApi, name: Callable[[str], str]) -> None:
    with Listener() as listener:
        url = f"http://127.0.0.1:{listener.port}/other.json"
        references = [{"name": url, "subject": url, "version": 1}]
        kind, schema = _json({"$ref": url})
        body = {"schema": schema, "schemaType": kind, "references": references}
        refused = api.ask("POST", f"/subjects/{name('s')}/versions", body)
        assert refused.status in {404, 422}, refused
        assert listener.connections == 0
