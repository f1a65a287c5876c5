"""Tenants of three nodes: changed through one node they count on all; a rate is of the cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.testing import Cluster
from support.etcd import need_etcd
from support.http_api import HttpApi
from support.paced import consumed_per_s, fill, published_per_s
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(400)

NODES = (1, 2, 3)
ROOT_KEY = "the-root-key-of-a-cluster"
PASSWORD = "long-enough-1"
SETTINGS = {
    "auth.enabled": "true",
    "auth.root_key": ROOT_KEY,
    "sasl.mechanisms": "PLAIN,SCRAM-SHA-256",
    "tenancy.enabled": "true",
}
UNLIMITED = {
    "publish_messages_per_s": 0,
    "consume_messages_per_s": 0,
    "publish_bytes_per_s": 0,
    "consume_bytes_per_s": 0,
    "requests_per_s": 0,
}
RATE = 2000
ONE_NODE = pytest.param(1, marks=pytest.mark.slow)
WAIT_S = 60.0
COUNTS_WITHIN_S = 2.0
"""A change on every node; it takes some hundredths of a second on a machine of one's own."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_etcd()
    with Cluster(3, settings=SETTINGS) as cluster:
        yield cluster


def ask(cluster: Cluster, node: int, method: str, path: str, body: Any = None) -> Any:
    api = HttpApi(urlsplit(cluster.http_url(node)).port or 0)
    try:
        headers = {"Authorization": f"Bearer {ROOT_KEY}"}
        answer = api.ask(method, path, body, headers=headers)
    finally:
        api.close()
    assert answer.status < 300, answer
    return answer.json


def make(cluster: Cluster, tenant: str, **quotas: int) -> dict[str, Any]:
    """A tenant and its administrator; how that one's Kafka clients log in."""
    body = {"id": tenant, "name": tenant, "quotas": {**UNLIMITED, **quotas}}
    ask(cluster, 1, "POST", "/admin/tenants", body)
    user = {"password": PASSWORD, "roles": ["admin"], "tenant": tenant}
    ask(cluster, 2, "PUT", f"/admin/users/{tenant}", user)
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": tenant,
        "sasl.password": PASSWORD,
    }


def create(options: dict[str, Any], topic: str, partitions: int) -> None:
    admin = AdminClient(options)
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(WAIT_S)
    eventually(lambda: len(admin.list_topics(topic, WAIT_S).topics[topic].partitions) == partitions)


def publish(options: dict[str, Any], topic: str, partitions: int) -> list[int]:
    """Publish a message to each partition; the codes of those that failed."""
    failed: list[int] = []
    producer = Producer({**options, "message.timeout.ms": 60_000})
    for number in range(partitions):
        producer.produce(
            topic,
            b"x",
            partition=number,
            on_delivery=lambda error, _: failed.append(error.code()) if error else None,
        )
    assert not producer.flush(WAIT_S)
    return failed


def test_a_tenant_lives_and_ends_on_every_node(cluster: Cluster) -> None:
    options = make(cluster, "acme")
    other = make(cluster, "globex")
    for each in (options, other):
        create(each, "orders", 6)
        assert publish(each, "orders", 6) == []
    listed = AdminClient({**other, "bootstrap.servers": cluster.kafka_address(3)})
    names = set(listed.list_topics(timeout=WAIT_S).topics)
    assert names == {"orders"}
    for node in NODES:
        found = ask(cluster, node, "GET", "/admin/tenants/acme/topics")
        assert found["topics"] == ["orders"]

    ask(cluster, 1, "POST", "/admin/tenants/acme/suspend", {"reason": "unpaid"})
    began_s = time.monotonic()
    keys = [
        ask(cluster, 2, "POST", "/admin/keys", {"name": "k", "roles": ["admin"], "tenant": "acme"})
    ]
    for node in NODES:
        eventually(lambda: refuses(cluster, node, keys[0]["key"]), "suspended")  # noqa: B023 - at once
    assert time.monotonic() - began_s < COUNTS_WITHIN_S
    assert publish(options, "orders", 6) == [29] * 6
    assert publish(other, "orders", 6) == []

    ask(cluster, 3, "POST", "/admin/tenants/acme/activate")
    eventually(lambda: publish(options, "orders", 6) == [], "active again")
    ask(cluster, 2, "DELETE", "/admin/tenants/acme?force=true")
    for node in NODES:
        eventually(lambda: is_gone(cluster, node, "acme"), "deleted")  # noqa: B023 - at once
    with pytest.raises(KafkaException):
        AdminClient(options).list_topics(timeout=5)
    assert ask(cluster, 1, "GET", "/admin/tenants/globex/topics")["topics"] == ["orders"]
    assert publish(other, "orders", 6) == []


def refuses(cluster: Cluster, node: int, key: str) -> bool:
    """Whether a node refuses what the administrator of a suspended tenant asks for."""
    api = HttpApi(urlsplit(cluster.http_url(node)).port or 0)
    try:
        headers = {"Authorization": f"Bearer {key}"}
        return api.ask("POST", "/topics", {"name": "late"}, headers=headers).status == 403
    finally:
        api.close()


def is_gone(cluster: Cluster, node: int, tenant: str) -> bool:
    found = ask(cluster, node, "GET", "/admin/tenants")["tenants"]
    topics = ask(cluster, node, "GET", "/topics")["topics"]
    is_listed = tenant in [each["id"] for each in found]
    return not is_listed and not any(name.startswith(f"{tenant}.") for name in topics)


@pytest.mark.parametrize("partitions", [ONE_NODE, 6], ids=["one node", "all nodes"])
def test_what_a_tenant_publishes_keeps_to_its_quota(cluster: Cluster, partitions: int) -> None:
    """Whichever nodes its clients use: to one alone, or to all of them."""
    options = make(cluster, f"writer-{partitions}", publish_messages_per_s=RATE)
    create(options, "orders", partitions)
    found = published_per_s(options, "orders", range(partitions))
    assert 0.9 * RATE <= found <= 1.1 * RATE


@pytest.mark.parametrize("partitions", [ONE_NODE, 3], ids=["one node", "all nodes"])
def test_what_a_tenant_reads_keeps_to_its_quota(cluster: Cluster, partitions: int) -> None:
    options = make(cluster, f"reader-{partitions}", consume_messages_per_s=RATE)
    create(options, "orders", partitions)
    fill(options, "orders", range(partitions), 20 * RATE // partitions + RATE)
    found = consumed_per_s(options, "orders", range(partitions))
    assert 0.9 * RATE <= found <= 1.1 * RATE


def test_a_node_that_is_killed_loses_no_usage_that_it_has_told(cluster: Cluster) -> None:
    options = make(cluster, "counted")
    create(options, "orders", 6)
    for _ in range(20):
        assert publish(options, "orders", 6) == []

    def published(node: int) -> int:
        usage = ask(cluster, node, "GET", "/admin/tenants/counted/usage")
        return int(usage["published_messages"])

    for node in NODES:
        eventually(lambda: published(node) == 120, "told")  # noqa: B023 - at once
    cluster.kill(2)
    try:
        assert published(1) == published(3) == 120
    finally:
        cluster.start(2)
    eventually(lambda: published(2) == 120, "read again")
    assert publish(options, "orders", 6) == []
    for node in NODES:
        eventually(lambda: published(node) == 126, "counted on")  # noqa: B023 - at once
