"""Single calls to a node that is away, stands still, or is taken for dead."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from goqueue.client.link.addresses import Address
from goqueue.client.link.connection import Connection
from goqueue.client.settings import ClientSettings
from goqueue.model.errors import PeerUnavailableError
from goqueue.server.cluster import peer_calls
from goqueue.server.cluster.peer_calls import NodeCalls
from goqueue.wire.kafka.api_keys import ApiKey
from support.scenarios import scenario
from support.waiting import until

if TYPE_CHECKING:
    import pytest

CALLS = 200


class Silent:
    """A node that takes every connection and answers nothing, as one that stands still does."""

    def __init__(self) -> None:
        self.dial_count = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._hold, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # until the caller hangs up
        writer.close()

    async def dial(self) -> Connection:
        assert self._server is not None
        self.dial_count += 1
        port = self._server.sockets[0].getsockname()[1]
        address = Address("127.0.0.1", port)
        connection = Connection(address, ClientSettings(call_timeout_ms=60_000))
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: connection, address.host, address.port)
        return connection


def ping(calls: NodeCalls) -> asyncio.Task[Any]:
    asking = calls.ask(ApiKey.LIST_GROUPS, 4, 0.0, {"states_filter": ()})
    return asyncio.ensure_future(asking)


async def errors(asked: list[asyncio.Task[Any]]) -> set[str]:
    """What all of them are told."""
    told = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(each) for each in told} == {PeerUnavailableError}
    return {str(each) for each in told}


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@scenario
async def test_all_that_wait_for_a_node_that_is_away_share_what_one_dial_finds() -> None:
    dialled: list[asyncio.Future[None]] = []

    async def dial() -> Connection:
        dialled.append(asyncio.get_running_loop().create_future())
        await dialled[-1]
        raise PeerUnavailableError(f"connection {len(dialled)} refused")

    calls = NodeCalls(2, dial)
    first = ping(calls)
    await turns()
    dialled[0].set_result(None)
    await errors([first])
    asked = [ping(calls) for _ in range(CALLS)]
    await until(lambda: len(dialled) > 1)
    dialled[1].set_result(None)
    assert await errors(asked) == {"connection 2 refused"}
    assert len(dialled) == 2, "each has dialled for itself"


@scenario
async def test_those_that_come_after_a_failed_dial_find_out_anew() -> None:
    count = 0

    async def dial() -> Connection:
        nonlocal count
        count += 1
        raise PeerUnavailableError(f"connection {count} refused")

    calls = NodeCalls(2, dial)
    for number in (1, 2, 3):
        assert await errors([ping(calls)]) == {f"connection {number} refused"}


@scenario
async def test_a_node_that_is_taken_for_dead_is_waited_for_by_nobody() -> None:
    async with Silent() as node:
        calls = NodeCalls(2, node.dial)
        asked = [ping(calls) for _ in range(CALLS)]
        await until(lambda: node.dial_count == peer_calls._MAX_CALLS)
        await turns(100)
        assert not any(each.done() for each in asked)
        calls.lose("it is fenced")
        assert await errors(asked) == {"node 2 cannot be reached: it is fenced"}
        assert node.dial_count == peer_calls._MAX_CALLS, "those behind have dialled again"


@scenario
async def test_a_call_waits_for_a_place_only_as_long_as_for_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer_calls, "_MAX_CALLS", 1)
    monkeypatch.setattr(peer_calls, "CALL_S", 0.01)
    async with Silent() as node:
        calls = NodeCalls(2, node.dial)
        first = ping(calls)
        await until(lambda: node.dial_count == 1)
        (told,) = await errors([ping(calls)])
        assert "this one was not sent" in told
        assert not first.done()
        calls.close()
        await errors([first])


@scenario
async def test_calls_that_dial_at_once_and_fail_are_one_failure() -> None:
    async def dial() -> Connection:
        await asyncio.sleep(0)
        raise PeerUnavailableError("connection refused")

    calls = NodeCalls(2, dial)
    await errors([ping(calls) for _ in range(50)])
    assert calls._failures == 1
