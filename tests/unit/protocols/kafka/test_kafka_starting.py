"""Clients publish while the rest of a broker is loaded; what needs the rest waits for it."""

from __future__ import annotations

import asyncio
import struct
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.protocols.kafka.api_reference import served_specs
from goqueue.protocols.kafka.connection.listener import Listener
from goqueue.protocols.kafka.registry import api
from goqueue.protocols.kafka.rights import ANYONE
from goqueue.protocols.kafka.served import SERVED
from goqueue.protocols.kafka.settings import ListenerSettings
from goqueue.records import Record, encode
from goqueue.server.config_load import load_config
from goqueue.server.node import Node
from goqueue.wire.kafka.api_keys import ApiKey
from unit.protocols.kafka.live import (
    RawClient,
    SmallApi,
    connected,
    echo_frame,
    eventually,
    fetch_frame,
    frame,
    heartbeat_frame,
    produce_frame,
    registry_of,
    run,
    slow_frame,
    string,
    word_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from goqueue.broker.log_broker import LogBroker
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.wire.kafka.frames import Response

_NOT_SERVED = 999


class FirstApi:
    """What is there before everything else."""

    @api(ApiKey.FIND_COORDINATOR, right=ANYONE)
    def echo(self, ctx: RequestContext, request: Any) -> Response:
        return {"error_code": 0, "node_id": 1, "host": f"first {request.key}", "port": 9}


def init_frame(correlation_id: int, transactional_id: str | None) -> bytes:
    name = b"\xff\xff" if transactional_id is None else string(transactional_id)
    return frame(ApiKey.INIT_PRODUCER_ID, 0, correlation_id, name + struct.pack(">i", 1000))


@asynccontextmanager
async def starting() -> AsyncIterator[tuple[Listener, RawClient]]:
    first = registry_of(FirstApi())
    first.is_complete = False
    listener = Listener(first, ListenerSettings(port=0, sweep_s=3600.0))
    await listener.start()
    try:
        async with connected(listener) as client:
            yield listener, client
    finally:
        await listener.stop(deadline_s=5.0)


def test_a_request_waits_for_its_handler_and_those_behind_it_keep_their_order() -> None:
    async def scenario() -> None:
        async with starting() as (listener, client):
            assert await client.echo("one") == "first one"
            rest = SmallApi()
            client.send(
                slow_frame(2, waits=False),
                produce_frame(3),
                produce_frame(4),
                heartbeat_frame(5, "known"),
                echo_frame(6, "two"),
            )
            async with connected(listener) as other:
                assert await other.echo("another client") == "first another client"
            assert rest.started == []
            listener.use(registry_of(rest))
            answers = [await client.answer() for _ in range(5)]
            assert [number for number, _ in answers] == [2, 3, 4, 5, 6]
            assert rest.started == [2, 3, 4, 6]
            assert struct.unpack_from(">h", answers[3][1]) == (1,)  # OFFSET_OUT_OF_RANGE
            assert word_of(answers[4][1]) == "two"

    run(scenario())


def test_api_versions_names_at_once_what_is_loaded_later() -> None:
    async def scenario() -> None:
        async with starting() as (_, client):
            client.send(
                frame(ApiKey.API_VERSIONS, 0, 1, b""), frame(ApiKey.API_VERSIONS, 99, 2, b"")
            )
            _, known = await client.answer()
            entries = list(struct.iter_unpack(">hhh", known[6:]))
            assert struct.unpack_from(">hi", known) == (0, len(SERVED))
            assert entries == [
                (key, 0 if key == ApiKey.PRODUCE else first, last)
                for key, (first, last) in SERVED.items()
            ]
            _, too_new = await client.answer()
            assert struct.unpack_from(">h", too_new) == (35,)  # UNSUPPORTED_VERSION

    run(scenario())


def test_every_version_that_is_named_has_its_handler() -> None:
    declared = {
        key: (each.first_version, each.last_version) for key, each in served_specs().items()
    }
    assert declared == SERVED


def test_an_api_that_is_not_served_is_known_to_be_so_when_all_are_loaded() -> None:
    async def scenario() -> None:
        async with starting() as (listener, client):
            client.send(echo_frame(1, "one"), frame(_NOT_SERVED, 0, 2, b""))
            assert word_of((await client.answer())[1]) == "first one"
            assert not client.reader.at_eof()
            listener.use(registry_of(SmallApi()))
            assert await client.is_closed_by_server()

    run(scenario())


@pytest.mark.parametrize("waiting", [fetch_frame(1), produce_frame(1), slow_frame(1)])
def test_a_listener_that_stops_while_it_starts_does_not_wait_for_handlers(waiting: bytes) -> None:
    async def scenario() -> None:
        async with starting() as (listener, client):
            client.send(waiting)
            (connection,) = listener._connections
            await eventually(lambda: connection._pending)  # type: ignore[attr-defined]
            async with asyncio.timeout(4.0):
                await listener.stop(deadline_s=60.0)
            assert await client.is_closed_by_server()

    run(scenario())


def test_a_client_that_leaves_while_it_waits_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        async with starting() as (listener, client):
            rest = SmallApi()
            client.send(slow_frame(7, waits=False))
            await eventually(lambda: listener.budget.used_bytes)
            client.writer.transport.abort()
            await eventually(lambda: not listener.budget.used_bytes)
            listener.use(registry_of(rest))
            async with connected(listener) as other:
                assert await other.echo("after") == "after"
            assert rest.started == [1]  # and not 7

    run(scenario())


# --- A whole node --------------------------------------------------------------------------------


def test_a_message_is_acknowledged_before_the_services_of_a_broker_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        may_go_on = asyncio.Event()
        start_services = Node._start_services

        async def later(node: Node, logs: LogBroker) -> None:
            await may_go_on.wait()
            await start_services(node, logs)

        monkeypatch.setattr(Node, "_start_services", later)
        flags = ("--kafka-port", "0", "--http-port", "0", "--grpc-port", "0")
        node = Node(load_config(["--data-dir", str(tmp_path), *flags], environment={}))
        start = asyncio.create_task(node.start())
        await eventually(lambda: node._listeners)
        async with connected(node.kafka) as client, connected(node.kafka) as waiting:
            waiting.send(echo_frame(1, "group"), init_frame(2, "transactional"))
            client.send(frame(ApiKey.METADATA, 4, 1, struct.pack(">i", 1) + string("t") + b"\1"))
            await client.answer()
            client.send(init_frame(3, None))
            assert struct.unpack_from(">ih", (await client.answer())[1]) == (0, 0)
            batch = bytes(encode([Record(0, node._clock.now_ms(), None, b"v")]))
            one = struct.pack(">i", 1)
            data = one + struct.pack(">ii", 0, len(batch)) + batch
            body = b"\xff\xff" + struct.pack(">hi", -1, 1000) + one + string("t") + data
            client.send(frame(ApiKey.PRODUCE, 7, 2, body))
            _, produced = await client.answer()
            assert struct.unpack_from(">ihq", produced, 4 + len(string("t")) + 4) == (0, 0, 0)
            assert not start.done()
            may_go_on.set()
            await start
            assert [(await waiting.answer())[0] for _ in range(2)] == [1, 2]
        partition = node.broker.partitions.of_topic(node.broker.topics.catalogue.topic("t"))[0]
        assert partition.log_end == 1
        await node.stop()

    run(scenario())
