"""The quotas of tenants: rates, counts, storage and usage, as clients meet them."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from contextlib import contextmanager
from itertools import count

import pytest

from goqueue.model.errors import (
    BatchTooLargeError,
    DelayTooLongError,
    GroupQuotaExceededError,
    QuotaExceededError,
    StorageQuotaExceededError,
)
from goqueue.publishing.new_messages import NewMessage
from goqueue.queues.delivery.settings import QueueSettings
from support.guarded import ROOT_KEY, guarded_server
from support.nodes_in_loop import running_nodes
from support.waiting import eventually

FLAGS = ("--tenancy-enabled", "--auth-enabled")
MANY = 1000
ROOT = {"GOQUEUE_API_ROOT_KEY": ROOT_KEY}
UNLIMITED = {
    "publish_messages_per_s": 0,
    "consume_messages_per_s": 0,
    "publish_bytes_per_s": 0,
    "consume_bytes_per_s": 0,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with guarded_server(tmp_path_factory.mktemp("tenants") / "data") as made:
        yield made


@pytest.fixture
def tenant(server, name):
    """Makes a tenant with some quotas, and a topic of it."""

    def make(**quotas):
        made = name("red")
        server.run(server.broker.tenants.create(made, "Red", quotas={**UNLIMITED, **quotas}))
        server.run(server.broker.create_topic(f"{made}.orders", 1))
        return made

    return make


def ask(server, method, path, body=None):
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.http_port}{path}",
        None if body is None else json.dumps(body).encode(),
        {"Authorization": f"Bearer {ROOT_KEY}", "Content-Type": "application/json"},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def publish(server, tenant, count=1, size=10):
    messages = [{"value": "x" * size} for _ in range(count)]
    return ask(server, "POST", f"/topics/{tenant}.orders/messages", {"messages": messages})


def usage(server, tenant):
    return ask(server, "GET", f"/admin/tenants/{tenant}/usage")


def _used(server, tenant, **counted):
    """Whether every node tells this of a tenant."""
    told = [usage(server, tenant) for _ in server.nodes.all]
    return all({name: found[name] for name in counted} == counted for found in told)


@contextmanager
def refused(error, text):
    with pytest.raises(error, match=text):
        yield


def test_http_publishers_of_a_tenant_are_refused_with_429(server, tenant):
    red, published = tenant(publish_messages_per_s=10), 0

    def publish_until_refused():
        nonlocal published
        while published < MANY:  # the nodes of a cluster have parts of the quota
            publish(server, red, count=15)
            published += 15

    with pytest.raises(urllib.error.HTTPError) as caught:
        publish_until_refused()
    assert caught.value.code == 429
    assert int(caught.value.headers["retry-after"]) >= 1
    with caught.value:
        told = json.load(caught.value)
    assert told["code"] == "rate_limited"
    assert f"publish_messages_per_s of tenant '{red}'" in told["detail"]
    eventually(lambda: _used(server, red, published_messages=published), "usage")
    found = eventually(lambda: usage(server, red)["violations"], "a violation is told")
    assert found["publish_messages_per_s"] >= 1


def test_the_quota_of_one_tenant_is_not_that_of_another(server, tenant):
    red, blue = tenant(publish_messages_per_s=1), tenant(publish_messages_per_s=1000)
    publish(server, red, count=10)
    publish(server, blue, count=10)
    publish(server, blue)


def test_usage_counts_what_is_read_and_can_be_reset(server, tenant):
    red = tenant()
    publish(server, red, count=5)
    ask(server, "GET", f"/topics/{red}.orders/partitions/0/messages?offset=0&limit=5")
    counted = {"published_messages": 5, "consumed_messages": 5, "topics": 1, "partitions": 1}
    eventually(lambda: _used(server, red, **counted), "everything is counted")
    ask(server, "POST", f"/admin/tenants/{red}/usage/reset", {})
    publish(server, red)
    eventually(lambda: _used(server, red, published_messages=1), "one is counted since")


def test_topics_and_partitions_are_bounded(server, tenant):
    create, red = (
        server.broker.create_topic,
        tenant(max_topics=2, max_partitions_per_topic=3, max_partitions=3),
    )
    with refused(QuotaExceededError, "max_partitions_per_topic allows 3"):
        server.run(create(f"{red}.wide", 4))
    with refused(QuotaExceededError, "max_partitions allows 3"):
        server.run(create(f"{red}.many", 3))
    server.run(create(f"{red}.second", 1))
    with refused(QuotaExceededError, "max_topics allows 2"):
        server.run(create(f"{red}.third", 1))
    with refused(QuotaExceededError, "max_partitions allows 3"):
        server.run(server.broker.grow_topic(f"{red}.second", 3))
    path = f"/admin/tenants/{red}/stats"
    assert ask(server, "GET", path)["quotas"]["max_topics"] == {
        "used": 2,
        "limit": 2,
        "percent": 100.0,
    }
    eventually(lambda: ask(server, "GET", path)["violations"].get("max_topics") == 1, "it is told")


def test_messages_are_not_kept_longer_than_allowed(server, tenant):
    red, hour_ms = tenant(max_retention_ms=7 * 24 * 3_600_000), 3_600_000
    configure = server.broker.configure_topic
    server.run(configure(f"{red}.orders", {"retention.ms": str(hour_ms)}))
    for too_long in ("-1", str(8 * 24 * hour_ms)):
        with refused(QuotaExceededError, "max_retention_ms"):
            server.run(configure(f"{red}.orders", {"retention.ms": too_long}))


def test_large_batches_and_long_delays_are_refused(server, tenant):
    red, writer = tenant(max_message_bytes=1000, max_delay_ms=60_000), server.broker.writer
    large = [NewMessage(b"x" * 2000)]
    (result,) = server.run(writer.publish(f"{red}.orders", large))
    assert isinstance(result.error, BatchTooLargeError)
    later = [NewMessage(b"x", deliver_at_ms=server.broker.clock.now_ms() + 120_000)]
    (result,) = server.run(writer.publish(f"{red}.orders", later))
    assert isinstance(result.error, DelayTooLongError)


def test_a_tenant_whose_storage_is_full_publishes_nothing(server, tenant):
    red = tenant(max_storage_bytes=1)
    publish(server, red)
    meter = server.broker.quotas.tenant_meters[red]
    meter.stored_bytes = 100  # as the next pass would find
    (result,) = server.run(server.broker.writer.publish(f"{red}.orders", [NewMessage(b"x")]))
    assert isinstance(result.error, StorageQuotaExceededError)


def test_groups_and_members_are_bounded(server, tenant):
    red = tenant(max_groups=1, max_members_per_group=1)
    broker = server.run(server.nodes.coordinated(f"{red}.first"))
    names = (f"{red}.second-{number}" for number in count())
    second = next(each for each in names if server.nodes.coordinator(each) is broker)
    server.run(broker.queues.open(f"{red}.first", QueueSettings()))
    with refused(GroupQuotaExceededError, "max_groups allows 1"):
        server.run(broker.queues.open(second, QueueSettings()))
    settings = broker.groups.settings
    assert broker.tenant_limits.group_settings(f"{red}.first", settings).max_group_size == 1
    assert broker.tenant_limits.group_settings("free", settings) == settings


def test_quotas_and_usage_of_an_unknown_tenant_are_not_found(server):
    with pytest.raises(urllib.error.HTTPError) as caught:
        usage(server, "nobody")
    assert caught.value.code == 404
    caught.value.close()


def test_usage_survives_a_restart(tmp_path):
    async def first():
        async with running_nodes(tmp_path / "data", *FLAGS, environment=ROOT) as nodes:
            broker = nodes.broker
            await broker.tenants.create("red", "Red", quotas=UNLIMITED)
            await broker.create_topic("red.orders", 1)
            await broker.usage_topic.run()
            await broker.writer.publish("red.orders", [NewMessage(b"x")] * 7)

    async def second():
        async with running_nodes(tmp_path / "data", *FLAGS, environment=ROOT) as nodes:
            await nodes.broker.usage_topic.run()
            await nodes.broker.writer.publish("red.orders", [NewMessage(b"x")] * 2)
            return nodes.broker.usage_topic.usage("red")

    asyncio.run(first())
    assert asyncio.run(second()).published_messages == 9
