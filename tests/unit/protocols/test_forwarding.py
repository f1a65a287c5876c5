"""Requests on their way to another node: their bytes, their deadline, and a node that moved."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import goqueue
from goqueue.cluster.facts import ACTIVE, MemberFacts
from goqueue.model.errors import ForwardingBusyError, PeerUnavailableError, PeerVersionError
from goqueue.protocols.http.api.forwarded import forward
from goqueue.protocols.http.api.requests import Request
from goqueue.topics import forwarding
from goqueue.topics.forwarding import Forwards
from goqueue.wire.kafka.api_keys import ApiKey
from support.scenarios import scenario

HEAD_BYTES = 1024
"""What a request counts for besides its bytes."""


class Network:
    """Another node, which answers when the test lets it."""

    def __init__(self, version: str = goqueue.__version__) -> None:
        self.asked: list[asyncio.Future[Any]] = []
        self.peers = self
        self.version = version

    async def ask(self, _node_id: int, _api: ApiKey, _version: int, **_fields: Any) -> Any:
        answer = asyncio.get_running_loop().create_future()
        self.asked.append(answer)
        return await answer

    def members(self) -> list[MemberFacts]:
        return [MemberFacts(2, ACTIVE, version=self.version)]


def forwards_over(network: Any, max_bytes: int = 10_000, **bounds: int) -> Forwards:
    return Forwards(network, network, max_bytes, **bounds)


def asking(forwards: Forwards, size_bytes: int = 0, **options: Any) -> asyncio.Task[Any]:
    told = {"deadline_s": 60.0, "stays": lambda: True, **options}
    call = forwards.ask(2, ApiKey.CALL_HTTP, size_bytes=size_bytes, **told)
    return asyncio.ensure_future(call)


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@scenario
async def test_what_waits_for_other_nodes_is_bounded_and_given_back() -> None:
    network = Network()
    forwards = forwards_over(network)
    first = asking(forwards, 4000 - HEAD_BYTES // 2)
    await turn()
    assert forwards.held_bytes == 8000
    with pytest.raises(ForwardingBusyError, match=r"8000 bytes .* of 10000"):
        await asking(forwards, 1000)
    small = asking(forwards, 10)
    await turn()
    network.asked[0].set_result("whole")
    network.asked[1].set_exception(PeerUnavailableError("node 2 is gone"))
    assert await first == "whole"
    with pytest.raises(PeerUnavailableError):
        await small
    assert forwards.held_bytes == 0


@scenario
async def test_the_headers_of_a_request_are_counted() -> None:
    forwards = forwards_over(Network(), 200_000)
    headers = {b"x-first": b"a" * 40_000, b"x-second": b"b" * 20_000}
    request = Request("GET", b"/groups/g", headers, b"")
    calls = [
        asyncio.ensure_future(forward(forwards, request, 2, deadline_s=60.0, stays=lambda: True))
        for _ in range(2)
    ]
    await turn()
    assert forwards.held_bytes > 2 * 60_000, "they are held as they came and as they are sent"
    (refused,) = [each for each in calls if each.done()]
    assert isinstance(refused.exception(), ForwardingBusyError)
    for each in calls:
        each.cancel()
    await asyncio.wait(calls)
    assert forwards.held_bytes == 0


@scenario
async def test_a_node_that_does_not_answer_is_waited_for_as_long_as_the_client_waits() -> None:
    network = Network()
    forwards = forwards_over(network)
    with pytest.raises(TimeoutError):
        await asking(forwards, deadline_s=0.01)
    await turn()
    assert network.asked[0].cancelled()
    assert forwards.held_bytes == 0


@scenario
async def test_a_client_that_goes_away_takes_its_request_back() -> None:
    network = Network()
    forwards = forwards_over(network)
    call = asking(forwards, 100)
    await turn()
    call.cancel()
    await asyncio.wait((call,))
    await turn()
    assert network.asked[0].cancelled()
    assert forwards.held_bytes == 0


@scenario
async def test_a_node_that_leads_no_more_is_not_waited_for(monkeypatch) -> None:
    monkeypatch.setattr(forwarding, "_LOOK_S", 0.001)
    monkeypatch.setattr(forwarding, "_MOVED_S", 0.005)
    network = Network()

    def nobody() -> bool:
        raise PeerUnavailableError("there is no leader")

    for stays in (lambda: False, nobody):
        with pytest.raises(PeerUnavailableError, match="whether it was done is not known"):
            await asking(forwards_over(network), stays=stays)


@scenario
async def test_a_node_that_has_moved_may_still_answer(monkeypatch) -> None:
    monkeypatch.setattr(forwarding, "_LOOK_S", 0.001)
    network = Network()
    call = asking(forwards_over(network), stays=lambda: False)
    await asyncio.sleep(0.01)
    network.asked[0].set_result("done")
    assert await call == "done"


@scenario
async def test_a_node_of_another_version_is_named_with_both_versions() -> None:
    network = Network(version="0.0.1")
    call = asking(forwards_over(network))
    await turn()
    network.asked[0].set_exception(PeerUnavailableError("it hung up"))
    with pytest.raises(PeerVersionError) as told:
        await call
    assert "node 2 runs goqueue 0.0.1 and this node" in str(told.value)
    assert "it hung up. Upgrade all nodes" in str(told.value)


@scenario
async def test_streams_to_other_nodes_are_bounded() -> None:
    closed: list[int] = []

    class Connection:
        def close(self) -> None:
            closed.append(1)

    class Dialled(Network):
        async def dial(self, _node_id: int) -> Any:
            return Connection()

    forwards = forwards_over(Dialled(), max_streams=1)
    async with forwards.connection(2):
        with pytest.raises(ForwardingBusyError, match="1 streams pass"):
            await forwards.connection(2).__aenter__()
    assert closed == [1]
    async with forwards.connection(2):
        pass
    assert closed == [1, 1]
