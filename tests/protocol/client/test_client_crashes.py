"""Consuming from a server in a process of its own, which is killed, stopped and started again."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from contextlib import suppress

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue import Client, ClientSettings
from goqueue.model.errors import GoQueueError
from goqueue.model.topic_partition import TopicPartition
from support.linked import linked, until
from support.server import make_server, server, start_server

__all__ = ["server", "start_server"]

PARTITIONS = 3


def make_topic(server, name="t", partitions=PARTITIONS):
    admin = AdminClient({"bootstrap.servers": server.kafka_address})
    for made in admin.create_topics([NewTopic(name, partitions)]).values():
        made.result(60)


class Writer:
    """Publishes numbers from a thread, also while the server is away."""

    def __init__(self, server, topic="t", partitions=PARTITIONS):
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": server.kafka_address,
                "enable.idempotence": True,
                "message.timeout.ms": 200_000,
                "reconnect.backoff.max.ms": 200,
                "linger.ms": 2,
            }
        )
        self._topic, self._partitions = topic, partitions
        self.count = 0

    def write(self, count):
        for _ in range(count):
            self._producer.produce(
                self._topic, b"%d" % self.count, partition=self.count % self._partitions
            )
            self.count += 1
            self._producer.poll(0)

    def flush(self):
        assert self._producer.flush(200) == 0


async def collect(messages, found):
    async for message in messages:
        found.append(message)


def test_a_reader_misses_nothing_and_sees_nothing_twice_when_the_broker_is_killed(server):
    make_topic(server)
    writer = Writer(server)

    async def main():
        found = []
        async with linked(server.kafka_address) as client:
            reading = asyncio.create_task(collect(client.consume("t", partition=None), found))
            for _ in range(3):
                await asyncio.to_thread(writer.write, 2000)
                await asyncio.to_thread(writer.flush)
                await until(lambda: len(found) > writer.count - 1500)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await asyncio.to_thread(writer.write, 10)
            await asyncio.to_thread(writer.flush)
            await until(lambda: len(found) >= writer.count or reading.done())
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
        assert sorted(int(each.value) for each in found) == list(range(writer.count))
        for number in range(PARTITIONS):
            offsets = [each.offset for each in found if each.partition == number]
            assert offsets == sorted(set(offsets))

    asyncio.run(main())


def test_a_member_goes_on_after_a_kill_and_repeats_nothing_that_it_had(server):
    """A restart within the session timeout costs the member nothing: not even its assignment."""
    make_topic(server)
    writer = Writer(server)

    async def main():
        found = []
        async with (
            linked(server.kafka_address) as client,
            client.subscribe("g", ["t"], auto_commit_ms=50) as consumer,
        ):
            reading = asyncio.create_task(collect(consumer, found))
            for _ in range(2):
                await asyncio.to_thread(writer.write, 2000)
                await asyncio.to_thread(writer.flush)
                await until(lambda: len(found) > writer.count - 1500)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await asyncio.to_thread(writer.write, 10)
            await asyncio.to_thread(writer.flush)
            await until(lambda: len(found) >= writer.count or reading.done())
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
            assert len(consumer.assignment) == PARTITIONS
        assert sorted(int(each.value) for each in found) == list(range(writer.count))

    asyncio.run(main())


def test_a_broker_that_stalls_is_waited_for(server):
    make_topic(server)
    writer = Writer(server)
    writer.write(300)
    writer.flush()

    async def main():
        read, joined = [], []
        async with (
            linked(server.kafka_address, call_timeout_ms=2_000) as client,
            client.subscribe("g", ["t"], auto_commit_ms=None) as consumer,
        ):
            tasks = [
                asyncio.create_task(collect(client.consume("t", partition=None), read)),
                asyncio.create_task(collect(consumer, joined)),
            ]
            await until(lambda: len(read) == len(joined) == 300)
            server.signal(signal.SIGSTOP)
            try:
                with pytest.raises(GoQueueError):
                    await consumer.commit()
                await asyncio.sleep(3)
            finally:
                server.signal(signal.SIGCONT)
            await consumer.commit()
            await asyncio.to_thread(writer.write, 300)
            await asyncio.to_thread(writer.flush)
            await until(lambda: len(read) >= 600 and len(joined) >= 600)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for found in (read, joined):
            assert sorted(int(each.value) for each in found) == list(range(600))

    asyncio.run(main())


def test_partitions_change_hands_between_this_client_and_another(server):
    """librdkafka is a member of the same group; together they read everything, in order."""
    make_topic(server, partitions=4)
    writer = Writer(server, partitions=4)
    theirs: list[tuple[int, int]] = []
    stop = threading.Event()

    def other():
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": server.kafka_address,
                "group.id": "g",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 100,
            }
        )
        consumer.subscribe(["t"])
        while not stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                theirs.append((message.partition(), message.offset()))
        consumer.close()

    async def main():
        ours = []
        async with (
            linked(server.kafka_address) as client,
            client.subscribe("g", ["t"], auto_commit_ms=100) as consumer,
        ):
            reading = asyncio.create_task(collect(consumer, ours))
            assert len(consumer.assignment) == 4
            await asyncio.to_thread(writer.write, 400)
            await asyncio.to_thread(writer.flush)
            await until(lambda: len(ours) == 400)
            thread = threading.Thread(target=other)
            thread.start()
            try:
                await until(lambda: len(consumer.assignment) == 2)
                await asyncio.to_thread(writer.write, 400)
                await asyncio.to_thread(writer.flush)
                await until(lambda: len(ours) + len(theirs) >= 800)
            finally:
                stop.set()
                await asyncio.to_thread(thread.join)
            await until(lambda: len(consumer.assignment) == 4)
            await asyncio.to_thread(writer.write, 400)
            await asyncio.to_thread(writer.flush)
            await until(lambda: len(ours) + len(theirs) >= 1200)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        seen = [(each.partition, each.offset) for each in ours] + theirs
        assert sorted(seen) == [(part, offset) for part in range(4) for offset in range(300)]

    asyncio.run(main())


def test_members_come_and_go_while_the_broker_is_killed_and_nothing_is_lost(server):
    """Whatever a member has left uncommitted is read by another one."""
    make_topic(server)
    writer = Writer(server)
    luck = random.Random(5)

    async def main():
        seen: set[int] = set()

        async def member(client):
            while True:
                async with client.subscribe("g", ["t"], auto_commit_ms=20) as consumer:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(luck.uniform(0.2, 2)):
                            async for message in consumer:
                                seen.add(int(message.value))

        async with linked(server.kafka_address) as client:
            members = [asyncio.create_task(member(client)) for _ in range(3)]
            for _ in range(3):
                for _ in range(10):
                    await asyncio.to_thread(writer.write, 100)
                    await asyncio.sleep(0.05)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await asyncio.to_thread(writer.flush)
            await until(lambda: len(seen) == writer.count or any(m.done() for m in members))
            assert seen == set(range(writer.count))
            for task in members:
                task.cancel()
            await asyncio.gather(*members, return_exceptions=True)

    asyncio.run(main())


# --- Without asyncio ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One server for the tests that do not harm it."""
    process = make_server(tmp_path_factory.mktemp("server") / "data")
    process.start()
    yield process
    process.close()


@pytest.fixture
def client(shared):
    with Client(shared.kafka_address, ClientSettings(call_timeout_ms=100_000)) as made:
        yield made


def test_the_blocking_client_reads_messages_and_batches(shared, client):
    make_topic(shared, "one", 1)
    writer = Writer(shared, "one", 1)
    writer.write(1000)
    writer.flush()
    expected = list(range(1000))
    assert [int(m.value) for m in client.consume("one", until_end=True)] == expected
    lists = list(client.consume("one", until_end=True, batch=64))
    assert [int(m.value) for each in lists for m in each] == expected
    tables = list(client.consume("one", until_end=True, batch="arrow"))
    assert [int(v) for table in tables for v in table["value"].to_pylist()] == expected
    for message in client.consume("one"):
        if message.offset == 5:
            break
    assert [m.offset for m in client.consume("one", start=998, until_end=True)] == [998, 999]
    with pytest.raises(ValueError, match="batch"):
        next(client.consume("one", batch="x"))


def test_the_blocking_client_is_a_member_of_a_group(shared, client):
    make_topic(shared, "group")
    writer = Writer(shared, "group")
    writer.write(1500)
    writer.flush()
    seen = []
    with client.subscribe("sync-group", ["group"], auto_commit_ms=None) as consumer:
        for message in consumer:
            seen.append((message.partition, message.offset))
            if len(seen) == 700:
                break
        for batch in consumer.batches(30):
            seen += [(message.partition, message.offset) for message in batch]
            if len(seen) >= 1000:
                break
        consumer.commit()
        assert consumer.assignment == {TopicPartition("group", n) for n in range(PARTITIONS)}
    with client.subscribe("sync-group", ["group"]) as consumer:
        while len(seen) < 1500:
            message = next(consumer)
            seen.append((message.partition, message.offset))
    assert len(seen) == len(set(seen)) == 1500


def test_a_blocking_member_waits_for_messages_and_hands_over(shared, client):
    make_topic(shared, "handed")
    writer = Writer(shared, "handed")
    found = {1: [], 2: []}

    def read(number):
        with client.subscribe("handed-group", ["handed"], auto_commit_ms=100) as consumer:
            for message in consumer:
                if message.value == b"stop":
                    return
                found[number].append((message.partition, message.offset))

    threads = [threading.Thread(target=read, args=(number,)) for number in (1, 2)]
    threads[0].start()
    writer.write(300)
    writer.flush()
    threads[1].start()
    while len(found[1]) + len(found[2]) < 300 or not found[2]:
        writer.write(30)
        writer.flush()
        threads[1].join(0.1)
    producer = confluent_kafka.Producer({"bootstrap.servers": shared.kafka_address})
    while any(thread.is_alive() for thread in threads):
        for number in range(PARTITIONS):
            producer.produce("handed", b"stop", partition=number)
        producer.flush()
        for thread in threads:
            thread.join(0.2)
    seen = found[1] + found[2]
    assert len(seen) == len(set(seen))
