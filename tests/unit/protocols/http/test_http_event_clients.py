"""Which clients have how many streams of events, and what those of tenants are told."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING

import pytest

from goqueue.access.principals import Principal
from goqueue.protocols.http.api.errors import OverloadedError
from goqueue.protocols.permissions import OPEN, Permissions
from support.brokers import running_broker
from unit.protocols.http.test_http_event_hub import hub_of

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = frozenset({"topics"})


def test_one_principal_leaves_streams_to_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker, AsyncExitStack() as stack:
            hub, _ = hub_of(broker, look_s=60, max_streams_each=2)
            eve, alice = (Permissions(OPEN, Principal(name)) for name in ("eve", "alice"))
            for _ in range(2):
                hub.check_room(eve)
                parts = hub.parts(TOPICS, again=False, may=eve)
                await anext(await stack.enter_async_context(aclosing(parts)))
            with pytest.raises(OverloadedError, match="2 event streams of User:eve"):
                hub.check_room(eve)
            hub.check_room(alice)

    asyncio.run(scenario())


def test_clients_of_tenants_are_told_the_same_whatever_others_do(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            hub, _ = hub_of(broker, look_s=60, tenant_looks=3)
            may = Permissions(OPEN, Principal("a", tenant="acme"))
            async with aclosing(hub.parts(TOPICS, again=False, may=may)) as parts:
                await anext(parts)
                told = []
                for number in range(6):
                    if number != 4:
                        await broker.create_topic(f"globex.{number}", 1)
                    hub._notify_changes()
                    (listener,) = hub._listeners
                    told.append(listener.take())
                assert told == [[], [], ["topics"]] * 2

    asyncio.run(scenario())


def test_a_stream_ends_with_its_login(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            hub, _ = hub_of(broker, look_s=60, alive_s=0.01)
            counts = True
            may = Permissions(OPEN, Principal("eve"), counts=lambda: counts)
            async with aclosing(hub.parts(TOPICS, again=False, may=may)) as parts:
                await anext(parts)
                assert await anext(parts) == b": nothing new\n\n"
                counts = False
                assert await anext(parts, b"end") == b"end"

    asyncio.run(scenario())
