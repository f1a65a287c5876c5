"""Answers that make no sense: nothing hangs, every failure is an error of ours, and it goes on."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest

from goqueue.client.link.addresses import Address
from goqueue.client.link.connection import Connection
from goqueue.model.errors import GoQueueError
from protocol.raw_kafka import RawKafka, make_batch
from support.batches import garbage_batch
from support.fake_cluster import fake_cluster
from support.linked import linked, taken

CALL_TIMEOUT_MS = 300
BOUND_S = 30.0
"""Far more than anything may take whose own bound is `CALL_TIMEOUT_MS`."""


VALUES = [b"%d" % number for number in range(20)]


async def all_read(client):
    """Once what was learned from mangled answers is forgotten."""
    while True:
        with suppress(GoQueueError, TimeoutError):
            async with asyncio.timeout(2):
                return [m.value async for m in client.consume("t", until_end=True)]


def mangled(frame, luck):
    """An answer that a broken network, or broker, might send."""
    data = bytearray(frame)
    match luck.randrange(6):
        case 0:
            for _ in range(luck.randint(1, 4)):
                data[luck.randrange(4, len(data)) if len(data) > 4 else 0] = luck.randrange(256)
        case 1:
            del data[luck.randrange(len(data)) :]
        case 2:
            data += luck.randbytes(luck.randint(1, 40))
        case 3:
            data[4:] = luck.randbytes(len(data) - 4)
        case 4:
            data[:4] = luck.randbytes(4)
        case _:
            at = luck.randrange(len(data))
            data[at:at] = luck.randbytes(luck.randint(1, 8))
    return memoryview(data) if len(data) >= 4 else memoryview(bytes(4))


@pytest.mark.parametrize("seed", range(8))
def test_mangled_answers_end_in_an_error_or_are_asked_for_again(seed, monkeypatch):
    luck = random.Random(seed)
    answered = Connection._answered
    is_on = [True]

    def answer(self, frame):
        answered(self, mangled(frame, luck) if is_on[0] and luck.random() < 0.25 else frame)

    monkeypatch.setattr(Connection, "_answered", answer)

    async def read(client):
        """May go on for ever with a broker that lies about where the log ends."""
        with suppress(GoQueueError, TimeoutError):
            async with asyncio.timeout(0.5):
                async for message in client.consume("t", until_end=True):
                    assert message.value in VALUES  # the checksum does not cover the offset

    async def join(client):
        """Joining and committing end in their time; taking may wait for ever."""
        consumer = client.subscribe("g", ["t"], auto_commit_ms=20)
        with suppress(GoQueueError):
            await asyncio.wait_for(consumer.__aenter__(), BOUND_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    await taken(consumer, 20)
            await asyncio.wait_for(consumer.commit(), BOUND_S)
        await asyncio.wait_for(consumer.__aexit__(None), BOUND_S)

    async def main():
        async with fake_cluster() as cluster:
            cluster.count = 20
            address = f"127.0.0.1:{cluster.ports[0]}"
            settings = {"backoff_ms": 2, "call_timeout_ms": CALL_TIMEOUT_MS}
            async with linked(address, **settings) as client:
                for _ in range(6):
                    await asyncio.gather(read(client), join(client))
                is_on[0] = False
                client.link.hang_up("control")  # what it has said of its versions may be a lie
                assert await asyncio.wait_for(all_read(client), BOUND_S) == VALUES

    asyncio.run(asyncio.wait_for(main(), 150))


@pytest.mark.parametrize("seed", range(4))
def test_a_server_of_noise_is_given_up_in_time(seed):
    luck = random.Random(seed)

    async def serve(reader, writer):
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await reader.read(1 << 16):
                noise = luck.randbytes(luck.randint(1, 200))
                if luck.random() < 0.5:
                    noise = len(noise).to_bytes(4, "big") + noise
                writer.write(noise)
                if luck.random() < 0.3:
                    break
        writer.close()

    async def main():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        settings = {"backoff_ms": 2, "call_timeout_ms": CALL_TIMEOUT_MS}
        async with linked(address, **settings) as client:
            for _ in range(5):
                with pytest.raises(GoQueueError):
                    await asyncio.wait_for(taken(client.consume("t"), 1), BOUND_S)
                with pytest.raises(GoQueueError):
                    await asyncio.wait_for(client.subscribe("g", ["t"]).__aenter__(), BOUND_S)
        server.close()

    asyncio.run(main())


def test_many_brokers_that_do_not_answer_hold_a_call_up_no_longer_than_one():
    async def hear(reader, writer):
        with suppress(ConnectionError):
            await reader.read()
        writer.close()

    async def main():
        server = await asyncio.start_server(hear, "0.0.0.0", 0)
        port = server.sockets[0].getsockname()[1]
        settings = {"backoff_ms": 2, "call_timeout_ms": CALL_TIMEOUT_MS}
        async with linked(f"127.0.0.1:{port}", **settings) as client:
            told = {number: Address(f"127.0.1.{number}", port) for number in range(1, 255)}
            client.link.metadata.nodes.update(told)
            began_s = asyncio.get_running_loop().time()
            with pytest.raises(GoQueueError):
                await taken(client.consume("t"), 1)
            assert asyncio.get_running_loop().time() - began_s < BOUND_S
        server.close()

    asyncio.run(main())


# --- Garbage that a producer has stored -----------------------------------------------------------


@pytest.mark.parametrize("form", [None, 3, "arrow"])
def test_what_does_not_decode_is_left_out_and_the_rest_is_read(broker, name, form, caplog):
    topic = name("garbage")
    with RawKafka(broker.kafka_port) as raw:
        raw.create(topic)
        for batch in (make_batch(b"before"), garbage_batch(10, good=2), make_batch(b"after")):
            assert raw.produce(topic, batch).error_code == 0

    async def main():
        async with linked(broker.kafka_address) as client:
            found = []
            async for each in client.consume(topic, until_end=True, batch=form):
                if form == "arrow":
                    found += each["value"].to_pylist()
                else:
                    found += [m.value for m in ([each] if form is None else each)]
            assert found == [b"before", b"good 0", b"good 1", b"after"]
            assert "do not decode" in caplog.text

    asyncio.run(main())
