"""CallHttp on a live listener: polls end with their clients, everything else runs to its end."""

from __future__ import annotations

import asyncio

import msgspec

from goqueue.protocols.http.api.app import HttpApp
from goqueue.protocols.http.api.rights import ANYONE
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.router import Router
from goqueue.protocols.kafka.cluster.http_calls import HttpCallsApi
from goqueue.server.http_calls import HttpCalls
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.reading import reader_of
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.writing import writer_of
from unit.protocols.kafka.live import SmallApi, connected, eventually, frame, listening, run


class Done(msgspec.Struct):
    """An answer."""

    word: str = "done"


class Routes:
    """Two routes whose ends the test holds in its hands."""

    def __init__(self):
        self.go = asyncio.Event()
        self.started, self.cancelled, self.finished = [], [], []

    async def wait(self, name):
        self.started.append(name)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        self.finished.append(name)
        return Done()

    @route("GET", "/poll", tag="t", polls=True, right=ANYONE)
    async def poll(self) -> Done:
        """Wait for something to happen."""
        return await self.wait("poll")

    @route("POST", "/change", tag="t", right=ANYONE)
    async def change(self) -> Done:
        """Change something."""
        return await self.wait("change")

    @route("GET", "/at-once", tag="t", right=ANYONE)
    async def at_once(self) -> Done:
        """Answer."""
        return Done()

    @route("GET", "/broken", tag="t", right=ANYONE)
    async def broken(self) -> Done:
        """Fail."""
        raise RuntimeError("a handler failed")


def call_frame(method, target, correlation_id=1, headers=()):
    body = bytearray()
    fields = {
        "method": method,
        "target": target,
        "headers": [{"name": name, "value": value} for name, value in headers],
        "body": b"",
    }
    writer_of(schema_of(ApiKey.CALL_HTTP, 0, "request"))(body, fields)
    return frame(ApiKey.CALL_HTTP, 0, correlation_id, bytes(body))


async def answer_of(client):
    _, data = await client.answer()
    return reader_of(schema_of(ApiKey.CALL_HTTP, 0, "response"))(Cursor(memoryview(data)))


def play(scenario, **settings):
    async def main():
        routes = Routes()
        calls = HttpCallsApi(HttpCalls(lambda: app))
        app = HttpApp(lambda: Router(routes))
        async with listening(SmallApi(), calls, **settings) as listener:
            await scenario(listener, routes)

    run(main())


def test_calls_and_other_requests_share_a_connection():
    async def scenario(listener, routes):
        async with connected(listener) as client:
            client.send(call_frame("GET", "/v1/at-once"))
            assert bytes((await answer_of(client)).body) == b'{"word":"done"}'
            assert await client.echo("hello", 2) == "hello"

    play(scenario)


def test_a_handler_that_fails_costs_its_connection_nothing():
    async def scenario(listener, routes):
        async with connected(listener) as client:
            client.send(call_frame("GET", "/broken"))
            answer = await answer_of(client)
            assert (answer.status, answer.error_name) == (500, "InvariantError")
            assert b"handler failed" not in bytes(answer.body)
            assert await client.echo("hello", 2) == "hello"

    play(scenario)


def test_a_poll_ends_when_its_client_goes_away():
    async def scenario(listener, routes):
        async with connected(listener) as client:
            client.send(call_frame("GET", "/poll"))
            await eventually(lambda: routes.started == ["poll"])
        await eventually(lambda: routes.cancelled == ["poll"])
        await eventually(lambda: listener.budget.used_bytes == 0)

    play(scenario)


def test_a_poll_ends_when_the_server_stops():
    async def scenario(listener, routes):
        async with connected(listener) as client:
            client.send(call_frame("GET", "/poll"))
            await eventually(lambda: routes.started == ["poll"])
            await listener.stop(deadline_s=60.0)
            assert routes.cancelled == ["poll"]
            assert await client.is_closed_by_server()

    play(scenario)


def test_a_change_runs_to_its_end_though_its_client_is_gone():
    async def scenario(listener, routes):
        async with connected(listener) as client:
            client.send(call_frame("POST", "/change"))
            await eventually(lambda: routes.started == ["change"])
        await eventually(lambda: listener.connection_count == 0)
        assert listener.budget.used_bytes > 0
        routes.go.set()
        await eventually(lambda: routes.finished == ["change"])
        await eventually(lambda: listener.budget.used_bytes == 0)
        assert routes.cancelled == []

    play(scenario)


def test_a_poll_holds_up_only_its_own_connection_also_with_very_many_headers():
    async def scenario(listener, routes):
        async with connected(listener) as first, connected(listener) as second:
            first.send(call_frame("GET", "/poll"))
            second.send(call_frame("GET", "/poll", headers=[("same", "")] * 2000))
            await eventually(lambda: routes.started == ["poll"])
            assert (await answer_of(second)).status == 431
            second.send(call_frame("GET", "/at-once", headers=[("same", "")] * 2000))
            assert (await answer_of(second)).error_name == "HeadTooLargeError"
            routes.go.set()
            assert (await answer_of(first)).status == 200

    play(scenario)


def test_nothing_is_answered_before_the_login():
    async def scenario(listener, routes):
        async with connected(listener) as client:
            client.send(call_frame("GET", "/at-once"))
            assert await client.is_closed_by_server()

    play(scenario, requires_authentication=True)
