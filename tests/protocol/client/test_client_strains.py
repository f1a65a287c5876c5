"""The client under strain: stalls, sizes, floods, forks, threads, and programs that give up."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from goqueue import AsyncClient, Client, ClientSettings
from goqueue.client.errors import (
    BrokerUnavailableError,
    BufferFullError,
    ClientClosedError,
    ForeignLoopError,
)
from goqueue.model.errors import BatchTooLargeError, MalformedRecordError, UnknownTopicError
from support.linked import linked
from support.server import free_port, server, start_server

__all__ = ["server", "start_server"]


def made(server, topic="t", partitions=2, **settings):
    with Client(server.kafka_address) as client:
        client.topics.create(topic, partitions=partitions, settings=settings or None)


def everything(client, topic="t"):
    return [each.value for each in client.consume(topic, partition=None, until_end=True)]


# --- Stalls ---------------------------------------------------------------------------------------


def stall(server, seconds):
    """A broker that hangs for a while, in the middle of publishing."""
    made(server)
    settings = ClientSettings(call_timeout_ms=1000, backoff_ms=20)
    with Client(server.kafka_address, settings) as client:
        handles = [client.publish("t", b"%d" % number) for number in range(500)]
        client.flush()
        server.signal(signal.SIGSTOP)
        waking = threading.Timer(seconds, server.signal, (signal.SIGCONT,))
        waking.start()
        try:
            handles += [client.publish("t", b"%d" % number) for number in range(500, 1000)]
            client.flush()
        finally:
            waking.join()
        assert all(each.result().offset >= 0 for each in handles)
        found = everything(client)
        assert sorted(map(int, found)) == list(range(1000))


def test_a_broker_that_stalls_loses_nothing_and_doubles_nothing(server):
    stall(server, 3)


@pytest.mark.slow
def test_a_broker_that_stalls_for_half_a_minute_loses_nothing(server):
    stall(server, 35)


# --- Sizes and floods -----------------------------------------------------------------------------


def test_messages_of_one_byte_to_ten_megabytes(server):
    made(server, partitions=1, **{"max.message.bytes": str(16 << 20)})
    sizes = [0, 1, 100, 4095, 65_536, 262_143, 262_144, 1 << 20, 10_000_000]
    with Client(server.kafka_address) as client:
        sent = [bytes([number]) * size for number, size in enumerate(sizes)]
        handles = [client.publish("t", value) for value in sent]
        client.flush()
        assert [each.result().offset for each in handles] == list(range(len(sizes)))
        assert everything(client) == sent


def flood(server, count):
    """Publish without waiting: never more are pending than the buffer may hold."""
    made(server)
    settings = ClientSettings(buffer_messages=5000)
    with Client(server.kafka_address, settings) as client:
        most = 0
        for number in range(count):
            client.publish("t", b"%d" % number)
            if number % 1000 == 0:
                stats = client.send_stats
                most = max(most, stats.published - stats.acknowledged)
        client.flush()
        assert most <= 5000
        assert client.send_stats.acknowledged == count
        found = sum(
            len(batch)
            for batch in client.consume("t", partition=None, until_end=True, batch=10_000)
        )
        assert found == count


def test_a_publisher_that_does_not_wait_is_slowed_down_by_the_buffer(server):
    flood(server, 50_000)


@pytest.mark.slow
def test_a_million_publishes_without_waiting(server):
    flood(server, 1_000_000)


def test_a_full_buffer_raises_where_that_is_told_and_publishing_goes_on(server):
    made(server)
    settings = ClientSettings(buffer_messages=100, when_full="raise", linger_ms=1e6)
    with Client(server.kafka_address, settings) as client:
        for number in range(100):
            client.publish("t", b"%d" % number)
        with pytest.raises(BufferFullError, match="buffer_messages"):
            client.publish("t", b"one too many")
        client.flush()
        client.publish("t", b"100")
        client.flush()
        assert len(everything(client)) == 101


# --- Processes, threads, loops --------------------------------------------------------------------

FORKING = """
import os, sys
import goqueue
from goqueue.model.errors import GoQueueError
address = sys.argv[1]
child = os.fork()
with goqueue.Client(address) as client:
    client.publish("t", b"child" if child == 0 else b"parent").result(60)
if child == 0:
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0
with goqueue.Client(address) as client:
    child = os.fork()
    if child == 0:
        try:
            client.publish("t", b"never")
        except GoQueueError as error:
            os._exit(7 if "fork" in str(error) else 8)
        os._exit(9)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7, status
    client.publish("t", b"parent again").result(60)
"""


def test_a_process_may_fork_after_the_import_and_a_client_stays_with_its_process(server):
    made(server)
    done = subprocess.run(
        [sys.executable, "-c", FORKING, server.kafka_address],
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with Client(server.kafka_address) as client:
        assert sorted(everything(client)) == [b"child", b"parent", b"parent again"]


def test_handles_may_be_waited_for_in_several_threads(server):
    made(server)
    with Client(server.kafka_address) as client:
        handles = [client.publish("t", b"%d" % number) for number in range(200)]
        found: list[set[tuple[int, int]]] = []

        def wait():
            found.append({(r.partition, r.offset) for r in (h.result(60) for h in handles)})

        threads = [threading.Thread(target=wait) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(found) == 4
        assert all(places == found[0] and len(places) == 200 for places in found)
        futures = [handle.future() for handle in handles]
        assert {(f.result(60).partition, f.result(60).offset) for f in futures} == found[0]


def test_another_event_loop_is_refused_by_publish(server):
    made(server)
    client = AsyncClient(server.kafka_address)

    async def publish():
        await (await client.publish("t", b"v"))

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(publish())
        with pytest.raises(ForeignLoopError, match=r"goqueue\.Client"):
            asyncio.run(publish())
        loop.run_until_complete(client.close())
    finally:
        loop.close()


# --- Giving up ------------------------------------------------------------------------------------


def test_every_awaitable_may_be_cancelled_and_the_client_goes_on(server):
    made(server)

    async def main():
        async with linked(server.kafka_address, linger_ms=20) as client:

            async def wait_for_message():
                async for _ in client.consume("t", start="latest"):
                    pass

            async def member():
                async with client.subscribe("g", ["t"]) as consumer:
                    await anext(consumer)

            async def worker():
                async with client.queue("q", ["t"]) as queue:
                    await anext(queue)

            async def transaction():
                async with client.transaction("tx") as open_one:
                    await open_one.publish("t", b"never")
                    await asyncio.sleep(3600)

            async def delivery():
                await (await client.publish("t", b"published all the same"))

            works = (
                wait_for_message,
                member,
                worker,
                transaction,
                delivery,
                client.flush,
                client.topics.list,
            )
            for delay_s in (0, 0.001, 0.02, 0.3):
                tasks = [asyncio.create_task(work()) for work in works]
                await asyncio.sleep(delay_s)
                for task in tasks:
                    task.cancel()
                ended = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 90)
                assert [each for each in ended if isinstance(each, Exception)] == []
            receipt = await asyncio.wait_for(await client.publish("t", b"after", partition=0), 90)
            last = client.consume("t", start=receipt.offset, until_end=True)
            assert [each.value async for each in last] == [b"after"]

    asyncio.run(main())


def test_closing_sends_what_is_in_flight_and_ends_what_waits(server):
    made(server)

    async def main():
        client = AsyncClient(server.kafka_address)
        handles = [await client.publish("t", b"%d" % number) for number in range(1000)]

        async def read():
            async for _ in client.consume("t", start="latest"):
                pass

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.05)
        await asyncio.wait_for(client.close(), 90)
        assert all(each.done() and each.exception() is None for each in handles)
        with pytest.raises(ClientClosedError):
            await asyncio.wait_for(reading, 90)
        with pytest.raises(ClientClosedError):
            await client.publish("t", b"late")
        with pytest.raises(ClientClosedError):
            await client.topics.list()

    asyncio.run(main())


def test_closing_a_blocking_client_frees_publishers_that_wait_for_room(server):
    made(server)
    client = Client(server.kafka_address, ClientSettings(buffer_messages=10, linger_ms=1e6))
    for number in range(10):
        client.publish("t", b"%d" % number)
    told: list[Exception | None] = []

    def publish():
        try:
            client.publish("t", b"waits")
            told.append(None)
        except ClientClosedError as error:
            told.append(error)

    waiting = threading.Thread(target=publish)
    waiting.start()
    client.close()
    waiting.join(60)
    assert len(told) == 1
    with pytest.raises(ClientClosedError):
        client.publish("t", b"late")


# --- Bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "kind", "named"),
    [
        ({"value": 3.5}, TypeError, "value"),
        ({"value": {"a": 1}}, TypeError, "value"),
        ({"key": 7}, TypeError, "key"),
        ({"key": ["k"]}, TypeError, "key"),
        ({"headers": {"h": 1}}, TypeError, "header"),
        ({"headers": {1: b"v"}}, TypeError, "header"),
        ({"headers": 5}, TypeError, "header"),
        ({"timestamp_ms": "now"}, TypeError, "timestamp"),
        ({"timestamp_ms": 1 << 70}, MalformedRecordError, "timestamp"),
        ({"partition": "0"}, TypeError, "partition"),
        ({"topic": 7}, TypeError, "topic"),
        ({"topic": None}, TypeError, "topic"),
        ({"value": "\ud800"}, UnicodeEncodeError, "surrogates"),
    ],
)
def test_what_is_no_message_is_refused_by_publish_and_leaves_the_client_usable(
    server, options, kind, named
):
    made(server)
    message = {"topic": "t", "value": b"v", **options}
    with Client(server.kafka_address) as client:
        for _ in range(2):  # before the topic is known, and after
            with pytest.raises(kind, match=named):
                client.publish(**message).result(60)
        with suppress(MalformedRecordError):  # told by its handle, and once more
            client.flush()
        assert client.publish("t", b"fine").result(60).offset == 0

    async def main():
        async with AsyncClient(server.kafka_address) as client:
            with pytest.raises(kind, match=named):
                await client.publish(**message)
            await (await client.publish("t", b"fine"))

    asyncio.run(main())


def test_an_unknown_topic_and_a_message_that_is_too_large_are_named(server):
    made(server, **{"max.message.bytes": "1000"})
    with Client(server.kafka_address) as client:
        with pytest.raises(UnknownTopicError, match="absent"):
            client.publish("absent", b"v").result(60)
        with pytest.raises(BatchTooLargeError):
            client.publish("t", bytes(5000)).result(60)
        with pytest.raises(UnknownTopicError):
            client.flush()
        assert client.publish("t", b"fine").result(60).offset == 0


def test_an_unreachable_server_is_named_with_how_long_it_was_tried():
    port = free_port()
    settings = ClientSettings(call_timeout_ms=300, backoff_ms=20)
    with Client(f"127.0.0.1:{port}", settings) as client:
        with pytest.raises(BrokerUnavailableError, match=rf"127\.0\.0\.1:{port} for \d\.\d s"):
            client.topics.list()
        with pytest.raises(BrokerUnavailableError, match=rf"127\.0\.0\.1:{port} for \d\.\d s"):
            client.publish("t", b"v").result(60)
        with pytest.raises(BrokerUnavailableError):
            client.flush()
