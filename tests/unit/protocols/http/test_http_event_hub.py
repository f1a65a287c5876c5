"""What a listener is told, without a socket between."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.http.api.errors import OverloadedError
from goqueue.protocols.http.operations.events import EventHub, EventSettings
from support.brokers import publish, running_broker

if TYPE_CHECKING:
    from pathlib import Path


class Source:
    """An overview that counts how often it was read."""

    def __init__(self) -> None:
        self.reads = 0

        self.elsewhere: dict[str, object] = {}

    async def read(self) -> bytes:
        self.reads += 1
        return b'{"reads":%d}' % self.reads

    async def look_elsewhere(self) -> None:
        pass


def hub_of(broker: Any, **settings: Any) -> tuple[EventHub, Source]:
    source = Source()
    return EventHub(broker, source, EventSettings(**settings)), source  # type: ignore[arg-type]  # as said


def test_silence_is_broken_by_comments(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            hub, source = hub_of(broker, look_s=60, alive_s=0.01)
            async with aclosing(hub.parts(frozenset({"topics"}), again=False)) as parts:
                assert await anext(parts) == b"retry: 2000\n\n"
                assert await anext(parts) == b": nothing new\n\n"
                assert await anext(parts) == b": nothing new\n\n"
            assert source.reads == 0

    asyncio.run(scenario())


def test_what_a_slow_listener_missed_is_told_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            hub, source = hub_of(broker, look_s=0.001)
            wanted = frozenset({"topics", "overview"})
            async with aclosing(hub.parts(wanted, again=False)) as parts:
                await anext(parts)
                await anext(parts)
                for number in range(20):  # while nobody takes anything
                    await broker.create_topic(f"t{number}", 1)
                    await asyncio.sleep(0.002)
                said = await anext(parts)
                assert said.count(b'data: {"kind":"topic"}\n') == 1
                assert said.count(b"event: overview\n") == 1
                assert source.reads == 2

    asyncio.run(scenario())


def test_letters_that_went_back_are_a_change_of_dead_letters(tmp_path: Path) -> None:
    """Nothing was taken out of their topic, whose offsets are as they were."""

    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            for name in ("t", "t.dlq"):
                await broker.create_topic(name, 1)
            publish(broker, "t.dlq", b"dead")
            hub, _ = hub_of(broker, look_s=0.001)
            async with aclosing(hub.parts(frozenset({"dead_letters"}), again=False)) as parts:
                await anext(parts)
                letters = broker.partitions.partition(TopicPartition("t.dlq", 0))
                assert await broker.redrives.note_moved("t", letters, [(0, 1)]) == 1
                assert b'data: {"kind":"dead_letter"}\n' in await anext(parts)

    asyncio.run(scenario())


def test_nobody_looks_when_nobody_listens(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            hub, source = hub_of(broker, look_s=0.001, max_streams=1)
            for _ in range(2):
                async with aclosing(hub.parts(frozenset({"overview"}), again=False)) as parts:
                    await anext(parts)
                    with pytest.raises(OverloadedError):
                        hub.check_room()
                    assert b"event: overview" in await anext(parts)
                hub.check_room()
            reads = source.reads
            await asyncio.sleep(0.01)
            assert source.reads == reads
            names = {task.get_name() for task in asyncio.all_tasks()}
            assert "events" not in names

    asyncio.run(scenario())
