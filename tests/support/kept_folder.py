"""A data folder with some of everything that coordinators store, made by one version for the next.

`python -m support.kept_folder FILE` makes the archive with the code that is on the path; the one in
`tests/data` was made by the commit that its name says. Time is the test's own, so that what is in
flight or delayed there is so whenever the test runs.
"""

from __future__ import annotations

import asyncio
import sys
import tarfile
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from goqueue.groups.messages import CommitRequest, OffsetToCommit
from goqueue.model.pipeline_reports import PipelineFields
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.publishing.new_messages import NewMessage
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.records.batch import TRANSACTIONAL
from goqueue.schemas.model import Schema, SchemaType
from goqueue.schemas.registry import Registry
from goqueue.transactions.messages import InitRequest
from support.brokers import publish, running_broker
from support.clocks import ManualClock

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.transactions.messages import Identity

STARTED_MS: Final = 1_750_000_000_000
KILLED_MS: Final = STARTED_MS + 60_000
HOUR_MS: Final = 3_600_000
VISIBILITY_MS: Final = 30_000
TIMEOUT_MS: Final = 900_000
QUEUE: Final = QueueSettings(visibility_ms=VISIBILITY_MS, max_deliveries=5)
ACK: Final = Acknowledgement(Verdict.ACK)
NACK: Final = Acknowledgement(Verdict.NACK, "not now", 10 * HOUR_MS)
REJECT: Final = Acknowledgement(Verdict.REJECT, "never")


def schema(number: int) -> Schema:
    return Schema(SchemaType.JSON, f'{{"title":"{number}"}}')


def commit_of(group: str, offset: int) -> CommitRequest:
    return CommitRequest(
        group_id=group, offsets=(OffsetToCommit(topic="jobs", partition=0, offset=offset),)
    )


async def _work(broker: Broker, verdicts: list[Acknowledgement | None]) -> None:
    """Take a message for each verdict; None leaves it in flight."""
    member = await broker.queue_members.join("workers", ["jobs"], QUEUE)
    taken = await broker.deliverer.poll(member, limit=len(verdicts), max_wait_ms=0)
    for delivery, verdict in zip(taken, verdicts, strict=True):
        if verdict is not None:
            assert await broker.acknowledger.settle([delivery.receipt], verdict) == [None]


async def _begin(broker: Broker, name: str) -> Identity:
    identity = await broker.transactions.init_producer(
        InitRequest(transactional_id=name, timeout_ms=TIMEOUT_MS)
    )
    await broker.transactions.begin(name, identity)
    place = TopicPartition("ledger", 0)
    await broker.transactions.add_partitions(name, identity, [place])
    producer_id, epoch = identity
    sequence: dict[str, Any] = {
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "base_sequence": 0,
    }
    publish(broker, "ledger", name.encode(), **sequence, attributes=TRANSACTIONAL)
    return identity


async def _delay(broker: Broker, value: bytes, delay_ms: int) -> int:
    at_ms = broker.clock.now_ms() + delay_ms
    (result,) = await broker.writer.publish(
        "reminders", [NewMessage(value, b"k", partition=0, deliver_at_ms=at_ms)]
    )
    assert result.delayed_id is not None
    return result.delayed_id


async def before_the_snapshots(broker: Broker) -> None:
    for name in ("jobs", "ledger", "reminders"):
        await broker.create_topic(name, 1)
    publish(broker, "jobs", *(b"job-%d" % number for number in range(20)))
    await broker.groups.commit(commit_of("readers", 3))
    await broker.groups.commit(commit_of("leavers", 1))
    await _work(broker, [ACK, ACK, NACK, REJECT, None])
    await broker.transactions.end("done", await _begin(broker, "done"), Marker.COMMIT)
    await _begin(broker, "open")
    await _delay(broker, b"soon", HOUR_MS)
    await broker.delays.cancel("reminders", 0, await _delay(broker, b"never", HOUR_MS))
    for number in (1, 2):
        await broker.schemas.change(partial(Registry.register, subject="s", schema=schema(number)))
    await broker.pipelines.put("nightly", PipelineFields(state="running"))


async def after_the_snapshots(broker: Broker) -> None:
    await broker.groups.commit(commit_of("readers", 7))
    await broker.groups.delete("leavers")
    await _work(broker, [ACK, None, ACK])
    await _begin(broker, "late")
    await _delay(broker, b"later", 2 * HOUR_MS)
    await broker.schemas.change(lambda registry: registry.register("s2", schema(3)))
    await broker.pipelines.put("hourly", PipelineFields(state="finished"))


async def make(folder: Path) -> None:
    """One broker that stops and keeps snapshots, and one that is killed."""
    clock = ManualClock(STARTED_MS)
    async with running_broker(folder, clock=clock, transactions_partitions=2) as broker:
        await before_the_snapshots(broker)
    clock.advance(KILLED_MS - STARTED_MS - VISIBILITY_MS // 2)
    async with running_broker(
        folder, clock=clock, transactions_partitions=2, clean=False
    ) as broker:
        for group in list(broker.queues):
            await broker.queues.shard_of(group).tick()  # what was in flight is available again
        await after_the_snapshots(broker)
    clock.advance(VISIBILITY_MS // 2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        asyncio.run(make(Path(made)))
        with tarfile.open(sys.argv[1], "w:xz", preset=9) as archive:
            archive.add(made, ".")
