"""Snapshots of queue groups are in the log: made beside other work, and enough to begin with."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.model.dead_letters import Reason
from goqueue.model.errors import GroupNotFoundError
from goqueue.model.topic_partition import TopicPartition
from goqueue.queues import entries as queue_entries
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.queues.shard import QueueShard
from goqueue.queues.shards import QUEUE_TOPIC
from goqueue.state import change_log
from goqueue.storage.snapshot_kinds import SnapshotKind
from support.brokers import publish, running_broker

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from goqueue.partitions.partition import Partition
    from goqueue.queues.delivery.queue import PartitionQueue

TOPICS = ("a", "b", "c")
MESSAGES = 600
SETTINGS = QueueSettings(was_joined=True, max_unacked=10_000, max_deliveries=3)


def partition_of(broker: Broker) -> Partition:
    number = broker.queues._family.number_of("g")
    return broker.partitions.partition(TopicPartition(QUEUE_TOPIC, number))


def known(queue: PartitionQueue) -> dict[str, Any]:
    """Everything that a queue knows, however it came to know it."""
    dumped = queue.dump()
    window = dumped["window"]
    cursors, back = dumped["line"]
    offered = {
        (lane, at)
        for lane, ranges in enumerate(back)
        for first, end in ranges
        for at in range(first, end)
        if queue.window.state(at).name == "AVAILABLE"
    }
    return {
        "start": window["start"],
        "leases": sorted((n, m, at, d) for n, m, at, d, _ in window["leases"]),
        "pages": sorted(window["pages"]),
        "line": (cursors, offered),
        **{name: sorted(dumped[name]) for name in ("due", "errors", "dooms")},
    }


def all_known(shard: QueueShard) -> dict[str, Any]:
    for group in shard.groups.values():
        for queue in group.queues.values():
            queue.check_invariants()
    return {
        name: (group.settings, {key: known(queue) for key, queue in group.queues.items()})
        for name, group in shard.groups.items()
    }


async def rebuilt(broker: Broker) -> dict[str, Any]:
    """What another leader builds from the log."""
    number = broker.queues._family.number_of("g")
    log = broker.state_logs.change_log(QUEUE_TOPIC, number, SnapshotKind.QUEUES)
    lost: list[str] = []
    shard = QueueShard(
        log,
        broker.executor,
        on_lost=lost.append,
        on_change=lambda _: None,
        on_timeout=lambda *_: None,
        on_gone=lambda *_: None,
        on_loaded=lambda _: None,
        on_left=lambda *_: None,
    )
    await shard.state.open(log.partition.leader_epoch)
    assert lost == []
    assert log.lost_count == 0
    await shard.state.close()
    return all_known(shard)


async def something_happens(broker: Broker, rng: random.Random, names: list[str]) -> None:
    """One change of any kind, in any of the groups that one partition keeps."""
    shard = await broker.queues._shard("g")
    name = rng.choice([each for each in names if each in shard.groups] or ["g"])
    step = rng.random()
    if step < 0.1:
        await broker.queues.open(rng.choice(names), SETTINGS)
        return
    try:
        group = broker.queues.group(name)
    except GroupNotFoundError:
        return
    if step < 0.13:
        await broker.queues.delete(name)
        return
    topic = TopicPartition(rng.choice(TOPICS), 0)
    key = broker.queues.key(topic)
    if key not in group.queues or step < 0.15:
        await shard.store(group, {key: [ops.Opened(0)]})
        return
    queue, first = group.queues[key], rng.randrange(MESSAGES)
    part = (first, min(first + rng.randrange(1, 200), MESSAGES))
    available = list(queue.available(2, *part))
    done: ops.Operation
    if step < 0.5 and available:
        chosen = [(2, *each) for each in available]
        done = queue.taken(chosen, "m", broker.queues.now_ms(), 60_000, rng.randbytes(8))
    elif step < 0.7:
        done = ops.Settled([part])
    elif step < 0.85:
        done = ops.Doomed([part], Reason.REJECTED, 1, "never")
    else:
        done = ops.Postponed([(at, 99_999_999) for at in range(*part)], "not now")
    await shard.store(group, {key: [done]})


@pytest.mark.parametrize("seed", range(12))
def test_a_snapshot_in_the_log_is_enough_whatever_happens_while_it_is_made(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "_SLICE_BYTES", 1)
    monkeypatch.setattr(queue_entries, "_AT_ONCE", 7)
    rng = random.Random(seed)

    async def scenario() -> None:
        async with running_broker(tmp_path, clean=False) as broker:
            for topic in TOPICS:
                await broker.create_topic(topic, 1)
                publish(broker, topic, *(b"x" for _ in range(MESSAGES)))
            number_of = broker.queues._family.number_of
            together = [n for n in map(str, range(200)) if number_of(n) == number_of("g")]
            names = ["g", *together[:3]]
            await broker.queues.open("g", SETTINGS)
            shard = await broker.queues._shard("g")
            for _ in range(4):
                for _ in range(rng.randrange(40)):
                    await something_happens(broker, rng, names)
                saving = asyncio.create_task(
                    shard.state.log.save_snapshot(shard.dump(), broker.executor)
                )
                while not saving.done():
                    await something_happens(broker, rng, names)
                    await asyncio.sleep(0)
                await something_happens(broker, rng, names)
                assert await rebuilt(broker) == all_known(shard)
            partition = partition_of(broker)
            hints = sorted(partition.folder.glob("snapshot-7-*"))
            assert len(hints) == 3
            await partition.delete_before(int(hints[0].name.split("-")[2]) + 1)
            assert partition.log_start > 0
            assert await rebuilt(broker) == all_known(shard)
            for path in hints:
                path.unlink()  # as on a node that has the log alone
            assert await rebuilt(broker) == all_known(shard)

    asyncio.run(scenario())


def test_a_large_snapshot_is_made_and_read_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "_SLICE_BYTES", 16 * 1024)

    async def scenario() -> None:
        async with running_broker(tmp_path, clean=False) as broker:
            await broker.create_topic("a", 1)
            group = await broker.queues.open("g", SETTINGS)
            await broker.queues.open_queues(group, [TopicPartition("a", 0)])
            shard, (key,) = broker.queues.shard_of(group), group.queues
            await shard.store(group, {key: [ops.Doomed([(0, 50_000)], Reason.REJECTED, 1, "no")]})
            turns = 0
            saving = asyncio.ensure_future(
                shard.state.log.save_snapshot(shard.dump(), broker.executor)
            )
            while not saving.done():
                await asyncio.sleep(0)
                turns += 1
            assert turns > 50
            assert await rebuilt(broker) == all_known(shard)

    asyncio.run(scenario())
