"""A data folder that an earlier version has left, by a kill, opens as it is and goes on.

`support.kept_folder` says what is in it, and made it.
"""

from __future__ import annotations

import asyncio
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from goqueue.groups.encoding import CommittedOffset
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.transactions.messages import Identity
from support.brokers import read_all, running_broker
from support.clocks import ManualClock
from support.kept_folder import (
    ACK,
    HOUR_MS,
    KILLED_MS,
    QUEUE,
    VISIBILITY_MS,
    commit_of,
    schema,
)

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.queues.acquired_batch import Delivery

ARCHIVES: Final = sorted((Path(__file__).parents[1] / "data").glob("folder-*.tar.xz"))
IN_FLIGHT: Final = 5
WAITING: Final = 2
UNREAD: Final = range(7, 20)


def committed(broker: Broker, group: str) -> int:
    place = TopicPartition("jobs", 0)
    found = broker.groups.coordinator(group).fetch_offsets(group, [place])[place]
    assert isinstance(found, CommittedOffset)
    return found.offset


async def judge_groups(broker: Broker) -> None:
    assert committed(broker, "readers") == 7
    assert not broker.groups.coordinator("leavers").knows("leavers")
    await broker.groups.commit(commit_of("readers", 9))


async def poll(broker: Broker, clock: ManualClock, milliseconds: int) -> list[Delivery]:
    """What the group gets after a while."""
    clock.advance(milliseconds)
    for group in list(broker.queues):
        await broker.queues.shard_of(group).tick()
    member = await broker.queue_members.join("workers", ["jobs"], QUEUE)
    return await broker.deliverer.poll(member, limit=100, max_wait_ms=0)


async def judge_queues(broker: Broker, clock: ManualClock) -> None:
    """Four of twenty are acknowledged, one is dead, one is in flight, and one waits for hours."""
    unread = await poll(broker, clock, 0)
    assert {each.record.offset: each.delivery_count for each in unread} == dict.fromkeys(UNREAD, 1)
    assert await poll(broker, clock, VISIBILITY_MS // 2 - 1) == []
    (again,) = await poll(broker, clock, 1)
    assert (again.record.offset, again.delivery_count) == (IN_FLIGHT, 2)
    receipts = [each.receipt for each in (again, *unread)]
    assert await broker.acknowledger.settle(receipts, ACK) == [None] * len(receipts)
    (letter,) = await read_all(broker, "jobs.dlq")
    assert letter.value == b"job-3"


async def judge_transactions(broker: Broker) -> None:
    states = {each.transactional_id: each.state for each in broker.transactions.list()}
    assert states == {"done": "CompleteCommit", "open": "Ongoing", "late": "Ongoing"}
    partition = broker.partitions.partition(TopicPartition("ledger", 0))
    assert (partition.last_stable, partition.log_end) == (2, 4)
    for name, marker in (("open", Marker.ABORT), ("late", Marker.COMMIT)):
        view = broker.transactions.describe(name)
        identity = Identity(view.producer_id, view.epoch)
        await broker.transactions.end(name, identity, marker)
    assert partition.last_stable == partition.log_end == 6


async def judge_delays(broker: Broker, clock: ManualClock) -> None:
    waiting = [each.value for each in await broker.delays.list("reminders")]
    assert waiting == [b"soon", b"later"]
    assert broker.delays.stats().cancelled == 1
    clock.advance(HOUR_MS)
    await broker.delays.deliver_due()
    assert [each.value for each in await read_all(broker, "reminders")] == [b"soon"]


async def judge_registries(broker: Broker) -> None:
    registry = broker.schemas.registry
    assert [each.version.schema_id for each in registry.versions("s")] == [1, 2]
    assert [each.schema for each in registry.versions("s2")] == [schema(3)]
    again = await broker.schemas.change(lambda each: each.register("s3", schema(4)))
    assert again.id == 4
    reports = {each.name: each.state for each in broker.pipelines.all()}
    assert reports == {"hourly": "finished", "nightly": "running"}


async def judge_the_next_start(broker: Broker, clock: ManualClock) -> None:
    assert committed(broker, "readers") == 9
    assert [each.version.number for each in broker.schemas.registry.versions("s3")] == [1]
    states = {each.transactional_id: each.state for each in broker.transactions.list()}
    assert states == {"done": "CompleteCommit", "open": "CompleteAbort", "late": "CompleteCommit"}
    assert await poll(broker, clock, 0) == []
    clock.advance(HOUR_MS)
    await broker.delays.deliver_due()
    assert [each.value for each in await read_all(broker, "reminders")] == [b"soon", b"later"]
    (waited,) = await poll(broker, clock, 10 * HOUR_MS)
    assert (waited.record.offset, waited.delivery_count) == (WAITING, 2)
    assert broker.pipelines.get("hourly").state == "finished"


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("archive", ARCHIVES, ids=[path.name for path in ARCHIVES])
def test_the_folder_of_an_earlier_version_opens_and_goes_on(
    tmp_path: Path, archive: Path, clean: bool
) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    clock = ManualClock(KILLED_MS)

    async def scenario() -> None:
        async with running_broker(tmp_path, clock=clock, clean=clean) as broker:
            assert list(broker.damage) == []
            await judge_groups(broker)
            await judge_transactions(broker)
            await judge_queues(broker, clock)
            await judge_registries(broker)
            await judge_delays(broker, clock)
        async with running_broker(tmp_path, clock=clock) as broker:
            assert list(broker.damage) == []
            await judge_the_next_start(broker, clock)

    asyncio.run(scenario())


def test_there_is_a_folder_to_open() -> None:
    assert ARCHIVES
