"""Coordinators follow the leadership of their partitions, under load and more than once.

While another node leads, requests get a retriable refusal. What was acknowledged is there when this
node leads again, and what was refused is not.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.groups.encoding import CommittedOffset
from goqueue.groups.messages import CommitRequest, OffsetToCommit
from goqueue.model import internal_topics
from goqueue.model.errors import GoQueueError
from goqueue.model.pipeline_reports import PipelineFields
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.new_messages import NewMessage
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.schemas.model import Schema, SchemaType
from goqueue.transactions.messages import InitRequest
from support.brokers import publish, read_all, running_broker
from support.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.queues.acquired_batch import Delivery

PLACE = TopicPartition("t", 0)
WORKERS = 4
DELAY_MS = 60_000
JOBS = 4000
SETTINGS = QueueSettings(visibility_ms=3_600_000, max_deliveries=5)


class Family:
    """Requests to one coordinator."""

    topic = ""

    async def prepare(self, broker: Broker) -> None:
        """Before the first request."""

    async def act(self, broker: Broker, number: int) -> Iterable[int]:
        """Make one request; returns what is acknowledged by it."""
        raise NotImplementedError

    async def found(self, broker: Broker, clock: ManualClock) -> list[int]:
        """What is there of all that was asked for."""
        raise NotImplementedError


class Groups(Family):
    """Each request commits an offset of a group of its own."""

    topic = internal_topics.CONSUMER_OFFSETS

    async def act(self, broker: Broker, number: int) -> Iterable[int]:
        offset = OffsetToCommit(topic="t", partition=0, offset=number)
        await broker.groups.commit(CommitRequest(group_id=f"{number}", offsets=(offset,)))
        return [number]

    async def found(self, broker: Broker, _clock: ManualClock) -> list[int]:
        found = []
        for coordinator in broker.groups.coordinators():
            for group in coordinator.list_groups():
                committed = coordinator.fetch_offsets(group.group_id, [PLACE])[PLACE]
                assert isinstance(committed, CommittedOffset)
                found.append(committed.offset)
        return found


class Transactions(Family):
    """Each request initialises a producer."""

    topic = internal_topics.TRANSACTION_STATE

    async def act(self, broker: Broker, number: int) -> Iterable[int]:
        await broker.transactions.init_producer(
            InitRequest(transactional_id=f"{number}", timeout_ms=60_000)
        )
        return [number]

    async def found(self, broker: Broker, _clock: ManualClock) -> list[int]:
        return [int(each.transactional_id) for each in broker.transactions.list()]


class Queues(Family):
    """Each request takes some messages and acknowledges them."""

    topic = internal_topics.QUEUE_STATE

    async def prepare(self, broker: Broker) -> None:
        publish(broker, "t", *(b"%d" % number for number in range(JOBS)))

    async def act(self, broker: Broker, _number: int) -> Iterable[int]:
        taken = await self._poll(broker, 5)
        refused = await broker.acknowledger.settle(
            [each.receipt for each in taken], Acknowledgement(Verdict.ACK)
        )
        for error in filter(None, refused):
            raise error
        return [each.record.offset for each in taken]

    async def _poll(self, broker: Broker, limit: int) -> list[Delivery]:
        member = await broker.queue_members.join("workers", ["t"], SETTINGS)
        return await broker.deliverer.poll(member, limit=limit, max_wait_ms=0)

    async def found(self, broker: Broker, clock: ManualClock) -> list[int]:
        """What is not delivered again when every lease has expired, and every back-off."""
        again: set[int] = set()
        for _ in range(2):
            clock.advance(SETTINGS.visibility_ms + 1000)
            for group in list(broker.queues):
                await broker.queues.shard_of(group).tick()
        while taken := await self._poll(broker, 1000):
            offsets = {each.record.offset for each in taken}
            assert not again & offsets
            again |= offsets
        return [number for number in range(JOBS) if number not in again]


class Schemas(Family):
    """Each request registers a subject."""

    topic = internal_topics.SCHEMAS

    async def act(self, broker: Broker, number: int) -> Iterable[int]:
        schema = Schema(SchemaType.JSON, f'{{"title":"{number}"}}')
        await broker.schemas.change(lambda registry: registry.register(f"{number}", schema))
        return [number]

    async def found(self, broker: Broker, _clock: ManualClock) -> list[int]:
        return [int(name) for name, _ in broker.schemas.registry.contexts.subjects("")]


class Pipelines(Family):
    """Each request is the report of another pipeline."""

    topic = internal_topics.PIPELINES

    async def act(self, broker: Broker, number: int) -> Iterable[int]:
        await broker.pipelines.put(f"{number}", PipelineFields(state="running"))
        return [number]

    async def found(self, broker: Broker, _clock: ManualClock) -> list[int]:
        return [int(each.name) for each in broker.pipelines.all()]


class Delays(Family):
    """Each request delays two messages and cancels one of them."""

    topic = internal_topics.DELAY_STATE

    def __init__(self) -> None:
        self.doubtful: set[int] = set()
        """Stored, and somebody has tried to cancel them."""

    async def act(self, broker: Broker, number: int) -> Iterable[int]:
        due_ms = broker.clock.now_ms() + DELAY_MS
        values = (b"%d" % number, b"%d" % -number)
        new = [NewMessage(value, partition=0, deliver_at_ms=due_ms) for value in values]
        kept, other = await broker.writer.publish("t", new)
        for result in (kept, other):
            if result.error is not None:
                raise result.error
        self.doubtful.add(number)
        await broker.delays.cancel("t", 0, other.delayed_id)
        self.doubtful.discard(number)
        return [number]

    async def found(self, broker: Broker, clock: ManualClock) -> list[int]:
        clock.advance(DELAY_MS + 1000)
        for _ in range(3):
            await broker.delays.deliver_due()
            clock.advance(2000)
        broker.delays.shard().parts.book.check_invariants()
        came = [int(record.value) for record in await read_all(broker, "t")]
        assert len(came) == len(set(came)), "twice"
        assert broker.delays.stats().pending == 0
        # A message whose cancel was refused is delivered; the other of its request was stored.
        assert {abs(each) for each in came if each < 0} <= self.doubtful
        return [each for each in came if each > 0 and each not in self.doubtful]


class DelayedMessages(Delays):
    """The same, while a log of messages is led elsewhere rather than that of changes."""

    topic = internal_topics.DELAYED


def places_of(broker: Broker, family: Family) -> list[TopicPartition]:
    return [each.id for each in broker.partitions if each.id.topic == family.topic]


class Load:
    """Requests from several clients."""

    def __init__(self, broker: Broker, family: Family) -> None:
        self._broker, self._family = broker, family
        self.acknowledged: list[int] = []
        self.refusals = 0
        self._numbers, self._is_over = count(1), False
        self._clients = [asyncio.create_task(self._client()) for _ in range(WORKERS)]

    async def _client(self) -> None:
        while not self._is_over:
            try:
                done = await self._family.act(self._broker, next(self._numbers))
                self.acknowledged.extend(done)
            except GoQueueError as error:
                if not error.retriable:
                    raise
                self.refusals += 1
            await asyncio.sleep(0)

    async def until(self, acknowledged: int = 0, refusals: int = 0) -> None:
        """Go on until there are so many of both."""
        while len(self.acknowledged) < acknowledged or self.refusals < refusals:
            await asyncio.sleep(0)
            for each in self._clients:
                if each.done():
                    await each

    async def end(self) -> None:
        self._is_over = True
        await asyncio.gather(*self._clients)


async def under_load(broker: Broker, family: Family) -> list[int]:
    """Let the leader change under load; returns what was acknowledged."""
    load = Load(broker, family)
    await load.until(acknowledged=20)
    places = places_of(broker, family)
    for epoch in (1, 3, 5):
        for place in places:
            await broker.partitions.follow(place, 2, epoch)
        acknowledged = len(load.acknowledged)
        await load.until(refusals=load.refusals + 3 * WORKERS)
        # What was under way may come through, nothing that begins later does.
        assert len(load.acknowledged) <= acknowledged + 10 * WORKERS
        for place in places:
            await broker.partitions.lead(place, epoch + 1)
        await load.until(acknowledged=len(load.acknowledged) + 20)
    await load.end()
    return load.acknowledged


FAMILIES: list[type[Family]] = [
    Groups,
    Transactions,
    Queues,
    Schemas,
    Pipelines,
    Delays,
    DelayedMessages,
]


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("family_type", FAMILIES)
def test_a_coordinator_is_handed_over_and_comes_back_with_all_that_was_acknowledged(
    memory_path: Path, family_type: type[Family], clean: bool
) -> None:
    clock, family = ManualClock(1_700_000_000_000), family_type()
    options: dict[str, Any] = {
        "transactions_partitions": 2,
        "offsets_partitions": 2,
        "clock": clock,
    }

    async def scenario() -> None:
        async with running_broker(memory_path, clean=clean, **options) as broker:
            await broker.create_topic("t", 1)
            await family.prepare(broker)
            acknowledged = await under_load(broker, family)
            if clean:
                assert sorted(await family.found(broker, clock)) == sorted(acknowledged)
        async with running_broker(memory_path, **options) as broker:
            assert list(broker.damage) == []
            for place in places_of(broker, family):
                await broker.partitions.lead(place, 8)
            assert sorted(await family.found(broker, clock)) == sorted(acknowledged)

    asyncio.run(scenario())


def test_a_coordinator_that_is_led_elsewhere_refuses_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            for family_type in FAMILIES:
                family = family_type()
                await family.prepare(broker)
                await family.act(broker, 1)
                for place in places_of(broker, family):
                    broker.partitions.partition(place).follow(None, 1)  # nobody is told yet
                with pytest.raises(GoQueueError) as refused:
                    await family.act(broker, 2)
                assert refused.value.retriable
                for place in places_of(broker, family):
                    await broker.partitions.lead(place, 2)
                await family.act(broker, 3)

    asyncio.run(scenario())
