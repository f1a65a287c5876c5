"""Answers of a node that sends them slowly: what is held of them is bounded."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

import goqueue
from goqueue.client.link.addresses import Address
from goqueue.client.link.connection import Connection
from goqueue.client.settings import ClientSettings
from goqueue.cluster.facts import ACTIVE, MemberFacts
from goqueue.model.errors import PeerUnavailableError
from goqueue.server.cluster.peer_calls import NodeCalls
from goqueue.topics.forwarding import Forwards
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.frames import frame_of
from support.certificates import Authority
from support.scenarios import scenario
from support.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

CALLS = 20
ANSWER_BYTES = 1_000_000
ROOM_BYTES = 2_500_000
SCRATCH_BYTES = 8 * 1024


class SlowNode:
    """Sends half of every answer, and the rest when the test lets it."""

    def __init__(self) -> None:
        self.peers = self
        self.asked_count = 0
        self.may_go_on = asyncio.Event()
        self.calls = NodeCalls(2, self._dial)
        self._tls: ssl.SSLContext | None = None
        self._connections: list[Connection] = []
        self._serving: set[asyncio.Task[Any]] = set()
        self._port = 0

    @asynccontextmanager
    async def serving(self, folder: Path | None) -> AsyncIterator[Forwards]:
        there = None
        if folder is not None:
            authority = Authority(folder)
            there = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            there.load_cert_chain(*authority.issue("node"))
            self._tls = ssl.create_default_context(cafile=str(authority.ca_file))
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=there)
        self._port = server.sockets[0].getsockname()[1]
        forwards = Forwards(self, self, max_answers_bytes=ROOM_BYTES)  # type: ignore[arg-type]  # what both ask for
        try:
            yield forwards
        finally:
            self.calls.close()
            server.close()
            for each in self._serving:
                each.cancel()
            await asyncio.gather(*self._serving, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            while True:
                request = await reader.readexactly(
                    int.from_bytes(await reader.readexactly(4), "big")
                )
                self.asked_count += 1
                body = {
                    "error_code": 0,
                    "is_ended": True,
                    "status": 0,
                    "details": "",
                    "trailers": [],
                    "messages": [{"data": bytes(ANSWER_BYTES)}],
                }
                number = int.from_bytes(request[4:8], "big")
                answer = b"".join(frame_of(number, body, ApiKey.CALL_GRPC, 0))
                writer.write(answer[: len(answer) // 2])
                await self.may_go_on.wait()
                writer.write(answer[len(answer) // 2 :])
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the caller has hung up, or the test is over
        finally:
            writer.close()

    async def _dial(self) -> Connection:
        settings = ClientSettings(call_timeout_ms=60_000)
        connection = Connection(Address("127.0.0.1", self._port), settings, SCRATCH_BYTES)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: connection, "127.0.0.1", self._port, ssl=self._tls)
        self._connections.append(connection)
        return connection

    async def ask(
        self, _node_id: int, api: ApiKey, version: int, wait_s: float, **fields: Any
    ) -> Any:
        return await self.calls.ask(api, version, wait_s, fields)

    def members(self) -> list[MemberFacts]:
        return [MemberFacts(2, ACTIVE, version=goqueue.__version__)]

    def buffered_bytes(self) -> int:
        """What connections have set aside for answers that are not whole."""
        frames = [each._frame for each in self._connections]
        return sum(len(each) for each in frames if each is not None)


def call(forwards: Forwards, deadline_s: float = 60.0) -> asyncio.Task[Any]:
    asking = forwards.ask(
        2,
        ApiKey.CALL_GRPC,
        size_bytes=0,
        deadline_s=deadline_s,
        stays=lambda: True,
        method="/test/Unary",
        client="",
        principal="",
        is_last=True,
        messages=[],
    )
    return asyncio.ensure_future(asking)


@pytest.mark.parametrize("encrypted", [False, True])
@scenario
async def test_answers_are_read_as_there_is_room_for_them(tmp_path: Path, encrypted: bool) -> None:
    node = SlowNode()
    async with node.serving(tmp_path if encrypted else None) as forwards:
        calls = [call(forwards) for _ in range(CALLS)]
        await until(lambda: node.asked_count == CALLS)
        await until(lambda: forwards.answers[2].held_bytes > ANSWER_BYTES * 2)
        highest = 0

        def watch() -> bool:
            nonlocal highest
            highest = max(highest, node.buffered_bytes(), forwards.answers[2].held_bytes)
            return all(each.done() for each in calls)

        for _ in range(20):
            await asyncio.sleep(0.005)
            assert not watch()
        assert node.buffered_bytes() == forwards.answers[2].held_bytes, (
            "what is set aside is counted"
        )
        node.may_go_on.set()
        await until(watch)
        assert ANSWER_BYTES * 2 < highest <= ROOM_BYTES
        for each in calls:
            assert len(each.result().messages[0].data) == ANSWER_BYTES
        assert forwards.answers[2].held_bytes == 0


@scenario
async def test_clients_that_stop_waiting_give_the_room_of_their_answers_back() -> None:
    node = SlowNode()
    async with node.serving(None) as forwards:
        first = [call(forwards) for _ in range(2)]
        await until(lambda: forwards.answers[2].held_bytes > ANSWER_BYTES * 2)
        late, following = call(forwards), call(forwards)
        await until(lambda: node.asked_count == 4)
        late.cancel()
        for each in first:
            each.cancel()
        await until(lambda: ANSWER_BYTES < forwards.answers[2].held_bytes < ANSWER_BYTES * 2)
        node.may_go_on.set()
        assert (await following).is_ended
        assert forwards.answers[2].held_bytes == 0


@scenario
async def test_whoever_waits_for_room_is_told_when_the_node_is_lost() -> None:
    node = SlowNode()
    async with node.serving(None) as forwards:
        calls = [call(forwards) for _ in range(5)]
        await until(
            lambda: node.asked_count == 5 and forwards.answers[2].held_bytes > ANSWER_BYTES * 2
        )
        node.calls.lose("it is gone")
        for each in calls:
            with pytest.raises(PeerUnavailableError):
                await each
        assert forwards.answers[2].held_bytes == 0
