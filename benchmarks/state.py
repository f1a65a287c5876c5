"""How long the event loop is held by what coordinators do beside requests: it should be 50 ms."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, cast

from benchmarks._turns import expect
from benchmarks.harness import Run, benchmark
from goqueue.broker.broker import Broker
from goqueue.cluster.sqlite_store import SqliteMetadataStore
from goqueue.configs.broker_settings import BrokerSettings
from goqueue.groups.messages import CommitRequest, OffsetToCommit
from goqueue.model.dead_letters import Reason
from goqueue.model.errors import DiskError
from goqueue.model.topic_partition import TopicPartition
from goqueue.queues.delivery import operations as ops
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.records import Record, encode
from goqueue.records.batch import peek
from goqueue.runtime.clock import SystemClock
from goqueue.runtime.disk import SystemDisk
from goqueue.runtime.pauses import GcWatch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable
    from pathlib import Path

    from goqueue.storage.disk_log import DiskLog

LEASES: Final = 400_000
DEAD: Final = 1_000_000
GROUPS: Final = 500
OFFSETS: Final = 200
RECORDS: Final = 200_000
_NORMAL: Final = 2
_MS: Final = 1000


@asynccontextmanager
async def _broker(folder: Path) -> AsyncIterator[Broker]:
    clock = SystemClock()
    store = await SqliteMetadataStore.open(folder / "metadata.db", disk=SystemDisk(), clock=clock)
    broker = Broker(BrokerSettings(folder, offsets_partitions=1), store, clock=clock)
    await broker.start()
    yield broker
    await broker.stop()
    await store.close()


async def _slowest_turn_ms(work: Awaitable[object]) -> float:
    """The longest time between two turns of the loop while something is done."""
    slowest_s, last_s = 0.0, time.perf_counter()
    working = asyncio.ensure_future(work)
    while not working.done():
        await asyncio.sleep(0)
        now_s = time.perf_counter()
        slowest_s, last_s = max(slowest_s, now_s - last_s), now_s
    await working
    return slowest_s * _MS


async def _queue_of(broker: Broker, name: str, count: int) -> tuple[str, int]:
    """A queue group that reads a topic from its start, as if it had so many messages."""
    await broker.create_topic(name, 1)
    group = await broker.queues.open(name, QueueSettings(was_joined=True, max_unacked=count))
    await broker.queues.open_queues(group, [TopicPartition(name, 0)])
    return name, count


def _report(run: Run, what: str, slowest_ms: float) -> None:
    run.row(f"slowest turn of the event loop while {what}", slowest_ms, "ms")


@benchmark("turns", "The slowest turn of the event loop while coordinators do what they must")
def turns(run: Run) -> None:
    asyncio.run(_turns(run))


async def _turns(run: Run) -> None:
    collections_s: list[float] = []
    watch = GcWatch(lambda _, took_s: collections_s.append(took_s))
    watch.start()
    async with _broker(run.scratch) as broker:
        _report(run, "nothing happens", await _slowest_turn_ms(asyncio.sleep(1)))
        await _expiry(run, broker)
        await _dead(run, broker)
        await _groups(run, broker)
        await _partitions(run, broker)
    watch.stop()
    longest_ms = max(collections_s, default=0.0) * _MS
    run.note(f"the longest collection of garbage, which may be part of a turn: {longest_ms:.0f} ms")


async def _expiry(run: Run, broker: Broker) -> None:
    await _queue_of(broker, "leased", LEASES)
    group = broker.queues.group("leased")
    (queue,) = group.queues.values()
    for offset in range(LEASES):
        queue.apply(queue.taken([(_NORMAL, offset, offset + 1)], "m", 0, 1, b"seed"))
    shard = broker.queues.shard_of(group)
    _report(run, f"{LEASES:,} leases expire together", await _slowest_turn_ms(shard.tick()))
    expect(not queue.window.leases, "every lease has expired")
    await broker.queues.delete("leased")


async def _dead(run: Run, broker: Broker) -> None:
    await _queue_of(broker, "dead", DEAD)
    group = broker.queues.group("dead")
    (queue,) = group.queues.values()
    queue.apply(ops.Doomed([(0, DEAD)], Reason.REJECTED, 0, "never"))
    state = broker.queues.shard_of(group).state
    saving = state.log.save_snapshot(broker.queues.shard_of(group).dump(), broker.executor)
    _report(run, f"a snapshot of {DEAD:,} dead messages is made", await _slowest_turn_ms(saving))
    await broker.queues.delete("dead")


async def _groups(run: Run, broker: Broker) -> None:
    for number in range(GROUPS):
        offsets = tuple(
            OffsetToCommit(topic="t", partition=each, offset=1) for each in range(OFFSETS)
        )
        await broker.groups.commit(CommitRequest(group_id=f"g-{number}", offsets=offsets))
    shard = broker.groups._shard_of("g-0")  # noqa: SLF001 - there is one
    slowest_ms = await _slowest_turn_ms(shard.state.save())
    _report(run, f"a snapshot of {GROUPS * OFFSETS:,} committed offsets is made", slowest_ms)


async def _partitions(run: Run, broker: Broker) -> None:
    await broker.create_topic("fresh", 1)
    partition = broker.partitions.partition(TopicPartition("fresh", 0))
    batch = encode([Record(number, 0, None, b"x" * 100, ()) for number in range(1000)])

    async def append() -> None:
        partition.append(batch, peek(batch))

    _report(run, "a partition has its first append", await _slowest_turn_ms(append()))
    for _ in range(RECORDS // 1000):
        partition.append(batch, peek(batch))
        await asyncio.sleep(0)
    log = cast("DiskLog", partition._log)  # noqa: SLF001
    log.flush_failed(DiskError("as if the disk had refused"))
    _report(run, "a failed log recovers", await _slowest_turn_ms(partition.recover()))
    expect(partition.failure is None, "the log has recovered")
