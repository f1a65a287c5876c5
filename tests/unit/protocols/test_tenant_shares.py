"""One tenant has no more than half of what the clients of a node share, over real sockets."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from grpc import StatusCode, aio

from goqueue.access.principals import Principal
from goqueue.access.settings import AccessSettings
from goqueue.access.tenants.records import Tenant
from goqueue.model.errors import TenantShareExceededError
from goqueue.protocols.grpc.listener import GrpcListener, GrpcSettings
from goqueue.protocols.http.api.app import HttpApp
from goqueue.protocols.http.api.gate import Gate
from goqueue.protocols.http.api.router import Router
from goqueue.protocols.http.server.listener import HttpListener
from goqueue.protocols.http.server.settings import HttpSettings
from goqueue.protocols.permissions import OPEN, Permissions
from goqueue.topics.forwarding import Forwards
from goqueue.wire.grpc.contract import ERROR_KEY
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import ConsumeServiceStub, HealthServiceStub
from support.brokers import running_broker
from support.cluster_brokers import one_of_three
from support.scenarios import scenario
from support.waiting import until
from unit.protocols.http.test_http_bounds import SWEEP_S, Client, Patient, connected, poll_count
from unit.protocols.http.test_http_event_hub import hub_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from goqueue.broker.log_broker import LogBroker

ACCESS = AccessSettings(is_enabled=True, uses_tenants=True)


async def keys_of(broker: LogBroker) -> dict[str, str]:
    """An API key of each of two tenants, and one of no tenant."""
    tenants = broker.access.tenants.records
    for each in ("acme", "globex"):
        await tenants.change({each: Tenant(id=each, name=each, created_ms=1, updated_ms=1)})
    create = broker.access_administration.create_key
    return {
        tenant: (await create(f"k-{tenant}", ("admin",), tenant=tenant or None)).key
        for tenant in ("acme", "globex", "")
    }


# --- HTTP -------------------------------------------------------------------------------------


@asynccontextmanager
async def http_server(
    folder: Path, **bounds: Any
) -> AsyncIterator[tuple[Patient, HttpListener, dict[str, str]]]:
    async with running_broker(folder, access=ACCESS) as broker:
        patient = Patient()
        router = Router(patient)
        app = HttpApp(lambda: router, gate=Gate(broker))
        listener = HttpListener(app, HttpSettings(sweep_s=SWEEP_S, **bounds))
        await listener.start()
        try:
            yield patient, listener, await keys_of(broker)
        finally:
            patient.may_go_on.set()
            await listener.stop(5)


def get(path: str, key: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\r\n".encode()


@scenario
async def test_a_tenant_that_polls_leaves_half_of_the_polls_to_others(tmp_path: Path) -> None:
    async with (
        http_server(tmp_path, max_polls=4) as (patient, listener, keys),
        AsyncExitStack() as stack,
    ):

        async def client(path: str, tenant: str) -> Client:
            return await stack.enter_async_context(connected(listener, get(path, keys[tenant])))

        polls = [await client("/poll", "acme") for _ in range(2)]
        await poll_count(listener, 2)
        third = await client("/poll", "acme")
        refusal = await third.answer()
        assert refusal.startswith(b"HTTP/1.1 429 ")
        assert b"\r\nretry-after: 1\r\n" in refusal
        assert b'"code":"tenant_share_exceeded"' in refusal
        assert b"has 2 polls and streams" in refusal
        assert b"may have 2 of the 4" in refusal
        third.writer.write(get("/now", keys["acme"]))
        assert (await third.answer()).startswith(b"HTTP/1.1 200 ")

        for tenant in ("globex", ""):
            await client("/poll", tenant)
        await poll_count(listener, 4)
        patient.may_go_on.set()
        for each in polls:
            assert (await each.answer()).startswith(b"HTTP/1.1 200 ")
        third.writer.write(get("/poll", keys["acme"]))
        assert (await third.answer()).startswith(b"HTTP/1.1 200 "), "the places are free again"


@scenario
async def test_clients_that_hang_up_give_their_places_back(tmp_path: Path) -> None:
    async with http_server(tmp_path, max_polls=2) as (_, listener, keys):
        for _ in range(5):
            async with connected(listener, get("/poll", keys["acme"])):
                await poll_count(listener, 1)
            await until(lambda: not listener.service or not listener.service.polls)


def test_a_tenant_with_many_users_leaves_half_of_the_event_streams(tmp_path: Path) -> None:
    async def play() -> None:
        async with running_broker(tmp_path) as broker:
            hub, _ = hub_of(broker, look_s=60, max_streams=4)
            streams = []
            for user in ("ann", "bob"):
                may = Permissions(OPEN, Principal(user, tenant="acme"))
                streams.append(hub.parts(frozenset({"topics"}), again=False, may=may))
                await anext(streams[-1])
            carl = Permissions(OPEN, Principal("carl", tenant="acme"))
            with pytest.raises(TenantShareExceededError, match="2 event streams"):
                hub.check_room(carl)
            hub.check_room(Permissions(OPEN, Principal("gil", tenant="globex")))
            await streams.pop().aclose()
            hub.check_room(carl)
            await streams.pop().aclose()

    asyncio.run(play())


# --- gRPC -------------------------------------------------------------------------------------


@asynccontextmanager
async def grpc_server(
    folder: Path, **bounds: Any
) -> AsyncIterator[tuple[GrpcListener, dict[str, str]]]:
    async with running_broker(folder, access=ACCESS) as broker:
        listener = GrpcListener(broker, GrpcSettings(port=0, **bounds))
        await listener.start()
        try:
            yield listener, await keys_of(broker)
        finally:
            await listener.stop(1)


def channel_to(listener: GrpcListener) -> aio.Channel:
    # Channels of one process share a connection unless they are told not to.
    return aio.insecure_channel(
        f"127.0.0.1:{listener.port}", options=(("grpc.use_local_subchannel_pool", 1),)
    )


async def watch(channel: aio.Channel, key: str) -> Any:
    """A stream that has been let in."""
    call = HealthServiceStub(channel).Watch(pb.HealthCheckRequest(), metadata=(("x-api-key", key),))
    await call.read()
    return call


async def refused(channel: aio.Channel, key: str, words: str) -> None:
    with pytest.raises(aio.AioRpcError) as told:
        await watch(channel, key)
    expect_refusal(told.value, words)


def expect_refusal(error: aio.AioRpcError, words: str) -> None:
    assert error.code() is StatusCode.RESOURCE_EXHAUSTED
    assert words in (error.details() or "")
    told = pb.Error.FromString(dict(error.trailing_metadata() or ())[ERROR_KEY])
    assert (told.name, told.retriable) == ("TenantShareExceededError", True)
    assert told.retry_after_ms == 1000


async def has_ended(channel: aio.Channel, key: str) -> Any:
    """A stream that is let in once the server has noticed that another is gone."""
    while True:
        try:
            return await watch(channel, key)
        except aio.AioRpcError as error:
            if error.code() is not StatusCode.RESOURCE_EXHAUSTED:
                raise
            await asyncio.sleep(0.01)


@scenario
async def test_a_tenant_with_many_calls_leaves_half_of_them_to_others(tmp_path: Path) -> None:
    async with (
        grpc_server(tmp_path, max_calls=5) as (listener, keys),
        channel_to(listener) as channel,
    ):
        calls = [await watch(channel, keys["acme"]) for _ in range(2)]
        await refused(channel, keys["acme"], "has 2 gRPC calls under way on this node")
        calls += [await watch(channel, keys[tenant]) for tenant in ("globex", "")]
        calls[0].cancel()
        calls.append(await has_ended(channel, keys["acme"]))
        await refused(channel, keys["acme"], "may have 2 of the 5")
        for each in calls:
            each.cancel()


@scenario
async def test_a_tenant_with_many_connections_leaves_half_of_them(tmp_path: Path) -> None:
    async with grpc_server(tmp_path, max_connections=4) as (listener, keys), AsyncExitStack() as at:
        first, second, third = [
            await at.enter_async_context(channel_to(listener)) for _ in range(3)
        ]
        calls = [await watch(each, keys["acme"]) for each in (first, first, second)]
        await refused(third, keys["acme"], "has 2 gRPC connections with calls under way")
        calls.append(await watch(third, keys["globex"]))
        calls[0].cancel()
        await refused(third, keys["acme"], "may have 2 of the 4")
        calls[1].cancel()
        calls.append(await has_ended(third, keys["acme"]))
        for each in calls:
            each.cancel()


class Standstill:
    """Another node that takes every stream and answers none."""

    def __init__(self) -> None:
        self.peers = self
        self.stream_count = 0

    async def dial(self, _node_id: int) -> Any:
        self.stream_count += 1
        return self

    async def ask(self, *_args: Any, **_fields: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    def close(self) -> None:
        self.stream_count -= 1


@scenario
async def test_a_tenant_leaves_half_of_the_forwarded_streams_to_others(tmp_path: Path) -> None:
    async with one_of_three(tmp_path, access=ACCESS) as made:
        await made.offsets_topic(2)
        keys = await keys_of(made.broker)
        there: Any = Standstill()
        forwards = Forwards(there, made.facts, max_streams=4)
        listener = GrpcListener(made.broker, GrpcSettings(port=0), forwards)
        await listener.start()
        try:
            async with channel_to(listener) as channel:

                async def subscribe(tenant: str, count: int) -> Any:
                    metadata = (("x-api-key", keys[tenant]),)
                    call = ConsumeServiceStub(channel).Subscribe(metadata=metadata)
                    join = pb.SubscribeJoin(group="g", topics=["t"])
                    await call.write(pb.SubscribeRequest(join=join))
                    await until(lambda: call.done() or there.stream_count == count)
                    return call

                calls = [await subscribe("acme", count) for count in (1, 2)]
                third = await subscribe("acme", 3)
                with pytest.raises(aio.AioRpcError) as told:
                    await third.read()
                expect_refusal(told.value, "has 2 streams that pass to other nodes")
                calls.append(await subscribe("globex", 3))
                calls[0].cancel()
                await until(lambda: there.stream_count == 2)
                calls.append(await subscribe("acme", 3))
                assert not any(each.done() for each in calls[1:])
                for each in calls:
                    each.cancel()
        finally:
            await listener.stop(1)
