"""Addresses where no Kafka listener is: told at once, and by what is there."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from goqueue import AsyncClient, Client, ClientSettings
from goqueue.client.errors import BrokerUnavailableError, ClientClosedError, ForeignServerError

PATIENT = ClientSettings(call_timeout_ms=200_000, delivery_timeout_ms=200_000)
"""Whatever is tried again takes longer than a test may."""


def _join(client):
    with client.subscribe("g", ["t"]):
        pass


def _work(client):
    with client.queue("g", ["t"]) as queue:
        next(iter(queue))


USES = {
    "administration": lambda client: client.topics.list(),
    "publish": lambda client: client.publish("t", b"v").result(),
    "consume": lambda client: next(client.consume("t")),
    "subscribe": _join,
    "queue": _work,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(
    ("listener", "spoken"), [("http_port", "HTTP;"), ("grpc_port", "HTTP/2, as gRPC does")]
)
def test_a_listener_of_another_protocol_is_told_at_once(broker, listener, spoken, use):
    address = f"127.0.0.1:{getattr(broker, listener)}"
    with Client(address, PATIENT) as client:
        with pytest.raises(ForeignServerError, match=rf"^{address} .*{spoken}"):
            use(client)
        with pytest.raises(ForeignServerError):  # and again: nothing is left over
            client.topics.list()


def test_a_listener_without_tls_is_told_at_once_where_tls_is_wanted(broker):
    settings = ClientSettings(call_timeout_ms=200_000, tls=True)
    address = f"127.0.0.1:{broker.http_port}"
    with (
        Client(address, settings) as client,
        pytest.raises(ForeignServerError, match="does not speak TLS"),
    ):
        client.topics.list()
    soon = ClientSettings(call_timeout_ms=300, backoff_ms=20, tls=True)
    with (
        Client(broker.kafka_address, soon) as client,
        pytest.raises(BrokerUnavailableError, match="does it speak TLS"),
    ):
        client.topics.list()


@asynccontextmanager
async def answering(data: bytes):
    """A server that says this to whoever connects, and nothing else; its address."""
    writers = []

    def connected(_reader, writer):
        writers.append(writer)
        writer.write(data)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield "{}:{}".format(*server.sockets[0].getsockname())
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()


@pytest.mark.parametrize(
    ("data", "spoken"),
    [
        (b"\0\0\x1e\4\0\0\0\0\0\0\3\0\0\0d", "HTTP/2"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP;"),
        (b"\x15\3\1\0\2\2\x46", "TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "something else"),
    ],
)
def test_a_server_that_speaks_first_is_told_at_once(data, spoken):
    async def main():
        async with answering(data) as address, AsyncClient(address, PATIENT) as client:
            for _ in range(3):
                with pytest.raises(ForeignServerError, match=spoken):
                    await client.topics.list()

    asyncio.run(main())


async def _async_join(client):
    async with client.subscribe("g", ["t"]):
        pass


async def _async_work(client):
    async with client.queue("g", ["t"]) as queue:
        await anext(aiter(queue))


async def _commit(client):
    async with client.transaction("x") as transaction:
        await transaction.publish("t", b"v")


ASYNC_USES = {
    "administration": lambda client: client.topics.list(),
    "publish": lambda client: client.publish("t", b"v"),
    "publish_many": lambda client: client.publish_many("t", [b"v"]),
    "consume": lambda client: anext(client.consume("t")),
    "subscribe": _async_join,
    "queue": _async_work,
    "transaction": _commit,
}


def test_closing_while_it_connects_is_told_and_cancels_nobody():
    async def main():
        async with answering(b"") as address:
            client = AsyncClient(address, PATIENT)
            tasks = [asyncio.ensure_future(use(client)) for use in ASYNC_USES.values()]
            done, _ = await asyncio.wait(tasks, timeout=0.1)
            assert not done
            await client.close()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert {name: type(end) for name, end in zip(ASYNC_USES, ends, strict=True)} == (
            dict.fromkeys(ASYNC_USES, ClientClosedError)
        )

    asyncio.run(main())
