"""Answers that go on: as long as both sides want, and never at the cost of anybody else."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from goqueue.protocols.http.api.app import HttpApp
from goqueue.protocols.http.api.responses import Stream
from goqueue.protocols.http.api.rights import ANYONE
from goqueue.protocols.http.api.route import route
from goqueue.protocols.http.api.router import Router
from goqueue.protocols.http.server.listener import HttpListener
from goqueue.protocols.http.server.settings import HttpSettings

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator

HOST = "127.0.0.1"
SWEEP_S = 0.01
PART = b"x" * 65_536


class Text(msgspec.Struct):
    text: str


class Springs:
    """Streams that run as the test lets them."""

    def __init__(self) -> None:
        self.made = 0
        self.may_go_on = asyncio.Event()
        self.began = asyncio.Event()
        self.ended = asyncio.Event()

    @route("GET", "/now", tag="t", right=ANYONE)
    async def now(self) -> Text:
        return Text("now")

    @route("GET", "/three", tag="t", polls=True, right=ANYONE)
    async def three(self) -> Stream:
        return Stream(self._three(), "text/plain", (("x-kind", "three"),))

    async def _three(self) -> AsyncGenerator[bytes]:
        for part in (b"one", b"", b"two", b"three"):
            yield part

    @route("GET", "/flood", tag="t", polls=True, right=ANYONE)
    async def flood(self) -> Stream:
        return Stream(self._flood(), "text/plain")

    async def _flood(self) -> AsyncGenerator[bytes]:
        try:
            while True:
                self.made += 1
                self.began.set()
                yield PART
        finally:
            self.ended.set()

    @route("GET", "/patient", tag="t", polls=True, right=ANYONE)
    async def patient(self) -> Stream:
        return Stream(self._patient(), "text/plain")

    async def _patient(self) -> AsyncGenerator[bytes]:
        try:
            yield b"first"
            await self.may_go_on.wait()
            yield b"second"
        finally:
            self.ended.set()

    @route("GET", "/broken", tag="t", polls=True, right=ANYONE)
    async def broken(self) -> Stream:
        return Stream(self._broken(), "text/plain")

    async def _broken(self) -> AsyncGenerator[bytes]:
        yield b"first"
        raise RuntimeError("a secret")


@asynccontextmanager
async def serving(**bounds: Any) -> AsyncIterator[tuple[Springs, HttpListener]]:
    springs = Springs()
    router = Router(springs)
    listener = HttpListener(HttpApp(lambda: router), HttpSettings(sweep_s=SWEEP_S, **bounds))
    await listener.start()
    try:
        yield springs, listener
    finally:
        await listener.stop(5)


@asynccontextmanager
async def asked(
    listener: HttpListener, path: str, *, method: str = "GET", version: str = "1.1"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(HOST, listener.port)
    writer.write(f"{method} {path} HTTP/{version}\r\nhost: localhost\r\n\r\n".encode())
    try:
        async with asyncio.timeout(60):
            yield reader, writer
    finally:
        writer.close()


async def chunk(reader: asyncio.StreamReader) -> bytes:
    """One part, as HTTP/1.1 writes it."""
    length = int(await reader.readuntil(b"\r\n"), 16)
    return (await reader.readexactly(length + 2))[:-2]


async def says_now(listener: HttpListener) -> bool:
    async with asked(listener, "/now") as (reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        said = await reader.readexactly(len('{"text":"now"}'))
        writer.close()
        return said == b'{"text":"now"}'


def test_parts_are_chunks_and_the_last_one_says_that_it_is() -> None:
    async def scenario() -> None:
        async with serving() as (_, listener), asked(listener, "/three") as (reader, _):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"transfer-encoding: chunked\r\n" in head
            assert b"x-kind: three\r\n" in head
            assert b"content-length" not in head
            assert await reader.read() == b"3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n"

    asyncio.run(scenario())


def test_an_old_client_gets_the_parts_alone() -> None:
    async def scenario() -> None:
        async with (
            serving() as (_, listener),
            asked(listener, "/three", version="1.0") as (
                reader,
                _,
            ),
        ):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"chunked" not in head
            assert await reader.read() == b"onetwothree"

    asyncio.run(scenario())


def test_the_head_of_a_stream_has_no_parts() -> None:
    async def scenario() -> None:
        async with serving() as (springs, listener):
            async with asked(listener, "/flood", method="HEAD") as (reader, _):
                assert (await reader.read()).endswith(b"\r\n\r\n")
            assert springs.made == 0

    asyncio.run(scenario())


def test_a_stream_outlives_every_deadline_of_other_answers() -> None:
    async def scenario() -> None:
        bounds = {"poll_s": 1, "answer_s": 1, "idle_s": 1, "write_s": 1}
        async with (
            serving(**bounds) as (springs, listener),
            asked(listener, "/patient") as (
                reader,
                _,
            ),
        ):
            await reader.readuntil(b"\r\n\r\n")
            assert await chunk(reader) == b"first"
            service = listener.service
            assert service is not None
            (connection,) = service.connections
            assert connection.expires_s == float("inf")
            springs.may_go_on.set()
            assert await chunk(reader) == b"second"

    asyncio.run(scenario())


def test_a_client_that_reads_nothing_is_dropped_and_harms_nobody() -> None:
    async def scenario() -> None:
        async with serving(write_s=0.2) as (springs, listener), asked(listener, "/flood"):
            await springs.began.wait()
            assert await says_now(listener)
            await springs.ended.wait()  # although the client is still connected
            assert springs.made < 500  # what the system's own buffers hold, and little more

    asyncio.run(scenario())


def test_a_client_that_goes_ends_its_stream() -> None:
    async def scenario() -> None:
        async with serving() as (springs, listener):
            async with asked(listener, "/patient") as (reader, _):
                await reader.readuntil(b"first\r\n")
            async with asyncio.timeout(60):
                await springs.ended.wait()

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/patient", "/flood"])
def test_a_stop_ends_streams_at_once(path: str) -> None:
    async def scenario() -> None:
        async with serving() as (springs, listener), asked(listener, path) as (reader, _):
            await reader.readuntil(b"\r\n\r\n")
            if path == "/patient":
                assert await chunk(reader) == b"first"
            async with asyncio.timeout(60):
                await listener.stop(600)
            assert springs.ended.is_set()
            if path == "/patient":
                assert await reader.read() == b"0\r\n\r\n"

    asyncio.run(scenario())


def test_a_stream_that_fails_is_cut_off_so_that_the_client_sees_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with serving() as (_, listener), asked(listener, "/broken") as (reader, _):
            try:
                said = await reader.read()
            except ConnectionResetError:
                said = b""
            assert b"0\r\n\r\n" not in said
            assert b"secret" not in said
            assert await says_now(listener)

    asyncio.run(scenario())
    assert "failed after the response had started" in caplog.text
