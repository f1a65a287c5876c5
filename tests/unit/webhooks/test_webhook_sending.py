"""One attempt of a webhook over real sockets: pinned to the checked address, and bounded."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.runtime.clock import SystemClock
from goqueue.webhooks.addresses import AddressPolicy
from goqueue.webhooks.endpoints import Endpoint
from goqueue.webhooks.events import EventMaker, EventType
from goqueue.webhooks.sending import Attempt, Sender
from goqueue.webhooks.settings import WebhookSettings
from support.certificates import Authority

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
    from pathlib import Path

CHECKED, OTHER = "127.0.0.2", "127.0.0.1"
OK = b"HTTP/1.1 204 No Content\r\n\r\n"
EVENT = EventMaker(SystemClock(), "goqueue/test/1").make(EventType.TOPIC_CREATED, {"topic": "t"})


class Target:
    """Counts connections; answers with `answer`, or by `serve`."""

    def __init__(self) -> None:
        self.connections = 0
        self.heads: list[bytes] = []
        self.port = 0

    async def take(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bytes
    ) -> None:
        self.connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        writer.write(answer)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def target(
    answer: bytes = OK, host: str = CHECKED, port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Target]:
    made = Target()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await made.take(reader, writer, answer)
        except (OSError, EOFError):
            writer.close()

    server = await asyncio.start_server(take, host, port, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


class Resolver:
    """Answers the next of its answers each time, and the last one for ever."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append((host, port))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def sender(resolver: Resolver, networks: Iterable[str] = (f"{CHECKED}/32",)) -> Sender:
    policy = AddressPolicy(WebhookSettings(allowed_networks=tuple(networks)))
    return Sender(policy, SystemClock(), resolver)


async def send(to: Sender, url: str, timeout_ms: int = 20_000) -> Attempt:
    endpoint = Endpoint(url, "0123456789abcdef", 0, 0, timeout_ms=timeout_ms)
    return await to.send(endpoint, EVENT, 1)


def run(work: Callable[[], Awaitable[Any]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 60))


def test_a_name_is_resolved_once_and_the_connection_goes_to_the_checked_address() -> None:
    """Rebinding: the second answer of the resolver is an address that is not allowed."""

    async def work() -> None:
        resolver = Resolver([CHECKED], [OTHER])
        async with target() as checked, target(host=OTHER, port=checked.port) as other:
            url = f"http://rebind.example:{checked.port}/x"
            ended = await send(sender(resolver), url)
            assert ended.is_delivered, ended
            assert (checked.connections, other.connections) == (1, 0)
            assert resolver.asked == [("rebind.example", checked.port)]
            assert f"Host: rebind.example:{checked.port}".encode() in checked.heads[0]
            again = await send(sender(resolver), url)
            assert not again.is_delivered
            assert OTHER in again.error
            assert "loopback" in again.error
            assert (checked.connections, other.connections) == (1, 0), "refused before connecting"

    run(work)


def test_a_name_with_one_bad_address_among_good_ones_is_not_called() -> None:
    async def work() -> None:
        async with target() as checked:
            to = sender(Resolver([CHECKED, "169.254.169.254"]))
            ended = await send(to, f"http://half.example:{checked.port}/")
            assert "metadata" in ended.error
            assert checked.connections == 0

    run(work)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "localhost"]
)
def test_an_address_in_the_url_is_checked_like_any_other(host: str) -> None:
    async def work() -> None:
        async with target(host=OTHER) as other:
            policy = AddressPolicy(WebhookSettings())
            ended = await send(Sender(policy, SystemClock()), f"http://{host}:{other.port}/")
            assert "may not be sent" in ended.error
            assert other.connections == 0

    run(work)


@pytest.mark.parametrize("host", ["2130706433", "0177.0.0.1", "0x7f.1", "127.1"])
def test_an_address_in_another_notation_is_never_resolved(host: str) -> None:
    async def work() -> None:
        resolver = Resolver([CHECKED])
        ended = await send(sender(resolver), f"http://{host}/")
        assert "usual notation" in ended.error
        assert resolver.asked == []

    run(work)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_failure_and_not_followed(status: int) -> None:
    async def work() -> None:
        async with target(host=OTHER) as secret:
            answer = f"HTTP/1.1 {status} X\r\nLocation: http://127.0.0.1:{secret.port}/\r\n\r\n"
            async with target(answer.encode()) as checked:
                ended = await send(sender(Resolver([CHECKED])), f"http://r.example:{checked.port}/")
                assert (ended.status, ended.is_delivered) == (status, False)
                assert "not followed" in ended.error
                assert secret.connections == 0

    run(work)


@pytest.mark.parametrize(("status", "taken"), [(200, True), (202, True), (299, True), (404, False)])
def test_any_2xx_is_success(status: int, taken: bool) -> None:
    async def work() -> None:
        async with target(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode()) as checked:
            ended = await send(sender(Resolver([CHECKED])), f"http://s.example:{checked.port}/")
            assert (ended.status, ended.is_delivered) == (status, taken)

    run(work)


def test_a_response_without_end_is_not_read() -> None:
    async def work() -> None:
        endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1000\r\n" * 100_000
        async with target(endless) as checked:
            ended = await send(sender(Resolver([CHECKED])), f"http://e.example:{checked.port}/")
            assert ended.is_delivered

    run(work)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200,
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
    ],
)
def test_what_is_no_http_response_is_a_failure(answer: bytes) -> None:
    async def work() -> None:
        async with target(answer) as checked:
            ended = await send(sender(Resolver([CHECKED])), f"http://b.example:{checked.port}/")
            assert not ended.is_delivered
            assert ended.status is None

    run(work)


def test_a_target_that_says_nothing_is_given_up_at_the_timeout() -> None:
    async def work() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, CHECKED, 0)
        port = server.sockets[0].getsockname()[1]
        began = time.monotonic()
        ended = await send(sender(Resolver([CHECKED])), f"http://s.example:{port}/", 200)
        assert ended.error == "no response within 200 ms"
        assert time.monotonic() - began >= 0.2
        server.close()

    run(work)


def test_a_certificate_that_nobody_trusts_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        cert_file, key_file = Authority(tmp_path).issue("localhost")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert_file, key_file)
        async with target(tls=context) as checked:
            ended = await send(sender(Resolver([CHECKED])), f"https://localhost:{checked.port}/")
            assert "certificate" in ended.error.lower()
            assert checked.heads == []

    run(work)


def test_the_next_address_is_tried_where_nobody_listens_on_the_first() -> None:
    async def work() -> None:
        async with target() as checked:
            to = sender(Resolver(["127.0.0.3", CHECKED]), ["127.0.0.2/31"])
            ended = await send(to, f"http://two.example:{checked.port}/")
            assert ended.is_delivered, ended

    run(work)
