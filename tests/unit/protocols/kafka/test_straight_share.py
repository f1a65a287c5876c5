"""ShareFetch and ShareAcknowledge by the straight way and by the general one.

Two brokers are given the same requests of members of a queue group. Both answer, store and count
the same; one of them serves nothing straight.
"""

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
from goqueue.protocols.kafka.connection.listener import Listener
from goqueue.protocols.kafka.families import build_registry
from goqueue.protocols.kafka.settings import Address, ListenerSettings
from goqueue.queues import delivering
from goqueue.storage.naming import LOG
from goqueue.topics import catalogue
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.frames import parse_response
from goqueue.wire.kafka.plain_share import encode_acknowledged, parse_acknowledge, parse_fetch
from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.reading import reader_of
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.writing import writer_of
from protocol.queue_wire import (
    ACK,
    EXTEND,
    NACK,
    RELEASE,
    RETURN,
    Delivered,
    messages,
    settlements,
)
from support.brokers import publish, running_broker
from support.clocks import ManualClock
from support.disks import FaultyDisk
from support.effort import examples
from unit.protocols.kafka.test_straight_produce import Stack, pieces

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = {"plain": {}, "traced": {"goqueue.trace": "1.0"}}
KINDS = [ACK, ACK, RELEASE, EXTEND, NACK, RETURN, 7]
"""None that kills a message: dead letters are moved in the background."""
LEASE_MS = 30_000
_folders = count()
_numbers: list[Any] = [count(1)]
"""Where ids of topics and seeds of nonces come from: the last of them."""


@dataclass(frozen=True)
class Said:
    """What a member says of messages that were handed out: every so many of them, from one on."""

    kind: int = ACK
    first: int = 0
    step: int = 1
    most: int = 1000
    twice: bool = False
    off_by: int = 0
    """Added to the nonce of the last."""


@dataclass(frozen=True)
class Fetch:
    member: str = "one"
    said: tuple[Said, ...] = ()
    max_records: int = 10
    max_bytes: int = 1 << 20
    wait_ms: int = 0
    mode: int = 1
    visibility_ms: int = 0
    version: int = 2
    forgotten: bool = False
    cuts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Acknowledge:
    said: tuple[Said, ...] = (Said(),)
    group: str = "g"
    member: str = "one"
    version: int = 2
    renews: bool = False
    cuts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Publish:
    topic: str = "plain"
    count: int = 3


@dataclass(frozen=True)
class Pass:
    """Time passes."""

    milliseconds: int = LEASE_MS


@dataclass(frozen=True)
class Delete:
    topic: str = "traced"


class ShareStack(Stack):
    """A broker whose requests may be long, and what it has handed out."""

    def __init__(self, broker: Any, disk: FaultyDisk, *, straight: bool) -> None:
        super().__init__(broker, disk, straight=straight)
        registry = build_registry(broker, {"PLAINTEXT": Address("localhost", 1)})
        self.listener = Listener(registry, ListenerSettings(port=0, refused_linger_s=0.0))
        if not straight:
            registry.straight.clear()
        self.connect()
        self.held: list[Delivered] = []
        self.numbers = count(1)

    def ask(self, key: ApiKey, version: int, fields: dict[str, Any], cuts: tuple[int, ...]) -> None:
        body, schema = bytearray(), schema_of(key, version, "request")
        writer_of(schema)(body, fields)
        header = struct.pack(">hhih4s", key, version, next(self.numbers), 4, b"twin")
        content = header + b"\0" * schema.has_flexible_header + body
        for piece in pieces(struct.pack(">i", len(content)) + content, cuts):
            self.feed(piece)

    async def settle(self) -> None:
        await super().settle()
        self.seen[-1] = self.seen[-1].replace(self.disk.root.name.encode(), b"folder")

    def take_answer(self, version: int) -> None:
        """Know what was handed out."""
        answer = memoryview(self.seen[-1])[4:]
        if len(answer):
            self.held += messages(parse_response(answer, ApiKey.SHARE_FETCH, version)[1])


def topics_of(held: list[Delivered], said: tuple[Said, ...]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for each in said:
        chosen = held[each.first :: each.step][: each.most]
        if chosen and each.off_by:
            chosen[-1] = chosen[-1]._replace(nonce=(chosen[-1].nonce + each.off_by) % 2**64)
        chosen += chosen[:1] if each.twice else []
        found += settlements(each.kind, chosen)
    return found


def request_of(step: Fetch | Acknowledge, held: list[Delivered]) -> dict[str, Any]:
    topics = topics_of(held, step.said)
    common = {"share_session_epoch": 0, "topics": topics, "member_id": step.member}
    if isinstance(step, Acknowledge):
        renews = {"is_renew_ack": step.renews} if step.version > 1 else {}
        return {**common, **renews, "group_id": step.group}
    newer = {"share_acquire_mode": step.mode, "is_renew_ack": False} if step.version > 1 else {}
    gone = [{"topic_id": UUID(int=1), "partitions": [0]}] if step.forgotten else []
    return {
        **common,
        **newer,
        "group_id": "g",
        "max_wait_ms": step.wait_ms,
        "min_bytes": 1,
        "max_bytes": step.max_bytes,
        "max_records": step.max_records,
        "batch_size": step.max_records,
        "forgotten_topics_data": gone,
        "with_receipts": True,
        "visibility_ms": step.visibility_ms,
    }


usual = st.builds(
    Said,
    first=st.integers(0, 5),
    step=st.sampled_from([1, 1, 1, 2]),
    most=st.sampled_from([1000, 1000, 1, 3]),
)
odd = st.builds(
    Said,
    kind=st.sampled_from(KINDS),
    first=st.integers(0, 5),
    twice=st.booleans(),
    off_by=st.sampled_from([0, 0, 1]),
)
cuts = st.sampled_from([(), (), (), (11,), (60, 70)])
versions = st.sampled_from([2, 2, 1])
members = st.sampled_from(["one", "two"])
usual_fetches = st.builds(
    Fetch,
    members,
    st.lists(usual, max_size=1).map(tuple),
    st.sampled_from([10, 10, 2]),
    mode=st.sampled_from([1, 1, 0]),
    visibility_ms=st.sampled_from([0, 0, 20_000]),
    version=versions,
)
odd_fetches = st.builds(
    Fetch,
    st.sampled_from(["one", "stranger", ""]),
    st.lists(odd, max_size=2).map(tuple),
    st.sampled_from([10, 2, 0]),
    st.sampled_from([1 << 20, 150, 0]),
    st.sampled_from([0, 1]),
    st.sampled_from([1, 0, 7]),
    st.sampled_from([0, 20_000, -1]),
    versions,
    st.booleans(),
    cuts,
)
usual_acknowledges = st.builds(
    Acknowledge, st.tuples(usual), member=members, version=versions, cuts=cuts
)
odd_acknowledges = st.builds(
    Acknowledge,
    st.lists(odd, max_size=2).map(tuple),
    st.sampled_from(["g", "g", "h", ""]),
    st.sampled_from(["one", "stranger", ""]),
    versions,
    st.booleans(),
    cuts,
)
publishes = st.builds(Publish, st.sampled_from(["plain", "plain", "traced"]), st.integers(1, 9))
steps = st.one_of(
    usual_fetches,
    usual_fetches,
    usual_acknowledges,
    usual_acknowledges,
    odd_fetches,
    odd_acknowledges,
    publishes,
    st.sampled_from([Pass(1), Pass(), Delete()]),
)
Step = Fetch | Acknowledge | Publish | Pass | Delete


async def play(stack: ShareStack, story: list[Step]) -> None:
    for step in story:
        _numbers.append(stack.ids)
        is_waiting = False
        if isinstance(step, Publish):
            if step.topic in stack.broker.topics.catalogue.by_name:
                publish(stack.broker, step.topic, *[b"value"] * step.count)
        elif isinstance(step, Pass):
            stack.broker.clock.advance(step.milliseconds)  # type: ignore[attr-defined]  # a test's
        elif isinstance(step, Delete):
            if step.topic in stack.broker.topics.catalogue.by_name:
                await stack.broker.delete_topic(step.topic)
        else:
            fetches = isinstance(step, Fetch)
            key = ApiKey.SHARE_FETCH if fetches else ApiKey.SHARE_ACKNOWLEDGE
            stack.ask(key, step.version, request_of(step, stack.held), step.cuts)
            is_waiting = isinstance(step, Fetch) and step.wait_ms >= 1000
        if is_waiting:
            await asyncio.sleep(0)  # it looks before anything else happens
        else:
            await stack.settle()
        if isinstance(step, Fetch) and not is_waiting:
            stack.take_answer(step.version)


async def join(stack: ShareStack) -> None:
    for member in ("one", "two"):
        fields = {
            "group_id": "g",
            "member_id": member,
            "member_epoch": 0,
            "rack_id": None,
            "subscribed_topic_names": list(TOPICS),
            "queue": {"max_unacked": 12, "max_deliveries": 100},
        }
        stack.ask(ApiKey.SHARE_GROUP_HEARTBEAT, 1, fields, ())
        await stack.settle()


async def compare(folder: Path, story: list[Step]) -> list[dict[str, Any]]:
    found = []
    for straight in (True, False):
        async with AsyncExitStack() as open_until:
            place = folder / f"broker-{next(_folders):06}"
            place.mkdir()
            _numbers.append(count(1))
            disk, clock = FaultyDisk(place), ManualClock(1_700_000_000_000)
            broker = await open_until.enter_async_context(
                running_broker(place, disk=disk, clock=clock)
            )
            for name, config in TOPICS.items():
                await broker.create_topic(name, 1, config)
            stack = ShareStack(broker, disk, straight=straight)
            stack.ids = _numbers[-1]
            await join(stack)
            await play(stack, [Publish(count=9), Publish("traced"), Fetch(), *story])
            found.append(facts(stack))
    return found


def facts(stack: ShareStack) -> dict[str, Any]:
    broker, metrics = stack.broker, stack.broker.metrics
    group = broker.queues.group("g")
    counted = (
        names.MESSAGES_ACKED,
        names.MESSAGES_CONSUMED,
        names.MESSAGES_NACKED,
        names.POLLS,
        names.POLLS_EMPTY,
    )
    return {
        "seen": stack.seen,
        "queues": {place: queue.dump() for place, queue in group.queues.items()},
        "unacked": group.unacked,
        "reserved": group._reserved,
        "lanes": group.lane_stats(),
        "stored": {
            str(partition.id): [
                path.read_bytes() for path in sorted(partition.folder.glob(f"*{LOG}"))
            ]
            for partition in broker.partitions
        },
        "counters": [
            {labels: value for labels, value in metrics.values(name).items() if value}
            for name in counted
        ],
        "observed": sum(metrics.total_counts(names.ACK_LATENCY)),
        "traced": broker.tracer.store.noted,
        "unsent": stack.listener.answers.unsent_bytes,
        "waiting": len(broker.queues.waiters("g")),
    }


@pytest.fixture(autouse=True)
def numbers_that_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both brokers give topics the same ids, and deliveries the same nonces."""
    monkeypatch.setattr(catalogue, "uuid4", lambda: UUID(int=next(_numbers[-1])))
    drawn = SimpleNamespace(urandom=lambda size: next(_numbers[-1]).to_bytes(size, "big"))
    monkeypatch.setattr(delivering, "os", drawn)


@settings(
    max_examples=examples(80),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(steps, min_size=1, max_size=16))
@example(story=[Acknowledge(), Acknowledge(), Fetch()])
@example(story=[Fetch("two", max_records=2, mode=0), Acknowledge()])
@example(
    story=[Publish(), Fetch(max_records=2), Fetch(said=(Said(),)), Acknowledge((Said(first=1),))]
)
@example(story=[Publish(), Publish("traced"), Fetch(), Acknowledge(version=1), Fetch(wait_ms=1)])
@example(
    story=[Publish(), Fetch(visibility_ms=20_000), Pass(), Acknowledge(), Fetch(), Fetch("two")]
)
@example(story=[Publish(count=4), Fetch(), Acknowledge((Said(step=2), Said(first=1, step=2)))])
@example(story=[Fetch(), Acknowledge(), Fetch(wait_ms=60_000), Publish(), Fetch(), Acknowledge()])
@example(story=[Publish("traced"), Fetch(), Delete(), Acknowledge(), Fetch(said=(Said(),))])
def test_both_ways_answer_store_and_count_the_same(memory_path: Path, story: list[Step]) -> None:
    straight, general = asyncio.run(compare(memory_path, story))
    for name, value in general.items():
        assert straight[name] == value, name


def _frame(key: ApiKey, version: int, fields: dict[str, Any]) -> memoryview:
    body = bytearray()
    writer_of(schema_of(key, version, "request"))(body, fields)
    return memoryview(struct.pack(">hhih4sx", key, version, 1, 4, b"twin") + body)


@pytest.mark.parametrize("version", [1, 2])
def test_the_usual_requests_of_a_client_are_plain(version: int) -> None:
    held = messages_of(UUID(int=5), 3)
    step = Acknowledge(version=version)
    plain = parse_acknowledge(
        _frame(ApiKey.SHARE_ACKNOWLEDGE, version, request_of(step, held)), version
    )
    assert plain is not None
    group, settlements = plain
    assert group == "g"
    assert [(place, len(nonces)) for place, _, nonces in settlements] == [((UUID(int=5), 0), 24)]
    for said in ((), (Said(),)):
        asked = Fetch(said=said, version=version, visibility_ms=7)
        fetch = parse_fetch(_frame(ApiKey.SHARE_FETCH, version, request_of(asked, held)), version)
        assert fetch is not None
        assert fetch[0] == ("g", "one", 0, 1 << 20, 10, int(version > 1), 7)
        assert len(fetch[1]) == len(said)


@pytest.mark.parametrize("version", [1, 2])
def test_the_answer_when_all_counts_is_what_the_schema_says(version: int) -> None:
    places = [(UUID(int=5), 0), (UUID(int=6), 1), (UUID(int=5), 200)]
    (body,) = encode_acknowledged(version, 30_000, places).parts
    cursor = Cursor(memoryview(body))
    answer = reader_of(schema_of(ApiKey.SHARE_ACKNOWLEDGE, version, "response"))(cursor)
    assert cursor.position == len(body)
    assert not answer.error_code
    if version > 1:
        assert answer.acquisition_lock_timeout_ms == 30_000
    assert [
        (topic.topic_id, each.partition_index, each.error_code, each.current_leader.leader_epoch)
        for topic in answer.responses
        for each in topic.partitions
    ] == [(UUID(int=5), 0, 0, -1), (UUID(int=5), 200, 0, -1), (UUID(int=6), 1, 0, -1)]


@pytest.mark.parametrize("at", range(0, 160, 3))
def test_a_request_that_is_cut_off_is_not_plain(at: int) -> None:
    held = messages_of(UUID(int=5), 3)
    whole = _frame(ApiKey.SHARE_ACKNOWLEDGE, 2, request_of(Acknowledge(), held))
    assert parse_acknowledge(whole, 2) is not None
    assert parse_acknowledge(whole[: min(at, len(whole) - 1)], 2) is None
    whole = _frame(ApiKey.SHARE_FETCH, 2, request_of(Fetch(said=(Said(),), visibility_ms=7), held))
    assert parse_fetch(whole, 2) is not None
    assert parse_fetch(whole[: min(at, len(whole) - 1)], 2) is None


def messages_of(topic_id: UUID, number: int) -> list[Delivered]:
    return [Delivered((topic_id, 0), offset, offset + 9, 1, 2, b"v") for offset in range(number)]
