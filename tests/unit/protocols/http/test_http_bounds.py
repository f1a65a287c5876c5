"""Every bound of a connection, each made small: what is too slow, too large or too many."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from goqueue.protocols.http.api.app import HttpApp
from goqueue.protocols.http.api.responses import Response
from goqueue.protocols.http.api.rights import ANYONE
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.router import Router
from goqueue.protocols.http.server.connection import HttpConnection
from goqueue.protocols.http.server.listener import HttpListener
from goqueue.protocols.http.server.settings import HttpSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HOST = "127.0.0.1"
SWEEP_S = 0.01


class Text(msgspec.Struct):
    text: str


class Patient:
    """Handlers that wait for the test."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()
        self.began = asyncio.Event()
        self.finished = asyncio.Event()
        self.cancelled = asyncio.Event()

    @route("GET", "/now", tag="t", right=ANYONE)
    async def now(self) -> Text:
        return Text("now")

    @route("GET", "/large", tag="t", right=ANYONE)
    async def large(self) -> Response:
        return Response(200, bytes(64 << 20))

    @route("POST", "/later", tag="t", max_body_bytes=100_000, right=ANYONE)
    async def later(self) -> Text:
        self.began.set()
        await self.may_go_on.wait()
        self.finished.set()
        return Text("later")

    @route("GET", "/poll", tag="t", polls=True, right=ANYONE)
    async def poll(self) -> Text:
        self.began.set()
        try:
            await self.may_go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return Text("polled")


@asynccontextmanager
async def serving(**bounds: Any) -> AsyncIterator[tuple[Patient, HttpListener]]:
    patient = Patient()
    router = Router(patient)
    listener = HttpListener(HttpApp(lambda: router), HttpSettings(sweep_s=SWEEP_S, **bounds))
    await listener.start()
    try:
        yield patient, listener
    finally:
        patient.may_go_on.set()
        await listener.stop(5)


class Client:
    """One connection; `said` is everything until the server closes it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def said(self) -> bytes:
        async with asyncio.timeout(60):
            return await self.reader.read()

    async def answer(self) -> bytes:
        """One answer with a short body."""
        async with asyncio.timeout(60):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            return head + await self.reader.readexactly(length)


@asynccontextmanager
async def connected(listener: HttpListener, request: bytes = b"") -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection(HOST, listener.port)
    writer.write(request)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


async def all_gone(listener: HttpListener) -> None:
    """Wait until the server has noticed that every client has gone."""
    service = listener.service
    assert service is not None
    async with asyncio.timeout(60):
        while service.connections:
            service.changed.clear()
            await service.changed.wait()


async def poll_count(listener: HttpListener, count: int) -> None:
    """Wait until so many polls are being answered."""
    assert listener.service is not None
    async with asyncio.timeout(60):
        while len(listener.service.polls) < count:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


def post(path: str, length: int) -> bytes:
    return f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("bounds", "data", "status"),
    [
        ({"head_s": 0.05}, b"GET /now HTTP/1.1\r\nhost:", 408),
        ({"body_s": 0.05}, post("/later", 10) + b"1234", 408),
        ({"max_head_bytes": 1000}, b"GET /now HTTP/1.1\r\nx: " + b"." * 5000, 431),
        ({}, post("/later", 100_001), 413),
        ({"max_bodies_bytes": 1000}, post("/later", 50_000) + bytes(2000), 503),
    ],
)
def test_what_is_too_slow_or_too_large_is_told_so_and_closed(
    bounds: dict[str, Any], data: bytes, status: int
) -> None:
    async def scenario() -> None:
        async with serving(**bounds) as (_, listener), connected(listener, data) as client:
            said = await client.said()
            assert said.startswith(f"HTTP/1.1 {status} ".encode()), said
            assert b"connection: close" in said
            assert said.count(b"HTTP/1.1") == 1
        assert listener.service is None

    asyncio.run(scenario())


@pytest.mark.parametrize("bounds", [{"head_s": 0.05}, {"idle_s": 1}])
def test_a_connection_without_a_request_is_closed_without_a_word(bounds: dict[str, Any]) -> None:
    async def scenario() -> None:
        async with serving(**bounds) as (_, listener), connected(listener) as client:
            if "idle_s" in bounds:
                client.writer.write(get("/now"))
                assert (await client.answer()).endswith(b'{"text":"now"}')
            with suppress(ConnectionResetError):
                assert await client.said() == b""

    asyncio.run(scenario())


def test_an_answer_that_takes_too_long_is_finished_unseen() -> None:
    async def scenario() -> None:
        request = post("/later", 2) + b"{}"
        async with (
            serving(answer_s=0.05) as (patient, listener),
            connected(listener, request) as client,
        ):
            said = await client.said()
            assert said.startswith(b"HTTP/1.1 504 ")
            assert b'"code":"deadline_exceeded"' in said
            assert not patient.finished.is_set()
            patient.may_go_on.set()
            async with asyncio.timeout(60):
                await patient.finished.wait()

    asyncio.run(scenario())


def test_a_poll_has_more_time_than_other_requests() -> None:
    async def scenario() -> None:
        bounds = {"answer_s": 0.01, "poll_s": 60}
        async with serving(**bounds) as (patient, listener), connected(listener) as client:
            client.writer.write(get("/poll"))
            await patient.began.wait()
            patient.may_go_on.set()
            assert (await client.answer()).endswith(b'{"text":"polled"}')

    asyncio.run(scenario())


def test_a_poll_whose_client_goes_ends_and_other_work_does_not() -> None:
    async def scenario() -> None:
        async with serving() as (patient, listener):
            async with connected(listener, get("/poll")):
                await patient.began.wait()
            async with asyncio.timeout(60):
                await patient.cancelled.wait()
            patient.began.clear()
            async with connected(listener, post("/later", 0)):
                await patient.began.wait()
            patient.may_go_on.set()
            async with asyncio.timeout(60):
                await patient.finished.wait()

    asyncio.run(scenario())


def test_one_connection_too_many_is_told_to_come_back_while_all_are_being_answered() -> None:
    async def scenario() -> None:
        async with serving(max_connections=2) as (patient, listener):
            async with connected(listener, get("/poll")), connected(listener, get("/poll")):
                await poll_count(listener, 2)
                async with connected(listener, get("/now")) as third:
                    said = await third.said()
                    assert said.startswith(b"HTTP/1.1 503 ")
                    assert b"retry-after: 1" in said
            await all_gone(listener)
            async with connected(listener, get("/now")) as client:
                assert (await client.answer()).startswith(b"HTTP/1.1 200 ")
            assert not patient.may_go_on.is_set()

    asyncio.run(scenario())


def test_a_full_listener_drops_the_connection_that_has_waited_longest_for_its_client() -> None:
    async def scenario() -> None:
        async with (
            serving(max_connections=3) as (_, listener),
            connected(listener, get("/now")) as idle,
            connected(listener, get("/now")[:-2]) as half_sent,
            connected(listener, get("/now")) as newer,
        ):
            await idle.answer()
            await newer.answer()
            newer.writer.write(get("/now"))
            await newer.answer()
            for _ in range(2):  # the first of them takes the place of the half-sent request
                async with connected(listener, get("/now")) as another:
                    assert (await another.answer()).startswith(b"HTTP/1.1 200 ")
            refused = await half_sent.said()
            assert refused.startswith(b"HTTP/1.1 503 "), refused
            newer.writer.write(get("/now"))
            assert (await newer.answer()).startswith(b"HTTP/1.1 200 ")

    asyncio.run(scenario())


def test_polls_leave_room_for_other_requests() -> None:
    async def scenario() -> None:
        async with (
            serving(max_connections=4, max_polls=2) as (_, listener),
            connected(listener, get("/poll")),
            connected(listener, get("/poll")),
        ):
            await poll_count(listener, 2)
            async with connected(listener, get("/poll")) as third:
                answer = await third.answer()
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b"2 requests wait" in answer
                third.writer.write(get("/now"))
                assert (await third.answer()).startswith(b"HTTP/1.1 200 ")

    asyncio.run(scenario())


CHUNKED = b"POST /later HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        CHUNKED + b"0\r\n" + b"x-trailer: t\r\n" * 20_000,
        CHUNKED + b"0\r\nx-trailer: " + b"t" * 300_000,
        CHUNKED + b"2;" + b"x=y;" * 80_000,
    ],
    ids=["many trailers", "a long trailer", "a long chunk extension"],
)
def test_what_surrounds_a_body_is_bounded_as_a_head_is(data: bytes) -> None:
    async def scenario() -> None:
        bounds = {"max_head_bytes": 1000, "body_s": 60}
        async with serving(**bounds) as (_, listener), connected(listener) as client:
            for start in range(0, len(data), 10_000):
                client.writer.write(data[start : start + 10_000])
                await asyncio.sleep(0)
            said = await client.said()
            assert said.startswith(b"HTTP/1.1 431 "), said
            assert said.count(b"HTTP/1.1") == 1

    asyncio.run(scenario())


def test_trailers_are_taken_and_change_nothing() -> None:
    async def scenario() -> None:
        request = CHUNKED + b"2\r\n{}\r\n0\r\nhost: evil.example\r\nx: y\r\n\r\n"
        async with serving() as (patient, listener), connected(listener, request) as client:
            patient.may_go_on.set()
            assert (await client.answer()).endswith(b'{"text":"later"}')

    asyncio.run(scenario())


def test_a_client_that_sends_thousands_of_requests_ahead_is_answered_the_first_of_them() -> None:
    async def scenario() -> None:
        async with serving(max_pipelined=10) as (patient, listener), connected(listener) as client:
            client.writer.write(post("/later", 0) + get("/now") * 1000)
            await patient.began.wait()
            patient.may_go_on.set()
            said = await client.said()
            assert said.count(b"HTTP/1.1 200 ") == 11
            assert said.count(b"connection: close") == 1

    asyncio.run(scenario())


def test_requests_that_wait_their_turn_are_not_read_without_end() -> None:
    async def scenario() -> None:
        async with serving() as (patient, listener), connected(listener) as client:
            client.writer.write(post("/later", 0) + get("/now") * 10)
            await patient.began.wait()
            assert listener.service
            connection: Any = next(iter(listener.service.connections))
            assert not connection._is_reading
            patient.may_go_on.set()
            assert (await client.answer()).endswith(b'{"text":"later"}')
            for _ in range(10):
                assert (await client.answer()).endswith(b'{"text":"now"}')
            assert connection._is_reading

    asyncio.run(scenario())


def test_a_refused_request_waits_for_the_answers_before_it() -> None:
    async def scenario() -> None:
        async with serving() as (patient, listener), connected(listener) as client:
            client.writer.write(post("/later", 0) + post("/later", 100_001) + get("/now"))
            await patient.began.wait()
            patient.may_go_on.set()
            said = await client.said()
            assert said.index(b"HTTP/1.1 200 ") < said.index(b"HTTP/1.1 413 ")
            assert said.count(b"HTTP/1.1") == 2

    asyncio.run(scenario())


def test_a_client_that_does_not_read_is_dropped() -> None:
    async def scenario() -> None:
        async with serving(write_s=0.05) as (_, listener):
            with socket.create_connection((HOST, listener.port)) as sock:
                sock.sendall(get("/large"))
                async with connected(listener, get("/now")) as behind:
                    await behind.answer()  # so the one before it is there, too
                await all_gone(listener)

    asyncio.run(scenario())


def test_a_stop_answers_what_has_begun() -> None:
    async def scenario() -> None:
        async with serving() as (patient, listener), connected(listener) as client:
            client.writer.write(post("/later", 0))
            await patient.began.wait()
            stopping = asyncio.create_task(listener.stop(60))
            await asyncio.sleep(0)
            assert not stopping.done()
            patient.may_go_on.set()
            await stopping
            said = await client.said()
            assert said.startswith(b"HTTP/1.1 200 ")
            assert b"connection: close" in said

    asyncio.run(scenario())


def test_a_stop_does_not_wait_for_ever() -> None:
    async def scenario() -> None:
        async with serving() as (patient, listener), connected(listener) as client:
            client.writer.write(post("/later", 0))
            await patient.began.wait()
            await listener.stop(0.05)
            assert await client.said() == b""
            assert not patient.finished.is_set()

    asyncio.run(scenario())


def test_the_bytes_of_bodies_are_given_back_however_a_request_ends() -> None:
    async def scenario() -> None:
        async with serving(answer_s=0.5) as (patient, listener):
            service = listener.service
            assert service is not None
            async with connected(listener, post("/later", 10) + bytes(10)) as client:
                await patient.began.wait()
                assert service.bodies_bytes == 10
                await client.said()
                assert service.bodies_bytes == 0
            async with connected(listener, get("/now") + post("/later", 10) + bytes(5)) as client:
                await client.answer()
                assert service.bodies_bytes == 5
            await all_gone(listener)
            assert service.bodies_bytes == 0

    asyncio.run(scenario())


def test_a_mistake_of_our_own_is_not_the_clients(caplog: pytest.LogCaptureFixture) -> None:
    def load() -> Router:
        raise RuntimeError("no routes")

    async def scenario() -> bytes:
        listener = HttpListener(HttpApp(load), HttpSettings(sweep_s=SWEEP_S))
        await listener.start()
        try:
            async with connected(listener, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") as client:
                return await client.answer()
        finally:
            await listener.stop(5)

    said = asyncio.run(scenario())
    assert said.startswith(b"HTTP/1.1 500 ")
    assert b"internal_error" in said
    assert "no routes" in caplog.text


def test_a_closed_connection_does_not_wait_for_a_collection_of_garbage() -> None:
    async def main() -> None:
        async with serving() as (_, listener):
            gc.collect()
            gc.disable()
            try:
                reader, writer = await asyncio.open_connection(HOST, listener.port)
                writer.write(b"GET /now HTTP/1.1\r\nHost: localhost\r\nX-Half: sent")
                await writer.drain()
                while not (found := connections()):  # noqa: ASYNC110 - no event tells it
                    await asyncio.sleep(0.01)
                (served,) = map(weakref.ref, found)
                del found
                writer.close()
                while served() is not None:  # noqa: ASYNC110 - no event tells it
                    await asyncio.sleep(0.01)
                del reader
            finally:
                gc.enable()

    asyncio.run(main())


def connections() -> list[HttpConnection]:
    return [each for each in gc.get_objects() if isinstance(each, HttpConnection)]
