"""Batches for partitions that other nodes lead, while leaders move and connections are lost.

The other nodes are a list for each partition behind the bytes of Produce: what is stored, is in it.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict, deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, settings, strategies as st

from goqueue.model.errors import (
    BatchTooLargeError,
    DelayTooLongError,
    ForwardingBusyError,
    GoQueueError,
    LeaderUnavailableError,
    NotLeaderError,
    PeerUnavailableError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.partition import Placed
from goqueue.publishing import router as module
from goqueue.publishing.deferred import DeferredPublish
from goqueue.publishing.requests import Acks, Published, PublishRequest
from goqueue.publishing.router import PublishRouter
from goqueue.records import Record, decode_rows, encode
from goqueue.records.batch import peek
from goqueue.wire.kafka.primitives import Cursor
from goqueue.wire.kafka.produce import (
    PartitionResult,
    TopicResult,
    encode_response,
    parse_request,
)
from support.effort import examples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.publishing.routed import RoutedPublish

ME, OTHERS = 1, (2, 3)
PLACES = [TopicPartition("t", number) for number in range(3)]


class Logs:
    """What is stored of each partition, by whichever node leads it."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int | None] = dict.fromkeys(PLACES, 2)
        self.values: defaultdict[TopicPartition, list[bytes]] = defaultdict(list)
        self.stored: defaultdict[TopicPartition, dict[tuple[int, int], int]] = defaultdict(dict)
        self.next: defaultdict[tuple[TopicPartition, int], int] = defaultdict(int)
        self.refusals: deque[GoQueueError] = deque()

    def append(self, node_id: int, place: TopicPartition, batch: memoryview) -> Placed:
        """Append as a leader does: in the producer's order, and a repeated batch once."""
        if self.leaders[place] != node_id:
            raise NotLeaderError(str(place))
        if self.refusals:
            raise self.refusals.popleft()
        info = peek(batch)
        if info.has_producer:
            known = self.stored[place].get((info.producer_id, info.base_sequence))
            if known is not None:
                return Placed(known, known + info.count, duplicate=True)
            if info.base_sequence != self.next[place, info.producer_id]:
                raise NotLeaderError(str(place))  # as of a gap that a refused batch may have left
            self.next[place, info.producer_id] += info.count
        first = len(self.values[place])
        self.stored[place][info.producer_id, info.base_sequence] = first
        self.values[place] += [row.value or b"" for row in decode_rows(batch)]
        return Placed(first, first + info.count)


class Link:
    """A connection to another node: answers come when the test says so, in order."""

    def __init__(self, node_id: int, logs: Logs) -> None:
        self.node_id = node_id
        self.logs = logs
        self.is_open = True
        self.sent: deque[tuple[bytes, asyncio.Future[memoryview]]] = deque()
        self.most_in_flight = 0

    def exchange(
        self, _api: int, version: int, body: Sequence[Any], _wait_s: float
    ) -> asyncio.Future[memoryview]:
        assert version == 11
        future: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self.sent.append((b"".join(bytes(each) for each in body), future))
        self.most_in_flight = max(self.most_in_flight, len(self.sent))
        return future

    def answer(self) -> None:
        if self.sent:
            body, future = self.sent.popleft()
            future.set_result(self._serve(body))

    def _serve(self, body: bytes) -> memoryview:
        request = parse_request(Cursor(memoryview(body)), 11)
        assert request.acks != Acks.NONE
        results = []
        for topic in request.topics:
            parts = []
            for number, records in topic.partitions:
                place = TopicPartition(topic.name or "", number)
                try:
                    placed = self.logs.append(self.node_id, place, records)
                except GoQueueError as error:
                    told = PartitionResult(
                        number,
                        87,
                        error_message=str(error),
                        error_name=type(error).__name__,
                        record_errors=tuple(error.refused.items()),
                    )
                else:
                    told = PartitionResult(
                        number, 0, placed.first_offset, is_duplicate=placed.duplicate
                    )
                parts.append(told)
            results.append(TopicResult(topic.name, None, parts))
        parts_of = encode_response(11, results, to_node=True).parts
        return memoryview(b"\0\0\0\1\0" + b"".join(bytes(each) for each in parts_of))

    def drop(self, *, served: int) -> None:
        """Lose the connection; of what was sent, so many requests were served unheard."""
        self.is_open = False
        for at, (body, future) in enumerate(self.sent):
            if at < served:
                self._serve(body)
            future.set_exception(ConnectionError("lost"))
        self.sent.clear()

    def close(self) -> None:
        self.drop(served=0)


class World:
    """A router on node 1, and what it finds around it."""

    def __init__(self) -> None:
        self.logs = Logs()
        self.links: dict[int, Link] = {}
        self.routes: Any = SimpleNamespace(
            node_id=ME, peers=SimpleNamespace(dial=self._dial), leader_of=self._leader_of
        )
        topic = SimpleNamespace(name="t", settings=SimpleNamespace(max_message_bytes=10_000))
        topics: Any = SimpleNamespace(catalogue=SimpleNamespace(require=lambda _: topic))
        partitions: Any = SimpleNamespace(find=self._find)
        self.router = PublishRouter(topics, partitions, self, self.routes)  # type: ignore[arg-type]  # what it needs of a publisher

    async def _dial(self, node_id: int) -> Link:
        link = self.links[node_id] = Link(node_id, self.logs)
        return link

    def _leader_of(self, place: TopicPartition) -> int:
        leader = self.logs.leaders[place]
        if leader is None:
            raise LeaderUnavailableError(f"{place} has no leader")
        return leader

    def _find(self, place: TopicPartition) -> Any:
        return SimpleNamespace(is_leading=self.logs.leaders[place] == ME)

    def publish(self, request: PublishRequest) -> Published:
        """The publisher of this node."""
        return Published(self.logs.append(ME, request.partition, request.batch), 0)

    def send(
        self, place: TopicPartition, *values: bytes, producer: tuple[int, int] | None = None
    ) -> Published | RoutedPublish:
        records = [Record(at, 0, None, value) for at, value in enumerate(values)]
        numbered: dict[str, Any] = {}
        if producer is not None:
            numbered = {
                "producer_id": producer[0],
                "producer_epoch": 0,
                "base_sequence": producer[1],
            }
        batch = memoryview(encode(records, **numbered))
        published = self.router.publish(PublishRequest(place, batch))
        assert not isinstance(published, DeferredPublish)
        return published

    async def settle(self, *sent: Published | RoutedPublish) -> list[GoQueueError | None]:
        """Answer everything until all is known; what each failed with."""
        waits = [each.durable for each in sent if each.durable is not None]
        while not all(each.done() for each in waits):  # type: ignore[attr-defined]  # futures
            for link in self.links.values():
                link.answer()
            await asyncio.sleep(0.0005)
        return [_failure(each) for each in sent]


def _failure(sent: Published | RoutedPublish) -> GoQueueError | None:
    if sent.durable is None:
        return None
    error = sent.durable.exception()  # type: ignore[attr-defined]  # a future
    assert error is None or isinstance(error, GoQueueError)
    return error


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.001)


def test_batches_for_one_node_share_requests_and_know_their_offsets() -> None:
    async def scenario() -> None:
        world = World()
        sent = [world.send(place, b"%d" % number) for number in range(3) for place in PLACES]
        assert await world.settle(*sent) == [None] * 9
        assert [each.placed.first_offset for each in sent] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        assert world.links[2].most_in_flight == 3, "a batch of each partition in each"

    asyncio.run(scenario())


def test_at_most_five_batches_of_a_partition_are_in_flight() -> None:
    async def scenario() -> None:
        world = World()
        sent = [world.send(PLACES[0], b"%d" % number) for number in range(20)]
        await asyncio.sleep(0.01)
        assert len(world.links[2].sent) == 5
        await world.settle(*sent)
        assert world.logs.values[PLACES[0]] == [b"%d" % number for number in range(20)]
        assert world.links[2].most_in_flight == 5

    asyncio.run(scenario())


def test_a_refusal_keeps_its_class_its_text_and_its_records() -> None:
    async def scenario() -> None:
        world = World()
        world.logs.refusals.append(DelayTooLongError("too long").of_records({1: "why"}))
        (error,) = await world.settle(world.send(PLACES[0], b"a", b"b"))
        assert (type(error), str(error)) == (DelayTooLongError, "too long")
        assert error.refused == {1: "why"}

    asyncio.run(scenario())


def test_a_batch_that_is_too_large_is_refused_before_it_is_sent() -> None:
    async def scenario() -> None:
        world = World()
        with pytest.raises(BatchTooLargeError):
            world.send(PLACES[0], b"." * 20_000)

    asyncio.run(scenario())


def test_a_lost_connection_stores_a_batch_without_a_producer_at_most_once() -> None:
    async def scenario() -> None:
        world = World()
        sent = [world.send(PLACES[0], b"%d" % number) for number in range(7)]
        await asyncio.sleep(0.01)
        world.links[2].drop(served=2)
        outcomes = await world.settle(*sent)
        assert [type(each) for each in outcomes[:5]] == [PeerUnavailableError] * 5
        assert outcomes[5:] == [None, None], "which were not sent before"
        assert world.logs.values[PLACES[0]] == [b"0", b"1", b"5", b"6"]

    asyncio.run(scenario())


def test_batches_wait_for_a_leader_for_a_while_and_are_told_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PATIENCE_S", 0.02)

    async def scenario() -> None:
        world = World()
        world.logs.leaders[PLACES[0]] = None
        outcomes = await world.settle(*(world.send(PLACES[0], b"x") for _ in range(3)))
        assert [type(each) for each in outcomes] == [LeaderUnavailableError] * 3
        assert world.router._held_bytes == 0
        assert not world.router._queues

    asyncio.run(scenario())


def test_what_waits_for_other_nodes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROUTED_BYTES", 2000)

    async def scenario() -> None:
        world = World()
        sent = [world.send(PLACES[0], b"." * 900) for _ in range(2)]
        with pytest.raises(ForwardingBusyError, match="wait for other nodes"):
            world.send(PLACES[0], b"." * 900)
        assert await world.settle(*sent) == [None, None]
        await world.settle(world.send(PLACES[0], b"." * 900))

    asyncio.run(scenario())


class Sent(NamedTuple):
    """A message of the random run, and its producer, if it has one."""

    place: TopicPartition
    value: bytes
    producer_id: int | None
    published: Published | RoutedPublish


class RandomRun:
    """Publishes, moves leaders, and loses connections with and without an effect."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.world = World()
        self.sent: list[Sent] = []
        self.numbers: defaultdict[tuple[TopicPartition, int], int] = defaultdict(int)

    async def step(self) -> None:
        steps = [self._publish, self._move, self._drop, self._answer]
        chosen = self.rng.choices([*steps, None], [8, 2, 1, 6, 4])[0]
        if chosen is None:
            await asyncio.sleep(self.rng.choice([0, 0, 0.002]))
        else:
            chosen()

    def _publish(self) -> None:
        place, value = self.rng.choice(PLACES), b"%d" % len(self.sent)
        producer_id = self.rng.choice([7, 8, None])
        producer = None
        if producer_id is not None:
            producer = producer_id, self.numbers[place, producer_id]
            self.numbers[place, producer_id] += 1
        published = self.world.send(place, value, producer=producer)
        self.sent.append(Sent(place, value, producer_id, published))

    def _move(self) -> None:
        self.world.logs.leaders[self.rng.choice(PLACES)] = self.rng.choice([ME, 2, 3, None])

    def _drop(self) -> None:
        for link in list(self.world.links.values())[:1]:
            link.drop(served=self.rng.randrange(len(link.sent) + 1))

    def _answer(self) -> None:
        if self.world.links:
            self.rng.choice(list(self.world.links.values())).answer()

    async def heal(self) -> list[GoQueueError | None]:
        for place in PLACES:
            self.world.logs.leaders[place] = self.rng.choice([ME, *OTHERS])
        return await self.world.settle(*(each.published for each in self.sent))


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32))
def test_what_is_acknowledged_is_stored_once_and_in_order(seed: int) -> None:
    async def scenario() -> None:
        run = RandomRun(random.Random(seed))
        for _ in range(run.rng.randrange(20, 120)):
            await run.step()
        outcomes = await run.heal()
        values = run.world.logs.values
        for each, error in zip(run.sent, outcomes, strict=True):
            stored = values[each.place]
            if error is None:
                assert stored.count(each.value) == 1
                assert stored.index(each.value) == each.published.placed.first_offset
            else:
                assert each.producer_id is None, "a leader knows it again"
                assert isinstance(error, PeerUnavailableError)
                assert stored.count(each.value) <= 1
        for place, producer_id in run.numbers:
            numbered = [x.value for x in run.sent if x[0] == place and x[2] == producer_id]
            assert [value for value in values[place] if value in numbered] == numbered
        assert run.world.router._held_bytes == 0
        assert not run.world.router._queues

    asyncio.run(scenario())
