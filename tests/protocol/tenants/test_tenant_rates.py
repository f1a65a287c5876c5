"""The rates of a tenant on one node, over ten seconds: within ten per cent of its quota."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from protocol.secure_clients import Access
from protocol.tenants.conftest import PASSWORD, Api, key_of
from protocol.tenants.test_tenant_kafka_clients import create
from support.paced import WINDOW_S, consumed_per_s, fill, published_per_s

if TYPE_CHECKING:
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


def test_requests_over_several_http_connections(root: Api, server: ServerProcess) -> None:
    """From the first refusal on, when what was saved up is used."""
    make(root, server, "askers", requests_per_s=50)
    api = Api(server.http_url, key_of(root, "askers"))
    refused, lock, served = threading.Event(), threading.Lock(), [0]
    while api.call("GET", "/topics")[0] == 200:
        pass
    ends_s = time.monotonic() + WINDOW_S

    def ask() -> None:
        while time.monotonic() < ends_s:
            status, _ = api.call("GET", "/topics")
            if status == 200:
                with lock:
                    served[0] += 1
            else:
                assert status == 429
                refused.set()
                time.sleep(0.005)

    with ExitStack() as stack:
        for _ in range(3):
            thread = threading.Thread(target=ask)
            thread.start()
            stack.callback(thread.join)
    assert refused.is_set()
    assert 0.9 * 50 <= served[0] / WINDOW_S <= 1.1 * 50


def test_bytes_of_two_producers(root: Api, server: ServerProcess) -> None:
    rate = 200_000
    access = make(root, server, "heavy", publish_bytes_per_s=rate)
    create(access, "orders", 2)

    def published() -> int:
        return int(root.ok("GET", "/admin/tenants/heavy/usage")["published_bytes"])

    with ExitStack() as stack:
        for number in range(2):
            options = (access.of_confluent(), "orders", [number])
            thread = threading.Thread(target=published_per_s, args=options)
            thread.start()
            stack.callback(thread.join)
        while published() < 2 * rate:
            time.sleep(0.05)
        began_s, before = time.monotonic(), published()
        time.sleep(WINDOW_S)
        found = (published() - before) / (time.monotonic() - began_s)
    assert 0.9 * rate <= found <= 1.1 * rate
