"""Produce by the straight way and by the general one: the same answers, and the same bytes stored.

Two brokers are given the same requests in the same pieces. One of them serves nothing straight.
"""

from __future__ import annotations

import asyncio
import struct
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count, pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from goqueue.metrics import names
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.connection.connection import Connection
from goqueue.protocols.kafka.connection.dispatch import Dispatcher
from goqueue.protocols.kafka.connection.listener import Listener
from goqueue.protocols.kafka.families import build_registry
from goqueue.protocols.kafka.settings import Address, ListenerSettings
from goqueue.publishing.admission import admit_batch
from goqueue.records import Compression, Record, encode
from goqueue.records.batch import CONTROL, DELIVERY, LOG_APPEND_TIME, TRANSACTIONAL
from goqueue.records.choice import load
from goqueue.storage.naming import LOG
from goqueue.topics import catalogue
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.frames import parse_client_id
from goqueue.wire.kafka.plain_produce import encode_stored, parse_plain
from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.produce import (
    FIRST_VERSION,
    FLEXIBLE_FROM,
    LAST_VERSION,
    TOPIC_IDS_FROM,
    PartitionResult,
    TopicResult,
    encode_response,
    parse_request,
)
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.writing import writer_of
from support.brokers import running_broker
from support.clocks import ManualClock
from support.disks import FaultyDisk
from support.effort import examples

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker

NOW_MS = 1_700_000_000_000
PARTITIONS = 2
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "other": {"goqueue.trace": "0.5"},
    "synced": {"goqueue.fsync": "always"},
    "counted": {"flush.messages": "3"},
    "small": {"max.message.bytes": "200"},
    "dated": {"message.timestamp.type": "LogAppendTime"},
    "keyed": {"cleanup.policy": "compact"},
    "headed": {"goqueue.kafka.headers": "true"},
    "recent": {"message.timestamp.before.max.ms": "1000"},
}
_folders = count()
_ids = [count(1)]
"""Where the next id of a topic comes from: the last of them."""


# --- Two brokers ---------------------------------------------------------------------------------


class FakeTransport:
    """Takes whatever is written at once."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    abort = close


class Stack:
    """A broker, and one connection to it at a time."""

    def __init__(self, broker: Broker, disk: FaultyDisk, *, straight: bool) -> None:
        self.broker, self.disk = broker, disk
        registry = build_registry(broker, {"PLAINTEXT": Address("localhost", 1)})
        chosen = ListenerSettings(port=0, max_request_bytes=4000, refused_linger_s=0.0)
        self.listener = Listener(registry, chosen)
        if not straight:
            registry.straight.clear()
        self.seen: list[bytes] = []
        self.ids = _ids[-1]
        self.connect()

    def connect(self) -> None:
        self.connection = Connection(self.listener, asyncio.get_running_loop())
        self.transport = FakeTransport()
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]  # what is used
        self.feed(b"\0\0\0\x0a\0\x12\0\0\0\0\0\0\xff\xff")  # ApiVersions: whoever begins is known

    def feed(self, data: bytes) -> None:
        if self.transport.closed:
            return
        buffer = self.connection.get_buffer(-1)
        buffer[: len(data)] = data
        self.connection.buffer_updated(len(data))
        buffer[: len(data)] = bytes(len(data))  # nobody may look at it afterwards

    async def settle(self) -> None:
        """Wait until everything is answered; a client that was closed connects again."""
        async with asyncio.timeout(60):
            while self.connection._pending or self.connection._turn_scheduled:  # noqa: ASYNC110
                await asyncio.sleep(0)
        self.seen.append(bytes(self.transport.written))
        assert self.listener.budget.used_bytes == self.connection._held_bytes
        self.transport.written.clear()
        if self.transport.closed:
            self.connection.connection_lost(None)
            assert self.listener.budget.used_bytes == 0
            self.seen.append(b"closed")
            self.connect()

    def facts(self) -> dict[str, Any]:
        """What an operator, a reader and the next start can tell of what has happened."""
        broker = self.broker
        metrics = broker.metrics
        return {
            "seen": [each.replace(self.disk.root.name.encode(), b"folder") for each in self.seen],
            "logs": {
                str(partition.id): [path.read_bytes() for path in _segments(partition.folder)]
                for partition in broker.partitions
                if not partition.id.topic.startswith("__")
            },
            "state": {
                str(partition.id): (
                    partition.log_start,
                    partition.high_watermark,
                    partition.last_stable,
                    partition.log_end,
                    partition._state.dump(),
                )
                for partition in broker.partitions
            },
            "counters": [
                {labels: value for labels, value in metrics.values(name).items() if value}
                for name in (
                    names.MESSAGES_PUBLISHED,
                    names.BYTES_PUBLISHED,
                    names.MESSAGES_FAILED,
                )
            ],
            "observed": sum(metrics.total_counts(names.PUBLISH_LATENCY)),
            "traced": broker.tracer.store.noted,
        }


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{LOG}"))


# --- What happens --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """What one partition is sent, as it is made when it is sent."""

    topic: str = "plain"
    partition: int = 0
    values: tuple[bytes, ...] = (b"v",)
    producer: int | None = None
    step: int = 0
    """How far the sequence is from the one that is expected; -1 sends the last one again."""
    epoch: int = 0
    attributes: int = 0
    codec: Compression = Compression.NONE
    ahead_ms: int = 0
    damage: str = ""


@dataclass(frozen=True)
class Request:
    version: int = 9
    acks: int = -1
    batches: tuple[Batch, ...] = (Batch(),)
    client: bytes | None = b"twin"
    transactional_id: str | None = None
    flip: tuple[int, int] | None = None
    """A byte of the frame that arrives otherwise."""


@dataclass(frozen=True)
class Requests:
    """Several at once, cut into pieces."""

    requests: tuple[Request, ...]
    cuts: tuple[int, ...] = ()


@dataclass(frozen=True)
class Happening:
    """Something else."""

    what: str


@dataclass
class Producers:
    """What the clients remember of their sequences."""

    sequences: dict[tuple[int, str, int, int], list[int]] = field(default_factory=dict)

    def next(self, batch: Batch) -> int:
        assert batch.producer is not None
        sent = self.sequences.setdefault(
            (batch.producer, batch.topic, batch.partition, batch.epoch), [0]
        )
        if batch.step == -1:
            return sent[-2] if len(sent) > 1 else 0
        sequence = sent[-1] + batch.step
        if batch.step == 0:
            sent.append(sequence + len(batch.values))
        return sequence


def encoded(batch: Batch, producers: Producers) -> bytes | None:
    """A batch as its client sends it; some are damaged on the way."""
    if batch.damage == "null":
        return None
    at_ms = NOW_MS + batch.ahead_ms
    headers = (("goqueue-priority", b"high"),) if batch.topic == "headed" else ()
    records = [Record(n, at_ms, b"k", value, headers) for n, value in enumerate(batch.values)]
    said: dict[str, Any] = {}
    if batch.producer is not None:
        said = {
            "producer_id": batch.producer,
            "producer_epoch": batch.epoch,
            "base_sequence": producers.next(batch),
        }
    data = encode(records, compression=batch.codec, attributes=batch.attributes, **said)
    match batch.damage:
        case "crc":
            data[20] ^= 1
        case "value":
            data[-1] ^= 1
        case "magic":
            data[16] = 1
        case "cut":
            del data[-1:]
        case "twice":
            data += bytes(data)
        case "empty":
            data.clear()
        case "count":
            data[60] += 1
    return bytes(data)


def frame_of(request: Request, number: int, ids: dict[str, UUID], producers: Producers) -> bytes:
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for batch in request.batches:
        by_topic.setdefault(batch.topic, []).append(
            {"index": batch.partition, "records": encoded(batch, producers)}
        )
    key, version = ApiKey.PRODUCE, request.version
    schema = schema_of(key, version, "request")
    named = [
        {"topic_id": ids.get(name, UUID(int=9))} if version >= TOPIC_IDS_FROM else {"name": name}
        for name in by_topic
    ]
    body = bytearray()
    writer_of(schema)(
        body,
        {
            "transactional_id": request.transactional_id,
            "acks": request.acks,
            "timeout_ms": 30_000,
            "topic_data": [
                {**topic, "partition_data": parts}
                for topic, parts in zip(named, by_topic.values(), strict=True)
            ],
        },
    )
    client = request.client
    header = struct.pack(">hhih", key, version, number, -1 if client is None else len(client))
    content = bytearray(header + (client or b"") + b"\0" * schema.has_flexible_header + body)
    if request.flip is not None:
        place, value = request.flip
        content[place % len(content)] = value
    return struct.pack(">i", len(content)) + content


def happen(stack: Stack, what: str) -> None:
    partition = stack.broker.partitions.local(TopicPartition("plain", 0))
    match what:
        case "disk full":
            stack.broker.publisher.refuse("the disk is full")
        case "disk free":
            stack.broker.publisher.refuse(None)
        case "follow":
            partition.follow(7, partition.leader_epoch)
        case "lead":
            partition.lead(partition.leader_epoch + 1)
        case "write fails":
            stack.disk.fail_next("write", ending=LOG)


async def change(stack: Stack, what: str) -> None:
    broker = stack.broker
    match what:
        case "delete":
            if "other" in broker.topics.catalogue.by_name:
                await broker.delete_topic("other")
        case "create":
            if "other" not in broker.topics.catalogue.by_name:
                await broker.create_topic("other", PARTITIONS)
        case "stamp":
            await broker.configure_topic("small", {"message.timestamp.type": "LogAppendTime"})
        case "trim":
            await broker.delete_records(TopicPartition("plain", 1), None)
        case "recover":
            for partition in broker.partitions.failed():
                await partition.recover()


HAPPENINGS = ("disk full", "disk free", "follow", "lead", "write fails")
CHANGES = ("delete", "create", "stamp", "trim", "recover")

usual_batches = st.builds(
    Batch,
    topic=st.sampled_from(["plain", "plain", "other", "small"]),
    partition=st.sampled_from([0, 0, 1]),
    values=st.sampled_from([(b"v",), (b"v", b"w")]),
    producer=st.sampled_from([None, None, 5]),
)
odd_batches = st.builds(
    Batch,
    topic=st.sampled_from(["plain"] * 8 + [*TOPICS, "unknown", "__consumer_offsets"]),
    partition=st.sampled_from([0, 0, 0, 1, 1, PARTITIONS, -1]),
    values=st.lists(st.sampled_from([b"", b"v", b"value" * 50]), min_size=1, max_size=3).map(tuple),
    producer=st.sampled_from([None, None, None, 5, 6]),
    step=st.sampled_from([0, 0, 0, 0, -1, 1]),
    epoch=st.sampled_from([0, 0, 0, 1]),
    attributes=st.sampled_from([0] * 12 + [TRANSACTIONAL, CONTROL, DELIVERY, LOG_APPEND_TIME]),
    codec=st.sampled_from([Compression.NONE] * 3 + [Compression.GZIP]),
    ahead_ms=st.sampled_from([0, 0, 0, 0, -5000, 7_200_000]),
    damage=st.sampled_from(
        [""] * 16 + ["crc", "value", "magic", "cut", "twice", "empty", "count", "null"]
    ),
)
batches = st.one_of(usual_batches, odd_batches)
usual_requests = st.builds(
    Request,
    version=st.sampled_from([7, 9, 12, 13]),
    acks=st.sampled_from([-1, -1, 1, 0]),
    batches=st.lists(usual_batches, min_size=1, max_size=2).map(tuple),
)
flipped_requests = st.builds(
    Request,
    version=st.sampled_from([7, 9, 13]),
    flip=st.tuples(st.integers(-4, 40), st.sampled_from([0, 1, 2, 0x80, 0xFF])),
)
odd_requests = st.builds(
    Request,
    version=st.integers(FIRST_VERSION, LAST_VERSION),
    acks=st.sampled_from([-1, -1, -1, 1, 1, 0, 2]),
    batches=st.lists(batches, min_size=0, max_size=4).map(tuple),
    client=st.sampled_from([b"twin", b"", None, "zwölf".encode(), b"\xff"]),
    transactional_id=st.sampled_from([None] * 12 + ["t"]),
    flip=st.none() | st.none() | st.none() | st.tuples(st.integers(0, 200), st.integers(0, 255)),
)
requests = st.one_of(usual_requests, usual_requests, flipped_requests, odd_requests)
steps = st.one_of(
    st.builds(
        Requests,
        st.lists(requests, min_size=1, max_size=4).map(tuple),
        st.lists(st.integers(0, 400), max_size=2).map(tuple),
    ),
    st.builds(
        Requests,
        st.lists(requests, min_size=1, max_size=4).map(tuple),
    ),
    st.builds(Requests, st.tuples(usual_requests)),
    st.sampled_from([*HAPPENINGS, *CHANGES]).map(Happening),
)


def pieces(data: bytes, cuts: tuple[int, ...]) -> list[bytes]:
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    return [data[a:b] for a, b in pairwise(places)]


async def play(stacks: list[Stack], story: list[Requests | Happening]) -> None:
    producers, numbers = Producers(), count(1)
    for step in story:
        if isinstance(step, Happening):
            for stack in stacks:
                happen(stack, step.what)
                _ids.append(stack.ids)
                await change(stack, step.what)
                await stack.settle()
            continue
        topics = stacks[0].broker.topics.catalogue.by_name.values()
        ids = {topic.name: topic.topic_id for topic in topics}
        sent = b"".join(frame_of(each, next(numbers), ids, producers) for each in step.requests)
        for stack in stacks:
            for piece in pieces(sent, step.cuts):
                stack.feed(piece)
            await stack.settle()


async def compare(folder: Path, story: list[Requests | Happening]) -> list[dict[str, Any]]:
    """What two brokers have to say after the same story, the one that goes straight first."""
    async with AsyncExitStack() as open_until:
        stacks = []
        for straight in (True, False):
            place = folder / f"broker-{next(_folders):06}"
            place.mkdir()
            disk, clock = FaultyDisk(place), ManualClock(NOW_MS)
            _ids.append(count(1))
            broker = await open_until.enter_async_context(
                running_broker(place, disk=disk, clock=clock)
            )
            for name, overrides in TOPICS.items():
                await broker.create_topic(name, PARTITIONS, overrides)
            stacks.append(Stack(broker, disk, straight=straight))
        await play(stacks, story)
        for stack in stacks:
            stack.disk.faults.clear()
            await change(stack, "recover")
        return [stack.facts() for stack in stacks]


@pytest.fixture(autouse=True)
def ids_that_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both brokers give their topics the same ids, one after the other."""
    monkeypatch.setattr(catalogue, "uuid4", lambda: UUID(int=next(_ids[-1])))


@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(steps, min_size=1, max_size=10))
@example(story=[Requests((Request(batches=(Batch(), Batch(partition=1), Batch("other"))),))])
@example(story=[Requests(tuple(Request(batches=(Batch(producer=5),)) for _ in range(70)))])
@example(story=[Requests(tuple(Request() for _ in range(150)), cuts=(100, 9000))])
@example(story=[Requests((*(Request(version=3) for _ in range(70)), Request(acks=2), Request()))])
@example(story=[Requests((Request(), Request(batches=(Batch("synced"),)), Request()), (30, 180))])
@example(story=[Requests((Request(batches=(Batch(producer=5), Batch(producer=5, step=-1))),))])
@example(
    story=[
        Happening("write fails"),
        Requests((Request(batches=(Batch(), Batch(partition=1))), Request(acks=0))),
        Happening("recover"),
        Requests((Request(),)),
    ]
)
@example(
    story=[
        Requests((Request(),)),
        Happening("follow"),
        Requests((Request(), Request(acks=0), Request(acks=1))),
        Happening("lead"),
        Requests((Request(), Request())),
    ]
)
@example(story=[Requests((Request(),)), Happening("disk full"), Requests((Request(), Request()))])
@example(
    story=[
        Requests((Request(batches=(Batch("small"),)),)),
        Happening("stamp"),
        Requests((Request(batches=(Batch("small"),)),)),
    ]
)
@example(
    story=[
        Requests((Request(batches=(Batch("other"),)),)),
        Happening("delete"),
        Requests((Request(batches=(Batch("other"),)),)),
        Happening("create"),
        Requests((Request(batches=(Batch("other"),)),) * 2),
    ]
)
@example(story=[Requests((Request(), Request(), Request(flip=(-1, 1)), Request(flip=(-3, 1))))])
@example(story=[Requests((Request(batches=(Batch("synced"),)), Request(), Request(acks=1)))])
@example(
    story=[
        Requests(
            tuple(
                Request(batches=(Batch("synced" if number % 3 else "plain"),), acks=-(number % 2))
                for number in range(150)
            ),
            cuts=(50, 4000, 4010, 9000),
        )
    ]
)
def test_both_ways_answer_and_store_the_same(
    memory_path: Path, story: list[Requests | Happening]
) -> None:
    straight, general = asyncio.run(compare(memory_path, story))
    for name, value in general.items():
        assert straight[name] == value, name


@pytest.mark.parametrize("cuts", [(), (30,), (150, 290, 300)])
def test_what_comes_behind_a_batch_that_waits_goes_straight_and_is_answered_in_order(
    memory_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: tuple[int, ...]
) -> None:
    """In a cluster every batch of acks=all waits: the others must not take the long way."""

    async def scenario() -> None:
        disk = FaultyDisk(memory_path)
        async with running_broker(memory_path, disk=disk, clock=ManualClock(NOW_MS)) as broker:
            for name in ("plain", "synced"):
                await broker.create_topic(name, 1, TOPICS[name])
            stack = Stack(broker, disk, straight=True)
            await stack.settle()
            stack.seen.clear()
            monkeypatch.setattr(Dispatcher, "parse", lambda *_: pytest.fail("not straight"))
            producers = Producers()
            topics = ("synced", "plain", "synced", "synced", "plain")
            frames = [
                frame_of(Request(batches=(Batch(topic),)), number, {}, producers)
                for number, topic in enumerate(topics)
            ]
            for piece in pieces(b"".join(frames), cuts):
                stack.feed(piece)
            assert len(stack.connection._pending) == len(frames)
            await stack.settle()
            data, numbers = stack.seen[0], []
            while data:
                length, number = struct.unpack_from(">ii", data)
                numbers.append(number)
                data = data[4 + length :]
            assert numbers == [0, 1, 2, 3, 4]
            for topic in ("plain", "synced"):
                partition = broker.partitions.partition(TopicPartition(topic, 0))
                assert partition.log_end == topics.count(topic)

    asyncio.run(scenario())


# --- Their parts ---------------------------------------------------------------------------------

IDS = {name: UUID(int=number) for number, name in enumerate(TOPICS, 1)}
NATIVE, REFERENCE = load("native"), load("reference")


@settings(max_examples=examples(400))
@given(requests, st.data())
def test_a_plain_request_is_read_as_any_other_is(request: Request, data: st.DataObject) -> None:
    version = request.version
    frame = memoryview(bytearray(frame_of(request, 7, IDS, Producers())[4:]))
    stop = data.draw(st.sampled_from([len(frame)] * 4) | st.integers(0, len(frame)))
    found = parse_plain(frame[:stop], version)
    if found is None:
        return
    if version < TOPIC_IDS_FROM and not all(name.isascii() for name, _ in found[2]):
        return  # no topic is called so, and whoever looks for it leaves it to the general path
    cursor = Cursor(frame[:stop])
    parse_client_id(cursor, flexible=version >= FLEXIBLE_FROM)
    wanted = parse_request(cursor, version)
    acks, timeout_ms, topics = found
    assert (wanted.transactional_id, wanted.acks, wanted.timeout_ms) == (None, acks, timeout_ms)
    assert [
        [(part.partition, bytes(part.records or b"")) for part in topic.partitions]
        for topic in wanted.topics
    ] == [[(at, bytes(frame[a:b])) for at, a, b in parts] for _, parts in topics]
    results = [
        TopicResult(
            topic.name,
            topic.topic_id,
            [PartitionResult(part.partition, 0, 40, -1, 3) for part in topic.partitions],
        )
        for topic in wanted.topics
    ]
    header = b"\0" if version >= FLEXIBLE_FROM else b""
    told = header + b"".join(map(bytes, encode_response(version, results).parts))
    stored = [(40, 3)] * sum(len(parts) for _, parts in topics)
    assert encode_stored(version, 7, topics, stored) == struct.pack(">ii", len(told) + 4, 7) + told


@pytest.mark.parametrize("version", range(FIRST_VERSION, LAST_VERSION + 1))
def test_a_usual_request_is_plain(version: int) -> None:
    request = Request(version=version, batches=(Batch(), Batch("other", 1)))
    found = parse_plain(memoryview(frame_of(request, 7, IDS, Producers())[4:]), version)
    assert found is not None
    assert [[number for number, _, _ in parts] for _, parts in found[2]] == [[0], [1]]


@settings(max_examples=examples(400))
@given(batches, st.none() | st.tuples(st.integers(0, 60), st.integers(0, 255)))
def test_a_batch_that_is_admitted_at_once_would_be_admitted(
    batch: Batch, flip: tuple[int, int] | None
) -> None:
    data = memoryview(bytearray(encoded(batch, Producers()) or b""))
    if flip is not None and len(data) > flip[0]:
        data[flip[0]] = flip[1]
    topic = SimpleNamespace(name="t", settings=SimpleNamespace(max_message_bytes=1000))
    found = NATIVE.plain_header(data)
    assert REFERENCE.plain_header(data) == found
    if found is not None:
        assert admit_batch(topic, data) == found  # type: ignore[arg-type]  # what is used
        assert not found.attributes & ~0x07
    elif flip is None and not batch.damage and not batch.attributes:
        pytest.fail("a usual batch is not plain")


@settings(max_examples=examples(400))
@given(requests, st.data())
@example(Request(version=9), None)
@example(Request(version=13, client=None), None)
def test_the_batch_of_a_request_with_one_is_found_as_any_other_is(
    request: Request, data: st.DataObject | None
) -> None:
    version = request.version
    frame = memoryview(bytearray(frame_of(request, 7, IDS, Producers())[4:]))
    stop = len(frame)
    if data is not None:
        stop = data.draw(st.sampled_from([len(frame)] * 4) | st.integers(0, len(frame)))
    found = NATIVE.single_batch(frame[:stop])
    assert REFERENCE.single_batch(frame[:stop]) == found
    if found is None:
        assert data is not None, "a usual request is not plain"
        return
    alike, batch, info = found
    assert NATIVE.plain_header(batch) == info
    assert alike == bytes(frame[:4]) + bytes(frame[8 : len(alike) + 4])
    parsed = parse_plain(frame[:stop], version)
    if parsed is not None:
        ((_, ((_, start, end),)),) = parsed[2]
        assert frame[start:end] == batch
