"""The rates of a tenant on one node, over ten seconds: within ten per cent of its quota."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.secure_clients import Access
from protocol.tenants.conftest import PASSWORD
from protocol.tenants.test_tenant_kafka_clients import create
from support.paced import consumed_per_s, fill, published_per_s

if TYPE_CHECKING:
    from protocol.tenants.conftest import Api
    from support.server import ServerProcess

RATE = 2000


def make(root: Api, server: ServerProcess, tenant: str, **quotas: int) -> Access:
    limits = dict.fromkeys(("publish_messages_per_s", "consume_messages_per_s"), 0)
    limits |= dict.fromkeys(("publish_bytes_per_s", "consume_bytes_per_s"), 0)
    body = {"id": tenant, "name": tenant, "quotas": {**limits, **quotas}}
    root.ok("POST", "/admin/tenants", body)
    user = {"password": PASSWORD, "roles": ["admin"], "tenant": tenant}
    root.ok("PUT", f"/admin/users/{tenant}", user)
    return Access(server.kafka_address, "SCRAM-SHA-256", tenant, PASSWORD)


def test_what_is_published(root: Api, server: ServerProcess) -> None:
    access = make(root, server, "writers", publish_messages_per_s=RATE)
    create(access, "orders", 2)
    found = published_per_s(access.of_confluent(), "orders", range(2))
    assert 0.9 * RATE <= found <= 1.1 * RATE
    usage = root.ok("GET", "/admin/tenants/writers/usage")
    assert usage["violations"]["publish_messages_per_s"] > 0


def test_what_is_read(root: Api, server: ServerProcess) -> None:
    access = make(root, server, "readers", consume_messages_per_s=RATE)
    create(access, "orders", 2)
    fill(access.of_confluent(), "orders", range(2), 11 * RATE)
    found = consumed_per_s(access.of_confluent(), "orders", range(2))
    assert 0.9 * RATE <= found <= 1.1 * RATE
