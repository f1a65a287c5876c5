"""Streams of gRPC that pass from one node to another, over real connections between nodes."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc import StatusCode

import goqueue
from goqueue.cluster.facts import ACTIVE, MemberFacts
from goqueue.cluster.hello import NodeIdentity
from goqueue.cluster.records import NodeAddress
from goqueue.model.errors import PeerUnavailableError, PeerVersionError
from goqueue.protocols.grpc import carried
from goqueue.protocols.grpc.carried import CarriedCalls
from goqueue.protocols.grpc.forwarding import Passing
from goqueue.protocols.grpc.places import PLACES
from goqueue.protocols.kafka.connection.listener import Listener
from goqueue.protocols.kafka.internal.families import internal_registry, internal_settings
from goqueue.protocols.kafka.internal.grpc_calls import GrpcCallsApi
from goqueue.server.cluster.peers import PeerConnections
from goqueue.topics.forwarding import Forwards
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.kafka.api_keys import ApiKey
from support.scenarios import scenario
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

STREAM = "/test/Stream"
UNARY = "/test/Unary"


def test_every_method_of_the_contract_has_a_place_that_finds_what_it_looks_for():
    methods = {
        f"/{service.full_name}/{method.name}": method
        for service in pb.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert PLACES.keys() == methods.keys()
    for name, place in PLACES.items():
        place.check(getattr(pb, methods[name].input_type.name))


class Cluster:
    """Node 2, as node 1 sees it: it answers with the handlers of the test."""

    def __init__(self, peers: PeerConnections) -> None:
        self.peers = peers
        self.forwards = Forwards(self, self)  # type: ignore[arg-type]  # it is what both ask for

    def members(self) -> list[MemberFacts]:
        return [MemberFacts(2, ACTIVE, version=goqueue.__version__)]

    async def unary(self, method: str, data: bytes) -> Any:
        return await self.forwards.ask(
            2,
            ApiKey.CALL_GRPC,
            size_bytes=len(data),
            deadline_s=30.0,
            stays=lambda: True,
            method=method,
            client="ipv4:192.0.2.1:5000",
            principal='{"name": "ANONYMOUS", "kind": "anonymous"}',
            is_last=True,
            messages=[{"data": data}],
        )

    def stream(self, client: Client, stays: bool = True) -> asyncio.Task[Any]:
        passing = Passing(self.forwards, STREAM, 2, client)  # type: ignore[arg-type]  # as above
        return asyncio.ensure_future(passing.run(client.requests(), lambda: stays))


class Client:
    """One client: what it sends, and what has come for it."""

    def __init__(self, *sent: str) -> None:
        self._sending: asyncio.Queue[str | None] = asyncio.Queue()
        self.send(*sent)
        self.received: list[str] = []
        self.may_read = asyncio.Event()
        self.may_read.set()

    def send(self, *texts: str | None) -> None:
        for each in texts:
            self._sending.put_nowait(each)

    async def requests(self) -> AsyncIterator[Any]:
        while (text := await self._sending.get()) is not None:
            yield pb.GroupRequest(name=text)

    def peer(self) -> str:
        return "ipv4:192.0.2.1:5000"

    async def write(self, data: bytes) -> None:
        await self.may_read.wait()
        self.received.append(data.decode())


@asynccontextmanager
async def two_nodes(stream: Any = None, unary: Any = None) -> AsyncIterator[Cluster]:
    calls = CarriedCalls(
        {
            STREAM: grpc.stream_stream_rpc_method_handler(stream, None, str.encode),
            UNARY: grpc.unary_unary_rpc_method_handler(unary, None, str.encode),
        }
    )
    there = NodeIdentity(cluster_id="one", node_id=2, secret=b"s", incarnation=1)
    here = NodeIdentity(cluster_id="one", node_id=1, secret=b"s", incarnation=1)
    registry = internal_registry(there, lambda _: None, GrpcCallsApi(lambda: calls))
    registry.is_complete = True
    listener = Listener(registry, internal_settings("127.0.0.1", 0))
    await listener.start()
    peers = PeerConnections(here, {2: NodeAddress("127.0.0.1", listener.port)}.get)
    try:
        yield Cluster(peers)
    finally:
        peers.close()
        await listener.stop(deadline_s=1.0)


def name_of(data: bytes) -> str:
    return pb.GroupRequest.FromString(data).name


async def echo(requests: AsyncIterator[bytes], context: Any) -> None:
    await context.write(context.peer())
    async for data in requests:
        await context.write(name_of(data))
    await context.abort(StatusCode.ABORTED, "that was all", (("word", "last"),))


@scenario
async def test_everything_passes_in_order_and_the_end_is_the_handler_s() -> None:
    async with two_nodes(echo) as cluster:
        sent = [str(number) for number in range(500)]
        client = Client(*sent)
        client.send(None)
        answer = await cluster.stream(client)
        assert client.received == ["ipv4:192.0.2.1:5000", *sent]
        assert (answer.status, answer.details) == (StatusCode.ABORTED.value[0], "that was all")
        assert [(each.name, bytes(each.value)) for each in answer.trailers] == [("word", b"last")]
        assert cluster.forwards.held_bytes == 0


@scenario
async def test_what_is_said_one_by_one_is_answered_one_by_one() -> None:
    async with two_nodes(echo) as cluster:
        client = Client()
        running = cluster.stream(client)
        for number in range(20):
            client.send(str(number))
            await until(lambda: len(client.received) == number + 2)  # noqa: B023 - waited for here
        client.send(None)
        await running
        assert client.received[1:] == [*map(str, range(20))]


@scenario
async def test_a_client_that_reads_nothing_lets_the_handler_wait(monkeypatch) -> None:
    monkeypatch.setattr(carried, "_OUTBOX_BYTES", 1000)
    written = 0

    async def flood(requests: AsyncIterator[bytes], context: Any) -> None:
        nonlocal written
        while True:
            await context.write("x" * 100)
            written += 1

    async with two_nodes(flood) as cluster:
        client = Client("go")
        client.may_read.clear()
        running = cluster.stream(client)
        await until(lambda: written >= 10)
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert written <= 100
        client.may_read.set()
        await until(lambda: len(client.received) > 200)
        running.cancel()
        await asyncio.wait((running,))


@scenario
async def test_a_handler_that_takes_nothing_lets_the_client_wait() -> None:
    begun = asyncio.Event()

    async def deaf(requests: AsyncIterator[bytes], context: Any) -> None:
        begun.set()
        await asyncio.sleep(3600)

    async with two_nodes(deaf) as cluster:
        client = Client(*map(str, range(100)))
        running = cluster.stream(client)
        await begun.wait()
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert client._sending.qsize() > 50
        running.cancel()
        await asyncio.wait((running,))


@scenario
async def test_a_client_that_goes_away_ends_its_handler() -> None:
    ended = asyncio.Event()

    async def patient(requests: AsyncIterator[bytes], context: Any) -> None:
        try:
            await context.write("here")
            await asyncio.sleep(3600)
        finally:
            ended.set()

    async with two_nodes(patient) as cluster:
        client = Client("go")
        running = cluster.stream(client)
        await until(lambda: client.received)
        running.cancel()
        async with asyncio.timeout(30):
            await ended.wait()


@scenario
async def test_a_stream_of_a_group_that_has_moved_ends_with_something_to_act_on() -> None:
    async with two_nodes(echo) as cluster:
        with pytest.raises(PeerUnavailableError, match="try again"):
            await cluster.stream(Client("go"), stays=False)


@scenario
async def test_a_call_without_a_stream_is_one_request() -> None:
    async def shout(data: bytes, context: Any) -> str:
        if data == b"no":
            await context.abort(StatusCode.NOT_FOUND, "none")
        return f"{context.peer()} {data.decode().upper()} {context.sender}"

    async with two_nodes(unary=shout) as cluster:
        answer = await cluster.unary(UNARY, b"word")
        assert bytes(answer.messages[0].data) == b"ipv4:192.0.2.1:5000 WORD 1"
        assert (answer.is_ended, answer.status) == (True, 0)
        refused = await cluster.unary(UNARY, b"no")
        assert (refused.status, refused.details) == (StatusCode.NOT_FOUND.value[0], "none")


@scenario
async def test_a_method_of_another_version_is_refused_in_words() -> None:
    async with two_nodes() as cluster:
        answer = await cluster.unary("/goqueue.v9.Future/Call", b"")
        assert answer.status == StatusCode.UNIMPLEMENTED.value[0]
        assert "is no method of goqueue" in answer.details
    with pytest.raises(PeerVersionError):
        CarriedCalls({}).is_stream(UNARY)
