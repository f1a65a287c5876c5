"""One bad bit in any batch of the broker's state: it starts, says so, and lost only that batch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from goqueue.groups.encoding import CommittedOffset
from goqueue.groups.messages import CommitRequest, OffsetToCommit
from goqueue.metrics import names
from goqueue.model.errors import SchemaError
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.damage import DamageKind
from goqueue.partitions.markers import Marker
from goqueue.partitions.partition import Isolation
from goqueue.schemas.model import Schema, SchemaType
from goqueue.storage.checkpoints.checkpoint import CHEAP_SCAN_BYTES
from goqueue.transactions.messages import Identity, InitRequest
from support.bad_bits import damaged_copies, flip, stored_batches
from support.brokers import publish, read_all, running_broker
from support.clocks import ManualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from support.bad_bits import StoredBatch


def for_each_bad_bit(
    memory_path: Path,
    topic: str,
    fill: Callable[[Broker], Awaitable[None]],
    judge: Callable[[Broker, StoredBatch], Awaitable[None]],
) -> None:
    """Let a broker be killed, and others start with one batch of its state damaged each."""
    clock = ManualClock()
    folder = memory_path / "data"
    folder.mkdir()

    async def scenario() -> None:
        async with running_broker(folder, clock=clock, clean=False) as broker:
            await fill(broker)
        assert len(stored_batches(folder, topic)) > 3
        for copy, batch in damaged_copies(folder, topic, memory_path):
            async with running_broker(copy, clock=clock) as broker:
                reports = list(broker.damage)
                assert reports[-1].kind is DamageKind.STATE
                assert reports[-1].topic == topic
                assert broker.metrics.total(names.DAMAGE_FOUND) == len(reports)
                await judge(broker, batch)
            async with running_broker(copy, clock=clock) as broker:  # it can be stored, too
                await judge(broker, batch)

    asyncio.run(scenario())


async def commit(broker: Broker, group: str, offset: int) -> None:
    offsets = (OffsetToCommit(topic="t", partition=0, offset=offset),)
    await broker.groups.commit(CommitRequest(group_id=group, offsets=offsets))


def test_a_damaged_batch_of_offsets_costs_the_commits_in_it(memory_path: Path) -> None:
    async def fill(broker: Broker) -> None:
        await broker.create_topic("t", 1)
        publish(broker, "t", *(b"x" for _ in range(20)))
        for offset in (3, 7, 11):
            for group in ("a", "b"):
                await commit(broker, group, offset)

    async def judge(broker: Broker, batch: StoredBatch) -> None:
        place = TopicPartition("t", 0)
        for group in ("a", "b"):
            found = broker.groups.coordinator(group).fetch_offsets(group, [place])[place]
            is_last = any(group.encode() in (r.key or b"") for r in batch.records)
            is_last &= batch.info.last_offset >= 4
            assert isinstance(found, CommittedOffset)
            assert found.offset == (7 if is_last else 11), batch.info

    for_each_bad_bit(memory_path, "__consumer_offsets", fill, judge)


def test_a_damaged_batch_of_schemas_costs_the_schema_in_it_and_never_its_id(
    memory_path: Path,
) -> None:
    def schema(number: int) -> Schema:
        return Schema(SchemaType.JSON, f'{{"title":"{number}"}}')

    async def register(broker: Broker, subject: str, number: int) -> int:
        change = broker.schemas.change(lambda each: each.register(subject, schema(number)))
        return (await change).id

    async def fill(broker: Broker) -> None:
        for number in range(1, 5):
            assert await register(broker, f"s{number}", number) == number
        assert await register(broker, "again", 2) == 2

    async def judge(broker: Broker, batch: StoredBatch) -> None:
        lost = {n for n in range(1, 5) if any(b'["schema",%d]' % n == r.key for r in batch.records)}
        for number in range(1, 5):
            if number in lost:
                with pytest.raises(SchemaError):
                    broker.schemas.registry.versions(f"s{number}")
            else:
                (found,) = broker.schemas.registry.versions(f"s{number}")
                assert (found.id, found.schema) == (number, schema(number))
        assert await register(broker, "new", 99) > 4

    for_each_bad_bit(memory_path, "__schemas", fill, judge)


def test_a_damaged_batch_of_transactions_leaves_nothing_hanging(memory_path: Path) -> None:
    async def fill(broker: Broker) -> None:
        await broker.create_topic("t", 1)
        for name in ("a", "b"):
            request = InitRequest(transactional_id=name, timeout_ms=60_000)
            identity = await broker.transactions.init_producer(request)
            for number in range(2):
                await transact(broker, name, identity, number)
            await transact(broker, name, identity, 2, ends=False)

    async def transact(
        broker: Broker, name: str, identity: Identity, number: int, *, ends: bool = True
    ) -> None:
        place = TopicPartition("t", 0)
        await broker.transactions.add_partitions(name, identity, [place])
        producer_id, epoch = identity
        publish(
            broker, "t", b"%s%d" % (name.encode(), number), attributes=16,
            producer_id=producer_id, producer_epoch=epoch, base_sequence=number,
        )  # fmt: skip
        if ends:
            await broker.transactions.end(name, identity, Marker.COMMIT)

    async def judge(broker: Broker, batch: StoredBatch) -> None:
        assert isinstance(broker.clock, ManualClock)
        broker.clock.advance(120_000)
        await broker.transactions.check()
        partition = broker.partitions.partition(TopicPartition("t", 0))
        assert partition.readable_to(Isolation.READ_COMMITTED) == partition.high_watermark
        values = {record.value for record in await read_all(broker, "t")}
        assert values >= {b"a0", b"a1", b"b0", b"b1"}
        assert len(list(partition.transactions.aborted())) == 2, batch.info

    for_each_bad_bit(memory_path, "__transaction_state", fill, judge)


def test_a_bad_bit_in_a_snapshot_of_producers_is_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path) as broker:
            await broker.create_topic("t", 1)
            publish(broker, "t", b"x", producer_id=7, producer_epoch=0, base_sequence=0)
            for _ in range(2):  # a short log is kept in its summary
                publish(broker, "t", bytes(CHEAP_SCAN_BYTES // 2))
        (path,) = (tmp_path / "topics" / "t").rglob("snapshot-*.bin")
        flip(path, 20)
        async with running_broker(tmp_path) as broker:
            (report,) = broker.damage
            assert (report.kind, report.place) == (DamageKind.SNAPSHOT, str(path))
            again = publish(broker, "t", b"x", producer_id=7, producer_epoch=0, base_sequence=0)
            assert again.placed.duplicate

    asyncio.run(scenario())


def test_damage_in_a_topic_is_reported_at_the_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_broker(tmp_path, clean=False) as broker:
            await broker.create_topic("t", 1)
            for number in range(3):
                publish(broker, "t", b"%d" % number)
        stored_batches(tmp_path, "t")[1].damage()
        async with running_broker(tmp_path, clean=False) as broker:
            (report,) = broker.damage
            assert (report.kind, report.place) == (DamageKind.RECORDS, "t-0")
            assert [record.value for record in await read_all(broker, "t")] == [b"0", b"2"]
            assert broker.metrics.total(names.DAMAGE_FOUND) == 1  # a reader meets it again

    asyncio.run(scenario())
