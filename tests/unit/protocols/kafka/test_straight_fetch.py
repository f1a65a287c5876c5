"""Fetch by the straight way and by the general one: the same answers, sessions and counts."""

from __future__ import annotations

import asyncio
import struct
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from goqueue.metrics import names
from goqueue.protocols.kafka.records import fetch_sessions
from goqueue.topics import catalogue
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.fetch import FIRST_VERSION, LAST_VERSION, TOPIC_IDS_FROM
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.writing import writer_of
from support.brokers import publish, running_broker
from support.clocks import ManualClock
from support.disks import FaultyDisk
from support.effort import examples
from unit.protocols.kafka.test_straight_produce import Stack, pieces

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = 2
_folders = count()
_numbers: list[Any] = [count(1)]
"""Where ids of topics and sessions come from: the last of them."""


@dataclass(frozen=True)
class Read:
    topic: str = "plain"
    partition: int = 0
    offset: int = 0
    max_bytes: int = 1 << 20
    leader_epoch: int = -1


@dataclass(frozen=True)
class Fetch:
    version: int = 11
    session: int = 0
    epoch: int = -1
    reads: tuple[Read, ...] = (Read(),)
    forgotten: tuple[int, ...] = ()
    wait_ms: int = 0
    min_bytes: int = 1
    max_bytes: int = 1 << 20
    isolation: int = 0
    client: bytes | None = b"twin"
    cuts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Publish:
    """Something is appended to partition 0, which ends waits."""

    topic: str = "plain"
    values: tuple[bytes, ...] = (b"v",)


def frame_of(fetch: Fetch, number: int, ids: dict[str, UUID]) -> bytes:
    version = fetch.version
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for read in fetch.reads:
        by_topic.setdefault(read.topic, []).append(
            {
                "partition": read.partition,
                "current_leader_epoch": read.leader_epoch,
                "fetch_offset": read.offset,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": read.max_bytes,
            }
        )

    def named(name: str) -> dict[str, Any]:
        if version >= TOPIC_IDS_FROM:
            return {"topic_id": ids.get(name, UUID(int=99))}
        return {"topic": name}

    forgotten = [{**named("plain"), "partitions": list(fetch.forgotten)}] if fetch.forgotten else []
    fields = {
        "replica_id": -1,
        "max_wait_ms": fetch.wait_ms,
        "min_bytes": fetch.min_bytes,
        "max_bytes": fetch.max_bytes,
        "isolation_level": fetch.isolation,
        "session_id": fetch.session,
        "session_epoch": fetch.epoch,
        "topics": [{**named(name), "partitions": parts} for name, parts in by_topic.items()],
        "forgotten_topics_data": forgotten,
        "rack_id": "",
    }
    body, schema = bytearray(), schema_of(ApiKey.FETCH, version, "request")
    writer_of(schema)(body, fields)
    client = fetch.client
    size = -1 if client is None else len(client)
    header = struct.pack(">hhih", ApiKey.FETCH, version, number, size) + (client or b"")
    content = header + b"\0" * schema.has_flexible_header + body
    return struct.pack(">i", len(content)) + content


reads = st.builds(
    Read,
    topic=st.sampled_from(["plain"] * 6 + ["other", "unknown"]),
    partition=st.sampled_from([0, 0, 0, 1, PARTITIONS]),
    offset=st.sampled_from([0, 0, 1, 2, 3, 4, 1000]),
    max_bytes=st.sampled_from([1 << 20, 1 << 20, 1, 0]),
    leader_epoch=st.sampled_from([-1, -1, 0, 5]),
)
fetches = st.builds(
    Fetch,
    version=st.integers(FIRST_VERSION, LAST_VERSION) | st.sampled_from([11, 11, 17]),
    session=st.sampled_from([0, 1, 1, 2]),
    epoch=st.sampled_from([-1, 0, 0, 1, 1, 2, 3]),
    reads=st.lists(reads, max_size=3).map(tuple),
    forgotten=st.sampled_from([(), (), (0,)]),
    wait_ms=st.sampled_from([0, 0, 1]),
    min_bytes=st.sampled_from([1, 1, 0, 100, 10_000]),
    max_bytes=st.sampled_from([1 << 20, 1 << 20, 100]),
    isolation=st.sampled_from([0, 0, 1, 2]),
    client=st.sampled_from([b"twin", None, b"\xff"]),
    cuts=st.sampled_from([(), (), (10,)]),
)
steps = st.one_of(
    fetches,
    fetches,
    st.builds(Publish, st.sampled_from(["plain", "plain", "other"]), st.just((b"v" * 90, b"w"))),
)


async def play(stacks: list[Stack], story: list[Fetch | Publish]) -> None:
    numbers = count(1)
    for step in story:
        number = next(numbers)
        for stack in stacks:
            _numbers.append(stack.ids)
            if isinstance(step, Publish):
                publish(stack.broker, step.topic, *step.values)
            else:
                topics = stack.broker.topics.catalogue.by_name.values()
                ids = {topic.name: topic.topic_id for topic in topics}
                for piece in pieces(frame_of(step, number, ids), step.cuts):
                    stack.feed(piece)
            if not isinstance(step, Fetch) or step.wait_ms < 1000:
                await stack.settle()


async def compare(folder: Path, story: list[Fetch | Publish]) -> list[dict[str, Any]]:
    async with AsyncExitStack() as open_until:
        stacks = []
        for straight in (True, False):
            place = folder / f"broker-{next(_folders):06}"
            place.mkdir()
            _numbers.append(count(1))
            disk, clock = FaultyDisk(place), ManualClock(1_700_000_000_000)
            broker = await open_until.enter_async_context(
                running_broker(place, disk=disk, clock=clock)
            )
            for name in ("plain", "other"):
                await broker.create_topic(name, PARTITIONS)
            stacks.append(Stack(broker, disk, straight=straight))
            stacks[-1].ids = count(1)
        await play(stacks, story)
        return [facts(stack) for stack in stacks]


def facts(stack: Stack) -> dict[str, Any]:
    metrics = stack.broker.metrics
    counted = (
        names.MESSAGES_FETCHED,
        names.BYTES_CONSUMED,
        names.BYTES_READ,
        names.POLLS,
        names.POLLS_EMPTY,
    )
    timed = (names.FETCH_LATENCY, names.POLL_LATENCY, names.POLL_BATCH_SIZE)
    return {
        "seen": stack.facts()["seen"],
        "counters": [
            {labels: value for labels, value in metrics.values(name).items() if value}
            for name in counted
        ],
        "observed": [sum(metrics.total_counts(name)) for name in timed],
        "traced": stack.broker.tracer.store.noted,
        "unsent": stack.listener.answers.unsent_bytes,
    }


@pytest.fixture(autouse=True)
def numbers_that_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both brokers give topics and sessions the same numbers."""
    monkeypatch.setattr(catalogue, "uuid4", lambda: UUID(int=next(_numbers[-1])))
    drawn = SimpleNamespace(randbelow=lambda _: next(_numbers[-1]) - 1)
    monkeypatch.setattr(fetch_sessions, "secrets", drawn)


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(steps, min_size=1, max_size=10))
@example(story=[Publish(), Fetch(), Fetch(reads=(Read(offset=1),)), Publish(), Fetch()])
@example(
    story=[
        Publish(),
        Fetch(epoch=0),
        Fetch(session=1, epoch=1, reads=(Read(offset=1),), wait_ms=60_000),
        Publish(values=(b"later",)),
        Fetch(session=1, epoch=2, reads=(), wait_ms=0),
        Fetch(session=1, epoch=2),
    ]
)
@example(
    story=[
        Publish(),
        Fetch(wait_ms=60_000, min_bytes=150),
        Publish(values=(b"enough" * 20,)),
        Fetch(min_bytes=150),
    ]
)
@example(story=[Publish(), Publish("other"), Fetch(reads=(Read(), Read("other"), Read("unknown")))])
@example(story=[Publish(), Fetch(isolation=1), Fetch(isolation=2), Fetch(session=9, epoch=4)])
def test_both_ways_answer_and_count_the_same(
    memory_path: Path, story: list[Fetch | Publish]
) -> None:
    straight, general = asyncio.run(compare(memory_path, story))
    for name, value in general.items():
        assert straight[name] == value, name
