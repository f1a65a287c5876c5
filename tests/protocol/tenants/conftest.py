"""One server with two tenants, whose clients use the same names."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

import pytest

from protocol.secure_clients import AT_ONCE, Access
from support.server import make_server

ROOT_KEY = "gq_root_key_of_the_tests"
TENANTS = ("acme", "globex")
PASSWORD = "secret"


@dataclass(frozen=True)
class Api:
    """The HTTP API with one key."""

    url: str
    key: str

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        if self.key:
            request.add_header("Authorization", f"Bearer {self.key}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def ok(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = self.call(method, path, body)
        assert status < 300, (status, answer)
        return answer


ENVIRONMENT = {
    **AT_ONCE,
    "GOQUEUE_AUTH_ENABLED": "true",
    "GOQUEUE_TENANCY_ENABLED": "true",
    "GOQUEUE_API_ROOT_KEY": ROOT_KEY,
    "GOQUEUE_SASL_MECHANISMS": "SCRAM-SHA-256,SCRAM-SHA-512,PLAIN",
}


def make_tenant(root: Api, tenant: str) -> None:
    """A tenant with a user who is its administrator, called like the tenant."""
    quotas = dict.fromkeys(("publish_messages_per_s", "consume_messages_per_s"), 0)
    root.ok("POST", "/admin/tenants", {"id": tenant, "name": tenant.title(), "quotas": quotas})
    body = {"password": PASSWORD, "roles": ["admin"], "tenant": tenant}
    assert root.ok("PUT", f"/admin/users/{tenant}", body)["tenant"] == tenant


@pytest.fixture(scope="package")
def server(tmp_path_factory):
    made = make_server(tmp_path_factory.mktemp("tenants") / "data", environment=ENVIRONMENT)
    made.start()
    root = Api(made.http_url, ROOT_KEY)
    for tenant in TENANTS:
        make_tenant(root, tenant)
    yield made
    made.close()


@pytest.fixture
def root(server) -> Api:
    return Api(server.http_url, ROOT_KEY)


@pytest.fixture
def accesses(server) -> dict[str, Access]:
    return {
        tenant: Access(server.kafka_address, "SCRAM-SHA-256", tenant, PASSWORD)
        for tenant in TENANTS
    }


def key_of(root: Api, tenant: str, *roles: str) -> str:
    """A new API key of a tenant."""
    body = {"name": f"of {tenant}", "roles": list(roles or ("admin",)), "tenant": tenant}
    return str(root.ok("POST", "/admin/keys", body)["key"])
