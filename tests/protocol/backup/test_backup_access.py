"""Rights come along with a backup, and decide after the restore as they did before."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka
from support.server import make_server
from support.waiting import eventually
from support.webhook_target import WebhookTarget

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.server import ServerProcess

ROOT = "gq_root_key_of_the_test"
ENVIRONMENT = {
    "GOQUEUE_AUTH_ENABLED": "true",
    "GOQUEUE_TENANCY_ENABLED": "true",
    "GOQUEUE_API_ROOT_KEY": ROOT,
    "GOQUEUE_SASL_MECHANISMS": "SCRAM-SHA-256,PLAIN",
}
FLAGS = ("--webhooks-enabled", "--webhooks-allow-private")


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[ServerProcess]]:
    made = [
        make_server(tmp_path / name / "data", *FLAGS, environment=ENVIRONMENT)
        for name in ("source", "target")
    ]
    for each in made:
        each.start()
    yield made
    for each in made:
        each.close()


def ask(
    server: ServerProcess, who: str, method: str, path: str, body: Any = None
) -> tuple[int, Any]:
    request = urllib.request.Request(
        server.http_url + path,
        None if body is None else json.dumps(body).encode(),
        {"Authorization": who, "Content-Type": "application/json"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def root(server: ServerProcess, method: str, path: str, body: Any = None) -> Any:
    status, told = ask(server, f"Bearer {ROOT}", method, path, body)
    assert status < 300, (path, status, told)
    return told


def job(server: ServerProcess, path: str, body: dict[str, Any]) -> None:
    begun = root(server, "POST", path, body)

    def look() -> Any:
        found = root(server, "GET", f"/admin/backup/{begun['id']}")["job"]
        return found if found["state"] != "running" else None

    ended = eventually(look, path, 120)
    assert ended["state"] == "done", ended["error"]


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def client_quotas(server: ServerProcess) -> list[tuple[str, float]]:
    """As Kafka's API tells them."""
    with RawKafka(server.kafka_port) as raw:
        _log_in(raw)
        answer = raw.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=[], strict=False)
    return [
        (entity.entity_name, value.value)
        for entry in answer.entries
        for entity in entry.entity
        for value in entry.values
    ]


def set_client_quota(server: ServerProcess, user: str, rate: float) -> None:
    entry = {
        "entity": [{"entity_type": "user", "entity_name": user}],
        "ops": [{"key": "producer_byte_rate", "value": rate, "remove": False}],
    }
    with RawKafka(server.kafka_port) as raw:
        _log_in(raw)
        answer = raw.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[entry], validate_only=False)
    assert [each.error_code for each in answer.entries] == [0]


def _log_in(raw: RawKafka) -> None:
    assert raw.ask(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
    token = b"\0boss\0password of boss"
    assert raw.ask(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token).error_code == 0


def decisions(server: ServerProcess, clients: dict[str, str]) -> dict[tuple[str, str], int]:
    """What each client is answered to the same requests, by status."""
    message = {"messages": [{"value": "x"}]}
    requests: list[tuple[str, str, Any]] = [
        ("GET", "/topics/orders/partitions/0/messages?offset=0", None),
        ("POST", "/topics/orders/messages", message),
        ("POST", "/topics/secret/messages", message),
        ("GET", "/metrics", None),
        ("GET", "/admin/users", None),
    ]
    return {
        (name, f"{method} {path}"): ask_status(server, who, method, path, body)
        for name, who in clients.items()
        for method, path, body in requests
    }


def ask_status(server: ServerProcess, who: str, method: str, path: str, body: Any) -> int:
    request = urllib.request.Request(
        server.http_url + path,
        None if body is None else json.dumps(body).encode(),
        {"Authorization": who, "Content-Type": "application/json"},
        method=method,
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_rules_roles_bindings_keys_tenants_quotas_and_webhooks_decide_after_a_restore(
    servers: list[ServerProcess], tmp_path: Path
) -> None:
    source, target = servers
    for topic in ("orders", "secret"):
        root(source, "POST", "/topics", {"name": topic, "num_partitions": 1})
    root(source, "PUT", "/admin/roles/watcher", {"permissions": ["metrics:read"]})
    for user, roles in (("boss", ["admin"]), ("ann", ["producer"]), ("bob", []), ("eve", [])):
        body = {"password": f"password of {user}", "roles": roles}
        root(source, "PUT", f"/admin/users/{user}", body)
    root(source, "PUT", "/admin/users/bob/roles", {"roles": ["watcher"]})
    for principal, operation, name, effect in (
        ("User:bob", "read", "orders", "allow"),
        ("User:ann", "write", "secret", "deny"),
    ):
        rule = {"principal": principal, "resource_type": "topic", "operations": [operation]}
        root(source, "POST", "/admin/acls", {**rule, "resource_name": name, "effect": effect})
    good = root(source, "POST", "/admin/keys", {"name": "good", "roles": ["consumer"]})
    bad = root(source, "POST", "/admin/keys", {"name": "bad", "roles": ["admin"]})
    root(source, "DELETE", f"/admin/keys/{bad['id']}")
    tenant = {"id": "acme", "name": "Acme", "quotas": {"max_topics": 1}}
    root(source, "POST", "/admin/tenants", tenant)
    body = {"password": "password of ted", "roles": ["admin"], "tenant": "acme"}
    root(source, "PUT", "/admin/users/ted", body)
    ted = basic("ted", "password of ted")
    assert ask(source, ted, "POST", "/topics", {"name": "one"})[0] == 201
    set_client_quota(source, "ann", 12345.0)
    quotas = client_quotas(source)
    assert quotas == [("ann", 12345.0)]
    received = WebhookTarget()
    received.start()
    hook = root(source, "POST", "/admin/webhooks", {"url": received.url})

    clients = {
        user: basic(user, f"password of {user}") for user in ("boss", "ann", "bob", "eve")
    } | {"wrong": basic("boss", "guess"), "good": f"Bearer {good['key']}"}
    clients["revoked"] = f"Bearer {bad['key']}"
    before = decisions(source, clients)
    assert before["ann", "POST /topics/orders/messages"] == 200
    assert before["ann", "POST /topics/secret/messages"] == 403, "by the rule"
    assert before["bob", "GET /topics/orders/partitions/0/messages?offset=0"] == 200, "by the rule"
    assert before["bob", "GET /metrics"] == 200, "by the role of one's own"
    assert before["eve", "GET /metrics"] == 403
    assert before["revoked", "GET /admin/users"] == before["wrong", "GET /metrics"] == 401
    destination = {"destination": str(tmp_path / "backups")}
    job(source, "/admin/backup", destination)
    source.stop()

    job(target, "/admin/backup/latest/restore", destination)
    assert eventually(lambda: decisions(target, clients) == before or None, "decisions", 30)
    status, told = ask(target, ted, "POST", "/topics", {"name": "two"})
    assert status in {403, 409, 429}, told
    assert "topics" in str(told), "the quota of the tenant"
    assert ask(target, ted, "GET", "/topics")[1]["topics"] == ["one"]
    assert eventually(lambda: client_quotas(target) == quotas or None, "client quotas", 30)
    assert [each["id"] for each in root(target, "GET", "/admin/webhooks")["webhooks"]] == [
        hook["id"]
    ]
    received.received.clear()
    root(target, "POST", f"/admin/webhooks/{hook['id']}/test")
    assert eventually(lambda: received.received, "the test event")
    assert received.received[0].is_signed_with(hook["secret"])
    received.stop()
