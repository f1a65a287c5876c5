"""Queues of both clients against a server in a process of its own, which is killed in the middle.

Nothing that was acknowledged may come again, everything else must, and receipts of before still
count: whoever holds a message when the broker dies can settle it when it is back.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from contextlib import suppress
from uuid import uuid4

import pytest

from goqueue import AsyncClient, Client, ClientSettings
from goqueue.client.errors import BrokerUnavailableError, ClientClosedError
from goqueue.model.errors import GoQueueError, ReceiptError, UnknownReceiptError
from support.pace import TooLateError, unhurried
from support.server import make_server, server, start_server

__all__ = ["server", "start_server"]

WAIT_S = 90
SETTINGS = ClientSettings(
    call_timeout_ms=WAIT_S * 1000, delivery_timeout_ms=2 * WAIT_S * 1000, linger_ms=1
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One server for the tests that do not harm it."""
    process = make_server(tmp_path_factory.mktemp("server") / "data")
    process.start()
    yield process
    process.close()


@pytest.fixture
def client(shared):
    with Client(shared.kafka_address, SETTINGS) as made:
        yield made


@pytest.fixture
def topic(client):
    name = f"t{uuid4().hex}"
    client.topics.create(name, partitions=2)
    return name


def fill(client, topic, count):
    for number in range(count):
        client.publish(topic, b"%d" % number)
    client.flush()


def lag(client, group):
    return sum(each.lag for each in client.offsets.fetch(group))


# --- Without asyncio ------------------------------------------------------------------------------


def test_messages_are_taken_and_acknowledged_one_by_one(client, topic):
    fill(client, topic, 50)
    seen = []
    with client.queue("one-by-one", [topic]) as queue:
        assert {place.partition for place in queue.assignment} == {0, 1}
        for message in queue:
            seen.append(int(message.value))
            message.ack()
            if len(seen) == 50:
                break
        assert lag(client, "one-by-one") == 0
        with pytest.raises(UnknownReceiptError):
            message.ack()
    assert sorted(seen) == list(range(50))
    with pytest.raises(ClientClosedError):
        message.ack()


def test_acknowledgements_that_nobody_waits_for_are_flushed(client, topic):
    fill(client, topic, 3000)
    seen = 0
    with client.queue("no-wait", [topic]) as queue:
        for batch in queue.batches(200):
            for message in batch:
                message.ack(wait=False)
            seen += len(batch)
            if seen == 3000:
                break
        queue.flush()
        assert lag(client, "no-wait") == 0


def test_every_verdict_has_its_twin(client, topic):
    fill(client, topic, 5)
    with client.queue("twins", [topic], visibility=600, prefetch=5) as queue:
        nacked, released, rejected, extended, late = (next(queue) for _ in range(5))
        nacked.nack(delay=0.1, reason="not yet")
        released.release(wait=False)
        rejected.reject("bad")
        extended.extend(30)
        again = {(each.value, each.delivery_count) for each in (next(queue), next(queue))}
        assert again == {(nacked.value, 2), (released.value, 2)}
        client.receipts.ack(extended.receipt_handle)
        client.receipts.extend(late.receipt_handle, 5)
        client.receipts.nack(late.receipt_handle, delay=60)
        with pytest.raises(ReceiptError):
            client.receipts.reject(late.receipt_handle, "too late")
        (outcome,) = client.receipts.ack_all([rejected.receipt_handle])
        assert isinstance(outcome, ReceiptError)


def test_threads_take_from_one_queue(client, topic):
    fill(client, topic, 400)
    seen, lock = Counter(), threading.Lock()

    def work(queue):
        with suppress(GoQueueError):
            for message in queue:
                with lock:
                    seen[message.value] += 1
                message.ack(wait=False)

    queue = client.queue("threads", [topic])
    with queue:
        threads = [threading.Thread(target=work, args=(queue,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        while sum(seen.values()) < 400:
            threads[0].join(0.01)
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert seen == {b"%d" % number: 1 for number in range(400)}
    assert lag(client, "threads") == 0


def test_a_publisher_without_asyncio_may_delay_and_prefer(client, topic):
    def delayed(time_ms):
        sent = client.publish(topic, b"later", delay=time_ms / 1000, partition=0)
        if sent.result(WAIT_S).delayed_id is None:
            raise TooLateError

    unhurried(delayed)
    client.publish(topic, b"low", priority="low", partition=0)
    client.publish(topic, b"high", priority="high", partition=0, ttl=3600)
    client.flush()
    with client.queue("special", [topic]) as queue:
        found = [next(queue).value for _ in range(3)]
    assert set(found) == {b"high", b"low", b"later"}
    assert found.index(b"high") < found.index(b"low")


# --- Killed ---------------------------------------------------------------------------------------


def test_receipts_of_before_a_kill_still_count(server):
    async def main():
        async with AsyncClient(server.kafka_address, SETTINGS) as client:
            await client.topics.create("t", partitions=1)

            async def publish(numbers):
                for number in numbers:
                    await client.publish("t", b"%d" % number)
                await client.flush()

            await publish(range(20))
            async with client.queue("g", ["t"], prefetch=20, visibility=600) as queue:
                held = [await anext(queue) for _ in range(10)]
                # What is on its way when the broker dies comes after ten minutes: let nothing be.
                while len(queue._session.messages) < 10:  # noqa: ASYNC110 - it is nobody's news
                    await asyncio.sleep(0.01)
                for message in held[:5]:
                    await message.ack()
                server.kill()
                waiting = [message.ack() for message in held[5:9]]  # said while nobody hears it
                await asyncio.to_thread(server.restart)
                for each in waiting:
                    await each
                with pytest.raises(UnknownReceiptError):
                    await client.receipts.ack(held[0].receipt_handle)
                with pytest.raises(UnknownReceiptError):
                    await held[1].ack()
                await client.receipts.ack(held[9].receipt_handle)
                await publish(range(20, 40))
                rest = Counter()
                async with asyncio.timeout(WAIT_S):
                    while len(rest) < 30:
                        message = await anext(queue)
                        rest[int(message.value)] += 1
                        await message.ack()
                # What waited in the client was given back unseen, and came once.
                assert rest == dict.fromkeys(range(10, 40), 1)
            (offset,) = await client.offsets.fetch("g")
            assert offset.lag == 0

    asyncio.run(main())


def test_a_server_that_stops_in_order_takes_nothing_from_its_members(server):
    async def main():
        async with AsyncClient(server.kafka_address, SETTINGS) as client:
            await client.topics.create("t", partitions=1)
            delivery = await client.publish("t", b"v")
            await delivery
            async with client.queue("g", ["t"], visibility=600) as queue:
                message = await anext(queue)
                await asyncio.to_thread(server.restart)
                await message.ack()
            (offset,) = await client.offsets.fetch("g")
            assert offset.lag == 0

    asyncio.run(main())


def test_a_dead_broker_is_told_of_to_those_who_wait_for_it(server):
    async def main():
        settings = ClientSettings(call_timeout_ms=5000)
        async with AsyncClient(server.kafka_address, settings) as client:
            await client.topics.create("t", partitions=1)
            await client.publish("t", b"v")
            await client.flush()
            async with client.queue("g", ["t"]) as queue:
                message = await anext(queue)
                server.kill()
                with pytest.raises(BrokerUnavailableError):
                    await message.ack()

    asyncio.run(main())


class Oracle:
    """What two workers have seen, and what the broker has told them is stored.

    A worker may see a delivery whose visibility timeout ran out while it waited in the client,
    also after another worker has acknowledged a later one. What must not be is a delivery after
    one that was acknowledged.
    """

    def __init__(self):
        self.seen = Counter()
        self.acked = {}
        """By message, the number of the delivery that was acknowledged."""
        self.delivered_after_ack = []

    async def work(self, client, assignment):
        queue = client.queue("g", ["t"], assignment=assignment, prefetch=50, visibility=2)
        async with queue:
            async for message in queue:
                number = int(message.value)
                self.seen[number] += 1
                delivery = message.delivery_count
                if delivery > self.acked.get(number, delivery):
                    self.delivered_after_ack.append((number, self.acked[number], delivery))
                with suppress(ReceiptError, BrokerUnavailableError):
                    await message.ack()
                    self.acked[number] = max(delivery, self.acked.get(number, 0))

    async def acked_all(self, total):
        """Wait for as long as there is progress."""
        while (acked := len(self.acked)) < total:
            async with asyncio.timeout(WAIT_S):
                while len(self.acked) == acked:  # noqa: ASYNC110 - no event tells it
                    await asyncio.sleep(0.01)


async def publish_slowly(client, total):
    for number in range(total):
        await client.publish("t", b"%d" % number)
        if number % 20 == 0:
            await asyncio.sleep(0.01)
    await client.flush()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("assignment", ["shared", "exclusive"])
def test_through_kills_nothing_acknowledged_comes_again_and_everything_else_does(
    server, assignment
):
    total, kills = 2000, 3
    oracle = Oracle()

    async def main():
        async with AsyncClient(server.kafka_address, SETTINGS) as client:
            await client.topics.create("t", partitions=2)
            workers = [asyncio.create_task(oracle.work(client, assignment)) for _ in range(2)]
            publisher = asyncio.create_task(publish_slowly(client, total))
            for _ in range(kills):
                await asyncio.sleep(random.uniform(0.1, 0.5))
                server.kill()
                await asyncio.to_thread(server.restart)
            await publisher
            await oracle.acked_all(total)
            for each in workers:
                each.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            assert sum(each.lag for each in await client.offsets.fetch("g")) == 0

    asyncio.run(main())
    assert not oracle.delivered_after_ack
    assert set(oracle.seen) == set(range(total))
