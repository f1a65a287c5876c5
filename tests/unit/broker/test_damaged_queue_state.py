"""One bad bit in the state of queue groups costs what the damaged batch said, and is reported."""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING

import msgspec

from goqueue.metrics import names
from goqueue.partitions.damage import DamageKind
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.settings import QueueSettings
from support.bad_bits import damaged_copies, flip, stored_batches
from support.brokers import publish, running_broker
from support.clocks import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from support.bad_bits import StoredBatch

ACK = Acknowledgement(Verdict.ACK)
SETTINGS = QueueSettings(visibility_ms=60_000, max_deliveries=9, start_at_latest=True)
PLACE = struct.Struct(">16sI")
OLD, ACKED, OPEN = 10, 60, 20
"""Messages from before the group, those that it has acknowledged, and those that it has not."""


async def fill(broker: Broker) -> None:
    await broker.create_topic("t", 1)
    publish(broker, "t", *(b"old" for _ in range(OLD)))
    member = await broker.queue_members.join("g", ["t"], SETTINGS)
    publish(broker, "t", *(b"%d" % number for number in range(ACKED + OPEN)))
    for _ in range(ACKED // 6):
        taken = await broker.deliverer.poll(member, limit=6, max_wait_ms=0)
        await broker.acknowledger.settle([each.receipt for each in taken], ACK)
    for _ in range(2):
        await broker.deliverer.poll(member, limit=6, max_wait_ms=0)


async def delivered(broker: Broker, clock: ManualClock) -> set[int]:
    """Every message that the group gets now."""
    clock.advance(120_000)
    for group in list(broker.queues):
        await broker.queues.shard_of(group).tick()
    member = await broker.queue_members.join("g", ["t"], SETTINGS)
    found: set[int] = set()
    while taken := await broker.deliverer.poll(member, limit=100, max_wait_ms=0):
        found |= {each.record.offset for each in taken}
    return found


def acknowledged_in(batch: StoredBatch) -> set[int]:
    """The messages of which the batch says that the group is done with them."""
    return {
        offset
        for record in batch.records
        if record.key[:1] == b"q"
        for operation in msgspec.msgpack.decode(record.value[1:], type=list[ops.Operation])
        if isinstance(operation, ops.Settled)
        for first, end in operation.ranges
        for offset in range(first, end)
    }


def test_a_damaged_batch_of_queue_state_brings_back_what_it_acknowledged_and_nothing_else(
    memory_path: Path,
) -> None:
    clock = ManualClock()
    folder = memory_path / "data"
    folder.mkdir()
    unread = set(range(OLD + ACKED, OLD + ACKED + OPEN))

    async def scenario() -> None:
        async with running_broker(folder, clock=clock, clean=False) as broker:
            await fill(broker)
        assert len(stored_batches(folder, "__queue_state")) > ACKED // 6
        for copy, batch in damaged_copies(folder, "__queue_state", memory_path):
            async with running_broker(copy, clock=clock, clean=False) as broker:
                reports = [report.kind for report in broker.damage]
                assert reports == [DamageKind.STATE]
                assert broker.metrics.total(names.DAMAGE_FOUND) == 1
                assert broker.queues.group("g").settings.max_deliveries == 9
                assert await delivered(broker, clock) == unread | acknowledged_in(batch)

    asyncio.run(scenario())


def test_a_group_whose_beginning_is_lost_skips_nothing_and_takes_settings_from_its_next_member(
    tmp_path: Path,
) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        async with running_broker(tmp_path, clock=clock, clean=False) as broker:
            await fill(broker)
        beginning = stored_batches(tmp_path, "__queue_state")[:4]
        for batch in beginning:  # settings and start, each stored twice
            batch.damage()
        async with running_broker(tmp_path, clock=clock, clean=False) as broker:
            group = broker.queues.group("g")
            assert group.settings == QueueSettings()
            unread = {*range(OLD), *range(OLD + ACKED, OLD + ACKED + OPEN)}
            assert await delivered(broker, clock) == unread
            assert group.settings.max_deliveries == 9
            assert {report.kind for report in broker.damage} == {DamageKind.STATE}

    asyncio.run(scenario())


def test_a_damaged_snapshot_is_reported_and_the_log_used(tmp_path: Path) -> None:
    clock = ManualClock()

    async def scenario() -> None:
        async with running_broker(tmp_path, clock=clock) as broker:
            await fill(broker)
        snapshots = list((tmp_path / "topics").rglob("snapshot-*.bin"))
        for path in snapshots:
            flip(path, 20)
        async with running_broker(tmp_path, clock=clock) as broker:
            reported = {report.place for report in broker.damage}
            assert reported == {str(path) for path in snapshots}
            assert broker.metrics.total(names.DAMAGE_FOUND) == len(snapshots)
            assert await delivered(broker, clock) == {*range(OLD + ACKED, OLD + ACKED + OPEN)}

    asyncio.run(scenario())
