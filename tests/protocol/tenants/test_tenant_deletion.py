"""A tenant is deleted with everything that it has, also by a server that is killed meanwhile."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from protocol.secure_clients import Access
from protocol.tenants.conftest import ENVIRONMENT, PASSWORD, ROOT_KEY, Api, key_of, make_tenant
from protocol.tenants.test_tenant_kafka_clients import consumed, create, publish
from support.server import make_server

WAIT_S = 60.0


def test_a_killed_server_goes_on_deleting_and_touches_nothing_else(tmp_path) -> None:
    server = make_server(tmp_path / "data", environment=ENVIRONMENT)
    server.start()
    try:
        root = Api(server.http_url, ROOT_KEY)
        for tenant in ("acme", "acme-two"):
            make_tenant(root, tenant)
            access = Access(server.kafka_address, "SCRAM-SHA-256", tenant, PASSWORD)
            key = key_of(root, tenant)
            for number in range(20):
                create(access, f"t{number}")
            publish(access, "t0", tenant.encode())
            consumed(access, "g", "t0", 1)
            schema = {"schema": '{"type": "string"}', "schemaType": "JSON"}
            Api(server.http_url, key).ok("POST", "/subjects/t0-value/versions", schema)
            rule = {"principal": f"User:{tenant}", "resource_type": "topic",
                    "resource_name": f"{tenant}.t0", "operations": ["read"]}  # fmt: skip
            root.ok("POST", "/admin/acls", rule)
            api = Api(server.http_url, key)
            for number in range(2):
                made = api.ok("POST", "/producers/init", {"transactional_id": f"id-{number}"})
            producer = {"producer_id": made["producer_id"], "epoch": made["epoch"]}
            api.ok("POST", "/transactions/begin", producer)
            report = {"state": "running", "queries": [{"name": "q", "sources": ["t0"]}]}
            api.ok("PUT", "/pipelines/nightly", report)

        deleting = threading.Thread(
            target=lambda: _ignored(root, "DELETE", "/admin/tenants/acme?force=true")
        )
        deleting.start()
        _until(lambda: len(_topics(root, "acme.")) < 20)
        server.kill()
        deleting.join(WAIT_S)
        server.start()
        _until(lambda: root.call("GET", "/admin/tenants/acme")[0] == 404)
        assert _topics(root, "acme.") == []
        assert len(_topics(root, "acme-two.")) == 20
        assert root.ok("GET", "/subjects") == ["acme-two.t0-value"]
        assert [each["group"] for each in root.ok("GET", "/groups")["groups"]] == ["acme-two.g"]
        assert [each["tenant"] for each in root.ok("GET", "/admin/keys")["keys"]] == ["acme-two"]
        assert [each["name"] for each in root.ok("GET", "/admin/users")["users"]] == ["acme-two"]
        ids = [each["transactional_id"] for each in root.ok("GET", "/transactions")["transactions"]]
        assert ids == ["acme-two.id-0", "acme-two.id-1"]
        pipelines = root.ok("GET", "/pipelines")["pipelines"]
        assert [each["name"] for each in pipelines] == ["acme-two.nightly"]
        rules = root.ok("GET", "/admin/acls")["acls"]
        assert [each["resource_name"] for each in rules] == ["acme-two.t0"]
        access = Access(server.kafka_address, "SCRAM-SHA-256", "acme-two", PASSWORD)
        assert consumed(access, "other", "t0", 1) == [b"acme-two"]
    finally:
        server.close()


def _topics(root: Api, prefix: str) -> list[str]:
    return [name for name in root.ok("GET", "/topics")["topics"] if name.startswith(prefix)]


def _until(condition) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _ignored(root: Api, method: str, path: str) -> None:
    with suppress(OSError):  # the server is killed
        root.call(method, path)
