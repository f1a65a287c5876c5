"""Delayed messages on a node of a cluster: what counts, what is void, and what queues behind."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.cluster.records import PartitionKey, PartitionRecord
from goqueue.delays.entries import CLASSES, DelayedState, make_id, public_id, unit_of
from goqueue.model.delivery import DELIVER_AT_HEADER
from goqueue.model.errors import (
    DelayedNotPendingError,
    DelaysUnavailableError,
    GoQueueError,
    NotLeaderError,
    OutOfOrderSequenceError,
    UnknownDelayedError,
)
from goqueue.model.internal_topics import DELAY_STATE, DELAYED, INTERNAL_TOPICS
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.deferred import DeferredPublish
from goqueue.publishing.requests import Acks, PublishRequest
from goqueue.records import DELIVERY, Record, decode_rows, encode
from goqueue.records.batch import walk
from goqueue.topics.replica_assignments import Replication
from support.cluster_brokers import OneOfThree, one_of_three

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from pathlib import Path

UNITS = 2
PLACE = TopicPartition("t", 0)
PRODUCER = 5000


class Stage:
    """Node 1, which leads everything; the followers fetch when the test says so."""

    def __init__(self, node: OneOfThree) -> None:
        self.node = node
        self.broker: Any = node.broker
        self.delays: Any = node.broker.delays

    @property
    def partition(self) -> Any:
        return self.broker.partitions.partition(PLACE)

    @property
    def now_ms(self) -> int:
        return int(self.broker.clock.now_ms())

    def publish(
        self,
        *messages: tuple[bytes, int],
        sequence: int | None = None,
        key: bytes | None = None,
    ) -> Any:
        """One batch of values and delays; 0 is no delay."""
        records = [
            Record(at, self.now_ms, key, value, self._headers(delay_ms))
            for at, (value, delay_ms) in enumerate(messages)
        ]
        producer: dict[str, Any] = {}
        if sequence is not None:
            producer = {
                "producer_id": PRODUCER,
                "producer_epoch": 0,
                "base_sequence": sequence,
            }
        batch = encode(records, attributes=DELIVERY, **producer)
        return self.broker.publisher.publish(PublishRequest(PLACE, memoryview(batch), Acks.ALL))

    def _headers(self, delay_ms: int) -> Any:
        if not delay_ms:
            return ()
        return ((DELIVER_AT_HEADER, b"%d" % (self.now_ms + delay_ms)),)

    def commit(self, *names: str) -> None:
        for name in names or ("t", DELAYED, DELAY_STATE):
            self.node.commit_all(name)

    async def settle(self, *names: str, rounds: int = 40) -> None:
        """Let what is under way go on while the followers fetch."""
        for _ in range(rounds):
            self.commit(*names)
            await asyncio.sleep(0.002)

    async def later(self, ms: int) -> None:
        self.broker.clock.advance(ms)
        await self.done(self.delays.deliver_due())
        await self.settle()

    async def done(self, work: Awaitable[Any]) -> Any:
        """What comes of something while the followers fetch."""
        waiting = asyncio.ensure_future(work)
        while not waiting.done():
            self.commit()
            await asyncio.sleep(0.002)
        return await waiting

    def stored(self) -> list[bytes | None]:
        """The values in the partition, up to its high watermark."""
        return [
            record.value
            for chunk in self.partition.chunks(0)
            for record in _records(chunk.data)
            if record.offset < self.partition.high_watermark
        ]


def _records(data: Any) -> Any:
    for at, info in walk(data):
        if not info.is_control and info.count:
            yield from decode_rows(data, at, check_crc=False)


@asynccontextmanager
async def stage(folder: Path, **settings: str) -> AsyncIterator[Stage]:
    async with one_of_three(folder) as node:
        for name, count in ((DELAY_STATE, UNITS), (DELAYED, UNITS * CLASSES)):
            topic = await node.broker.topics.create(
                name,
                count,
                INTERNAL_TOPICS[name],
                internal=True,
                replication=Replication(assignments=[(1, 2, 3)] * count),
            )
            await node.follow(topic)
        await node.topic("t", (1, 2, 3), **settings)
        made = Stage(node)
        await made.settle()
        yield made


def test_a_delayed_message_goes_once_when_it_is_due(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            published = it.publish((b"now", 0), (b"later", 1000))
            await it.done(published.durable)
            assert it.stored() == [b"now"]
            await it.later(999)
            assert it.stored() == [b"now"]
            await it.later(2)
            assert it.stored() == [b"now", b"later"]
            await it.later(60_000)
            assert it.stored() == [b"now", b"later"]

    asyncio.run(main())


def test_a_producer_that_an_earlier_leader_has_ended_goes_on_in_a_later_epoch(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            published = it.publish((b"first", 1000))
            await it.done(published.durable)
            await it.later(1000)
            parts = it.delays.shard(unit_of(published.delayed[0][1])).built()
            handover = parts.courier.outcomes.required_handover()
            # As whoever led the unit before does to resolve an intent; nothing was stored of it.
            target = it.broker.targets.of(PLACE)
            await it.done(target.found(handover.producer_id, handover.epoch, 0))
            for number in range(UNITS):
                await it.done(it.publish((b"%d" % number, 1000)).durable)
            for _ in range(3):
                await it.later(2000)
            assert sorted(it.stored()) == [b"0", b"1", b"first"]

    asyncio.run(main())


def test_an_acknowledged_delayed_message_is_on_every_replica(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            published = it.publish((b"later", 1000))
            waiting = asyncio.ensure_future(published.durable)
            await it.settle("t", DELAY_STATE)
            assert not waiting.done()
            await it.settle()
            await waiting

    asyncio.run(main())


def test_the_rest_of_an_idempotent_batch_is_not_stored_before_its_delayed_part(
    tmp_path: Path,
) -> None:
    """Otherwise it could survive alone, and the repeated batch would be taken for a duplicate."""

    async def main() -> None:
        async with stage(tmp_path) as it:
            first = it.publish((b"now", 0), (b"later", 1000), sequence=0)
            behind = it.publish((b"behind", 0), sequence=2)
            assert isinstance(first, DeferredPublish)
            await it.settle("t", DELAY_STATE)
            assert it.partition.log_end == 0  # neither the rest, nor what is behind it
            await it.settle()
            await first.durable
            await behind.durable
            assert it.stored() == [b"now", b"behind"]
            assert (first.placed.first_offset, behind.placed.first_offset) == (0, 2)
            ((_, delayed_id, _),) = first.delayed
            found = await it.delays.get("t", delayed_id)
            assert (found.value, found.state) == (b"later", DelayedState.PENDING)
            again = it.publish((b"now", 0), (b"later", 1000), sequence=0)
            await it.settle()
            assert again.placed.duplicate
            await it.later(1001)
            assert it.stored() == [b"now", b"behind", b"later"]

    asyncio.run(main())


def test_a_delayed_part_whose_rest_was_not_stored_never_goes(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            lost = it.publish((b"now", 0), (b"later", 1000), sequence=0)
            behind = it.publish((b"behind", 0), sequence=2)
            await it.broker.partitions.follow(PLACE, 2, 5)
            await it.settle(DELAYED, DELAY_STATE)
            for each in (lost, behind):
                with pytest.raises(NotLeaderError):
                    await each.durable
            await it.broker.partitions.lead(PLACE, 6)
            again = it.publish((b"now", 0), (b"later", 1000), sequence=0)
            await it.settle()
            await again.durable
            await it.later(1001)
            assert it.stored() == [b"now", b"later"]

    asyncio.run(main())


def test_the_rest_is_not_stored_in_a_later_epoch_than_the_one_its_delayed_part_names(
    tmp_path: Path,
) -> None:
    """Otherwise the unit, which looks for it in that epoch, would never let the message go."""

    async def main() -> None:
        async with stage(tmp_path) as it:
            lost = it.publish((b"now", 0), (b"later", 1000), sequence=0)
            await it.broker.partitions.follow(PLACE, 2, 5)
            await it.broker.partitions.lead(PLACE, 6)
            await it.settle()
            with pytest.raises(NotLeaderError):
                await lost.durable
            again = it.publish((b"now", 0), (b"later", 1000), sequence=0)
            await it.settle()
            await again.durable
            assert not again.placed.duplicate
            await it.later(1001)
            assert it.stored() == [b"now", b"later"]

    asyncio.run(main())


def test_a_unit_that_is_taken_over_asks_what_became_of_the_rest(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            kept = it.publish((b"now", 0), (b"kept", 1000), sequence=0)
            await it.settle()
            await kept.durable
            lost = it.publish((b"also now", 0), (b"lost", 1000), sequence=2)
            it.commit(DELAYED, DELAY_STATE)  # and nobody appends the rest before the move
            await it.broker.partitions.follow(PLACE, 2, 5)
            await _move_units(it)
            with pytest.raises(NotLeaderError):
                await lost.durable
            await it.broker.partitions.lead(PLACE, 6)
            await it.settle(rounds=200)
            await it.later(1001)
            assert it.stored() == [b"now", b"kept"]

    asyncio.run(main())


def test_a_rest_that_was_compacted_away_before_the_unit_was_taken_over_was_stored(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        policy = {"cleanup.policy": "compact", "internal.segment.bytes": "1024"}
        async with stage(tmp_path, **policy) as it:
            kept = it.publish((b"now", 0), (b"kept", 1000), sequence=0, key=b"same")
            await it.settle()
            await kept.durable
            await _leave_units(it)
            for number in range(20):  # newer ones of its key and of its producer
                sequence = 2 + number
                it.publish((b"%d" % number + bytes(100), 0), sequence=sequence, key=b"same")
            await it.settle("t")
            await it.broker.maintenance().compact(PLACE)
            assert b"now" not in it.stored()
            await _take_units(it)
            await it.settle(rounds=200)
            await it.later(1001)
            assert it.stored()[-1] == b"kept"

    asyncio.run(main())


def test_a_node_that_takes_over_lets_no_delayed_part_go_without_its_rest(tmp_path: Path) -> None:
    """The trap: the publisher died between the two, and has sent the batch again elsewhere."""

    async def main() -> None:
        async with stage(tmp_path / "died") as it:
            kept = it.publish((b"now", 0), (b"kept", 1000), sequence=0)
            await it.settle()
            await kept.durable
            it.publish((b"also now", 0), (b"lost", 1000), sequence=2)
            shutil.copytree(tmp_path / "died", tmp_path / "next")
        async with _taken_over(tmp_path / "next") as it:
            await it.settle(rounds=200)
            await it.later(1001)
            assert it.stored() == [b"now", b"kept"]

    asyncio.run(main())


def test_an_attempt_that_was_given_up_does_not_count_for_the_rest_of_the_next(
    tmp_path: Path,
) -> None:
    """Both were in one epoch, and the leader that knew which one it gave up is gone."""

    async def main() -> None:
        async with stage(tmp_path / "died") as it:
            partitions, topics = it.broker.partitions, it.broker.topics.catalogue
            given_up = it.publish((b"now", 0), (b"later", 1000), sequence=0)
            logs = [*partitions.of_topic(topics.topic(DELAYED))]
            (used,) = [each.id.partition // CLASSES for each in logs if each.log_end]
            own = range(used * CLASSES, (used + 1) * CLASSES)
            for each in (*partitions.of_topic(topics.topic(DELAY_STATE)), *logs):
                if each.id.partition in (own if each.id.topic == DELAYED else (used,)):
                    await partitions.follow(each.id, 2, 5)
            await it.settle("t")
            with pytest.raises(GoQueueError):
                await given_up.durable
            again = it.publish((b"now", 0), (b"later", 1000), sequence=0)
            await it.settle()
            await again.durable
            shutil.copytree(tmp_path / "died", tmp_path / "next")
        async with _taken_over(tmp_path / "next") as it:
            await it.settle(rounds=200)
            await it.later(1001)
            assert it.stored() == [b"now", b"later"]

    asyncio.run(main())


def test_a_gap_before_delayed_messages_is_no_mistake_of_a_producer_that_was_refused(
    tmp_path: Path,
) -> None:
    """librdkafka would begin a new epoch, and store again what other partitions have."""

    async def main() -> None:
        async with stage(tmp_path) as it:
            stored = it.publish((b"now", 0), sequence=0)
            await it.settle()
            await stored.durable
            with pytest.raises(NotLeaderError):  # this node leads for a moment only
                it.publish((b"later", 1000), sequence=2)
            it.broker.clock.advance(60_000)
            with pytest.raises(OutOfOrderSequenceError):
                it.publish((b"later", 1000), sequence=2)
            for number in range(UNITS):
                await it.broker.partitions.follow(TopicPartition(DELAY_STATE, number), 2, 5)
            with pytest.raises(DelaysUnavailableError):
                it.publish((b"also later", 1000), sequence=1)
            for delay_ms in (0, 1000):
                with pytest.raises(NotLeaderError):
                    it.publish((b"behind", delay_ms), sequence=2)

    asyncio.run(main())


def test_a_gap_after_a_batch_that_was_given_up_is_no_mistake_of_its_producer(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            stored = it.publish((b"now", 0), sequence=0)
            await it.settle()
            await stored.durable
            it.broker.clock.advance(60_000)
            given_up = it.publish((b"later", 1000), sequence=1)
            behind = it.publish((b"behind", 0), sequence=2)
            for name, count in ((DELAY_STATE, UNITS), (DELAYED, UNITS * CLASSES)):
                for number in range(count):
                    await it.broker.partitions.follow(TopicPartition(name, number), 2, 5)
            await it.settle("t")
            for each in (given_up, behind):
                with pytest.raises(GoQueueError):
                    await each.durable
            with pytest.raises(NotLeaderError):
                it.publish((b"on its way", 0), sequence=3)

    asyncio.run(main())


@asynccontextmanager
async def _taken_over(folder: Path) -> AsyncIterator[Stage]:
    """A node that knows what the logs have, and nothing else."""
    async with one_of_three(folder) as node:
        made, partitions = Stage(node), node.broker.partitions
        for name in ("t", DELAY_STATE, DELAYED):
            topic = node.broker.topics.catalogue.topic(name)
            await partitions.open_topic(topic)
            for partition in partitions.of_topic(topic):
                await partitions.lead(partition.id, 6)
        yield made


async def _move_units(it: Stage) -> None:
    """Other nodes lead the units for a while."""
    await _leave_units(it)
    await _take_units(it)


async def _leave_units(it: Stage) -> None:
    partitions = it.broker.partitions
    for name in (DELAY_STATE, DELAYED):
        for partition in partitions.of_topic(it.broker.topics.catalogue.topic(name)):
            await partitions.follow(partition.id, 2, 5)
    await it.settle("t")


async def _take_units(it: Stage) -> None:
    partitions = it.broker.partitions
    for name in (DELAY_STATE, DELAYED):
        for partition in partitions.of_topic(it.broker.topics.catalogue.topic(name)):
            await partitions.lead(partition.id, 6)
    await it.settle()


def test_what_was_cancelled_stays_so_when_its_unit_moves(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            published = it.publish((b"a", 1000), (b"b", 1000))
            await it.done(published.durable)
            ids = [each[1] for each in published.delayed]
            cancelling = asyncio.ensure_future(it.delays.cancel("t", 0, ids[0]))
            await it.settle()
            await cancelling
            await _move_units(it)
            assert (await it.delays.get("t", ids[0])).state is DelayedState.CANCELLED
            await it.later(1001)
            assert it.stored() == [b"b"]

    asyncio.run(main())


def test_what_became_of_a_message_is_told_once_it_is_committed(tmp_path: Path) -> None:
    """A cancel that is cut off with its log has not happened, and the message comes."""

    async def main() -> None:
        async with stage(tmp_path) as it:
            published = it.publish((b"later", 1000))
            await it.done(published.durable)
            ((_, delayed_id, _),) = published.delayed
            once = asyncio.ensure_future(it.delays.cancel("t", 0, delayed_id))
            await asyncio.sleep(0.05)
            again, found, listed = (
                asyncio.ensure_future(each)
                for each in (
                    it.delays.cancel("t", 0, delayed_id),
                    it.delays.get("t", delayed_id),
                    it.delays.list("t"),
                )
            )
            await asyncio.sleep(0.1)
            assert not any(each.done() for each in (once, again, found, listed))
            await it.settle()
            assert (await once).state is DelayedState.CANCELLED
            with pytest.raises(DelayedNotPendingError):
                await again
            assert (await found).state is DelayedState.CANCELLED
            assert await listed == []

    asyncio.run(main())


def test_a_node_that_has_not_heard_that_another_one_leads_a_unit_refuses_nothing(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            published = it.publish((b"later", 1000))
            await it.done(published.durable)
            ((_, delayed_id, _),) = published.delayed
            unit = unit_of(delayed_id)
            await it.done(it.delays.cancel("t", 0, delayed_id))
            unknown = public_id(unit, make_id(0, 99))
            with pytest.raises(UnknownDelayedError):
                await it.done(it.delays.get("t", unknown))
            topic = it.broker.topics.catalogue.topic(DELAY_STATE)
            record = PartitionRecord((1, 2, 3), (1, 2, 3), 2, 4)
            await it.node.put(str(PartitionKey(topic.topic_id, unit)), record)
            assert it.delays.shard(unit).state.is_led, "it has not given it up yet"
            with pytest.raises(DelaysUnavailableError):
                await it.done(it.delays.get("t", unknown))
            with pytest.raises(DelaysUnavailableError):
                await it.done(it.delays.cancel("t", 0, delayed_id))

    asyncio.run(main())


def test_without_a_unit_delayed_messages_are_refused_for_now(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            published = it.publish((b"a", 1000))
            await it.done(published.durable)
            ((_, delayed_id, _),) = published.delayed
            partitions = it.broker.partitions
            for number in range(UNITS):
                await partitions.follow(TopicPartition(DELAY_STATE, number), 2, 5)
            await it.settle("t")
            with pytest.raises(DelaysUnavailableError) as refused:
                it.publish((b"b", 1000))
            assert refused.value.retriable
            with pytest.raises(DelaysUnavailableError):
                await it.delays.get("t", delayed_id)
            assert unit_of(delayed_id) < UNITS
            with pytest.raises(UnknownDelayedError):
                await it.delays.get("t", (5 << 8 | 200) << 2 | 3)
            assert it.delays.stats().pending == 0

    asyncio.run(main())


def test_a_node_that_follows_a_unit_knows_when_its_messages_are_due(tmp_path: Path) -> None:
    hour_ms = 3_600_000

    async def main() -> None:
        async with stage(tmp_path) as it:
            delays_ms = (1000, 5 * hour_ms, 30 * 24 * hour_ms)
            published = it.publish(*((b"%d" % ms, ms) for ms in delays_ms))
            await it.done(published.durable)
            await _leave_units(it)
            assert await it.delays.followed.look() == len(delays_ms)
            assert await it.delays.followed.look() == 0
            await _take_units(it)
            unit = unit_of(published.delayed[0][1])
            parts = it.delays.shard(unit).built()
            assert parts.book.saved_ends == (1, 1, 1)  # nothing of the logs had to be read
            for ms in delays_ms:
                await it.later(ms)
            assert it.stored() == [b"%d" % ms for ms in delays_ms]

    asyncio.run(main())


def _damage_indexes(folder: Path) -> None:
    for path in folder.rglob("index.bin"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")


def test_an_index_that_is_damaged_is_built_from_the_logs_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with stage(tmp_path) as it:
            published = it.publish((b"a", 1000), (b"b", 20_000_000))
            await it.done(published.durable)
            await _leave_units(it)
            await it.delays.followed.look()
            _damage_indexes(tmp_path)
            await _take_units(it)
            await it.later(1000)
            await it.later(20_000_000)
            assert it.stored() == [b"a", b"b"]

    asyncio.run(main())
