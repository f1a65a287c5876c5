"""Both clients against a server in a process of its own, which is killed and started again."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from goqueue import AsyncClient, Client, ClientSettings
from goqueue.client.errors import BufferFullError, ClientClosedError
from goqueue.model.errors import GoQueueError, UnknownTopicError
from goqueue.model.topic_partition import TopicPartition
from support.server import ServerProcess, server, start_server

__all__ = ["server", "start_server"]

PARTITIONS = 3
PATIENT: dict[str, Any] = {"delivery_timeout_ms": 200_000, "call_timeout_ms": 100_000}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One server for the tests that do not harm it."""
    process = ServerProcess(tmp_path_factory.mktemp("server") / "data")
    process.start()
    yield process
    process.close()


@pytest.fixture
def client(shared, request):
    with Client(shared.grpc_address, ClientSettings(linger_ms=1, **PATIENT)) as made:
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
    with Client(shared.grpc_address, ClientSettings(buffer_messages=50)) as client:
        for number in range(1000):
            client.publish(topic, b"%d" % number)
            assert client._unsettled <= 50
        client.flush()
        assert client.send_stats.acknowledged == 1000


def test_a_full_buffer_raises_where_that_is_wanted(shared, topic):
    settings = ClientSettings(buffer_messages=5, when_full="raise", linger_ms=1e6)
    with Client(shared.grpc_address, settings) as client:
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
    client = Client(shared.grpc_address, ClientSettings(linger_ms=1e6))
    for _ in range(10):
        client.publish(topic, b"v")
    client.close()
    client.close()
    with pytest.raises(ClientClosedError):
        client.publish(topic, b"late")
    with Client(shared.grpc_address) as other:
        assert len(read_back(other, topic)) == 10


def test_a_reader_may_stop_in_the_middle(client, topic):
    for number in range(100):
        client.publish(topic, b"%d" % number, partition=0)
    client.flush()
    for message in client.consume(topic):
        if message.offset == 5:
            break
    assert [m.offset for m in client.consume(topic, start=98, until_end=True)] == [98, 99]


def test_a_group_is_read_and_committed(client, topic):
    for number in range(1500):
        client.publish(topic, b"%d" % number)
    client.flush()
    seen = []
    with client.subscribe("sync-group", [topic], auto_commit_ms=None) as consumer:
        for message in consumer:
            seen.append((message.partition, message.offset))
            if len(seen) == 1000:
                break
        consumer.commit()
        assert consumer.assignment == {TopicPartition(topic, n) for n in range(PARTITIONS)}
    with client.subscribe("sync-group", [topic]) as consumer:
        while len(seen) < 1500:
            message = next(consumer)
            seen.append((message.partition, message.offset))
    assert len(set(seen)) == 1500
    assert client.groups.describe("sync-group").name == "sync-group"
    lags = [each.lag for each in client.offsets.fetch("sync-group")]
    assert lags == [0] * PARTITIONS
    changes = client.offsets.reset("sync-group", topic, "earliest", dry_run=True)
    assert sum(each.before for each in changes) == 1500


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
    with Client(server.grpc_address, settings) as client:
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


def test_readers_and_members_go_on_after_a_kill(server):
    async def main():
        async with AsyncClient(
            server.grpc_address, ClientSettings(linger_ms=0, **PATIENT)
        ) as client:
            await client.topics.create("t", partitions=1)
            read, joined = [], []

            async def note(messages, offsets):
                async for message in messages:
                    offsets.append(message.offset)

            async def member():
                async with client.subscribe("g", ["t"], auto_commit_ms=50) as consumer:
                    await note(consumer, joined)

            tasks = [
                asyncio.create_task(note(client.consume("t"), read)),
                asyncio.create_task(member()),
            ]
            for _ in range(2):
                for _ in range(50):
                    await client.publish("t", b"v")
                await client.flush()
                await asyncio.sleep(0.3)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            receipt = await (await client.publish("t", b"last"))
            async with asyncio.timeout(120):
                while not (receipt.offset in read and receipt.offset in joined):
                    assert not any(task.done() for task in tasks)
                    await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
                with suppress(asyncio.CancelledError, GoQueueError):
                    await task
            assert read == list(range(101))  # nothing missed, nothing twice
            assert sorted(set(joined)) == list(range(101))  # nothing missed

    asyncio.run(main())
