"""Both clients against a server in a process of its own, which is killed and started again."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from goqueue import Client, ClientSettings
from goqueue.client.errors import BufferFullError, ClientClosedError
from goqueue.model.errors import UnknownTopicError
from goqueue.model.topic_partition import TopicPartition
from support.server import make_server, server, start_server

__all__ = ["server", "start_server"]

PARTITIONS = 3
PATIENT: dict[str, Any] = {"delivery_timeout_ms": 200_000, "call_timeout_ms": 100_000}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One server for the tests that do not harm it."""
    process = make_server(tmp_path_factory.mktemp("server") / "data")
    process.start()
    yield process
    process.close()


@pytest.fixture
def client(shared, request):
    with Client(shared.kafka_address, ClientSettings(linger_ms=1, **PATIENT)) as made:
        yield made


@pytest.fixture
def topic(client, request):
    name = f"t{abs(hash(request.node.name))}"
    client.topics.create(name, partitions=PARTITIONS)
    return name


def read_back(client, topic):
    return [
        message
        for number in range(PARTITIONS)
        for message in client.consume(topic, partition=number, until_end=True)
    ]


# --- Without asyncio ------------------------------------------------------------------------------


def test_publish_flush_and_consume(client, topic):
    receipt = client.publish(topic, "v", key="k", headers={"a": "1"}).result(90)
    (message,) = client.consume(topic, partition=receipt.partition, until_end=True)
    assert (message.key, message.value, message.headers) == (b"k", b"v", (("a", b"1"),))


def test_threads_may_share_a_client(client, topic):
    def send(sender):
        for number in range(300):
            client.publish(topic, b"%d" % number, key=b"%d" % sender)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(send, range(6)))
    client.flush()
    by_key = {}
    for message in read_back(client, topic):
        by_key.setdefault(message.key, []).append(int(message.value))
    assert by_key == {b"%d" % sender: list(range(300)) for sender in range(6)}


def test_a_slow_broker_slows_the_publisher_down(shared, topic):
    with Client(shared.kafka_address, ClientSettings(buffer_messages=50)) as client:
        for number in range(1000):
            client.publish(topic, b"%d" % number)
            stats = client.send_stats
            assert stats.published - stats.acknowledged <= 50
        client.flush()
        assert client.send_stats.acknowledged == 1000


def test_a_full_buffer_raises_where_that_is_wanted(shared, topic):
    settings = ClientSettings(buffer_messages=5, when_full="raise", linger_ms=1e6)
    with Client(shared.kafka_address, settings) as client:
        for _ in range(5):
            client.publish(topic, b"v")
        with pytest.raises(BufferFullError):
            client.publish(topic, b"v")


def test_a_failure_is_told_by_the_delivery_and_by_flush(client):
    delivery = client.publish("nowhere", b"v")
    with pytest.raises(UnknownTopicError):
        delivery.result(90)
    with pytest.raises(UnknownTopicError):
        client.flush()
    client.flush()


def test_closing_sends_what_is_left(shared, topic):
    client = Client(shared.kafka_address, ClientSettings(linger_ms=1e6))
    for _ in range(10):
        client.publish(topic, b"v")
    client.close()
    client.close()
    with pytest.raises(ClientClosedError):
        client.publish(topic, b"late")
    with Client(shared.kafka_address) as other:
        assert len(read_back(other, topic)) == 10


def test_administration_without_asyncio(client):
    client.topics.create("managed", partitions=1)
    assert "managed" in [each.name for each in client.topics.list()]
    client.topics.configure("managed", {"retention.ms": "1000"})
    client.topics.grow("managed", 2)
    assert len(client.topics.describe("managed").partitions) == 2
    client.offsets.commit("managed-group", {TopicPartition("managed", 0): 0})
    assert "managed-group" in [each.name for each in client.groups.list()]
    client.groups.delete("managed-group")
    client.topics.delete("managed")


# --- Through kill -9 ------------------------------------------------------------------------------


def test_nothing_is_lost_or_doubled_when_the_broker_is_killed(server):
    """An oracle counts: each acknowledged message once, at its receipt, in the order of its key."""
    settings = ClientSettings(linger_ms=1, batch_messages=20, buffer_messages=500, **PATIENT)
    count = 6000
    with Client(server.kafka_address, settings) as client:
        client.topics.create("t", partitions=PARTITIONS)
        deliveries = []

        def send():
            deliveries.extend(
                client.publish("t", b"%d" % number, key=b"%d" % (number % 7))
                for number in range(count)
            )

        sender = threading.Thread(target=send)
        sender.start()
        for threshold in (count // 4, count // 2, 3 * count // 4):
            while client.send_stats.acknowledged < threshold:
                assert sender.is_alive()
            server.kill()
            server.start()
        sender.join(200)
        client.flush()
        receipts = [delivery.result(0) for delivery in deliveries]
        stored = read_back(client, "t")
    values = Counter(int(message.value) for message in stored)
    assert values == Counter(range(count))
    places = {(message.partition, message.offset): int(message.value) for message in stored}
    assert [places[each.partition, each.offset] for each in receipts] == list(range(count))
    by_key = {}
    for message in stored:
        by_key.setdefault(message.key, []).append(int(message.value))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
