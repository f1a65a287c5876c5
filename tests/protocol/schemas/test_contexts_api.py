"""Contexts over HTTP, by qualified subjects and by paths, and as Confluent's client uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.http_api import HttpApi
    from support.server import ServerProcess

LONG, TEXT = '"long"', '"string"'


@pytest.fixture
def context(name: Callable[[str], str]) -> str:
    return f".{name('team')}"


def test_a_path_below_a_context_is_that_of_a_qualified_subject(api: HttpApi, context: str) -> None:
    below = f"/contexts/{context}"
    assert api.post(f"{below}/subjects/s/versions", {"schema": LONG})["id"] == 1
    subject = f":{context}:s"
    assert api.get(f"/subjects/{quote(subject, safe='')}/versions/1")["subject"] == subject
    assert api.get(f"{below}/subjects") == [subject]
    assert api.get(f"{below}/subjects?subjectPrefix=x") == []
    assert subject in api.get("/subjects")
    assert context in api.get("/contexts")
    assert api.get(f"{below}/schemas/ids/1")["schema"] == LONG
    assert api.get(f"/schemas/ids/1?subject=:{context}:")["schema"] == LONG
    assert api.get(f"{below}/schemas/ids/1/subjects") == [subject]
    assert [each["subject"] for each in api.get(f"{below}/schemas")] == [subject]
    assert api.ask("GET", f"{below}/schemas/ids/2").json["error_code"] == 40403
    check = f"{below}/compatibility/subjects/s/versions/latest"
    assert api.post(check, {"schema": TEXT}) == {"is_compatible": False}
    assert api.post(f"/v1{below}/subjects/s", {"schema": LONG})["version"] == 1
    assert api.ask("DELETE", f"{below}/subjects/s").json == [1]
    assert api.get(f"{below}/subjects") == []


def test_a_context_has_ids_and_settings_of_its_own(api: HttpApi, context: str) -> None:
    below = f"/contexts/{context}"
    assert api.ask("PUT", f"{below}/config", {"compatibility": "NONE"}).status == 200
    for number, text in enumerate((LONG, TEXT), 1):
        found = api.post(f"{below}/subjects/s/versions", {"schema": text})
        assert (found["id"], found["version"]) == (number, number)
    assert api.get(f"{below}/config") == {"compatibilityLevel": "NONE"}
    assert api.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert api.ask("PUT", f"{below}/mode", {"mode": "READONLY"}).status == 200
    refused = api.ask("POST", f"{below}/subjects/s/versions", {"schema": '"int"'})
    assert refused.json["error_code"] == 42205
    assert api.get("/mode") == {"mode": "READWRITE"}


def test_the_default_context_has_a_path_too(api: HttpApi, name: Callable[[str], str]) -> None:
    subject = name("plain")
    api.post(f"/contexts/./subjects/{subject}/versions", {"schema": LONG})
    assert api.get(f"/subjects/{subject}/versions") == [1]
    assert api.get(f"/subjects/:.:{subject}/versions") == [1]


def test_confluent_s_client_works_in_a_context(broker: ServerProcess, context: str) -> None:
    base = f"http://127.0.0.1:{broker.http_port}"
    with SchemaRegistryClient({"url": f"{base}/contexts/{context}"}) as client:
        assert client.register_schema("orders-value", Schema(LONG, "AVRO")) == 1
        assert client.get_schema(1).schema_str == LONG
        assert client.get_latest_version("orders-value").version == 1
        assert client.get_subjects() == [f":{context}:orders-value"]
    with SchemaRegistryClient({"url": base}) as client:
        assert f":{context}:orders-value" in client.get_subjects()
