"""A node that lives through all that there is to measure, in a second and by a clock of its own."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from goqueue.groups.consumer.protocol import PROTOCOL_TYPE
from goqueue.groups.messages import (
    CommitRequest,
    HeartbeatRequest,
    JoinRequest,
    OffsetToCommit,
    Protocol,
    SyncRequest,
)
from goqueue.metrics import names
from goqueue.model.delivery import Priority
from goqueue.model.errors import (
    GroupError,
    LogFailedError,
    MalformedBatchError,
    SchemaValidationError,
)
from goqueue.model.limits import MAX_METRIC_SERIES
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.publishing.new_messages import NewMessage
from goqueue.publishing.requests import PublishRequest
from goqueue.queues.dead_letters.redrive_engine import RedriveRequest
from goqueue.queues.delivery.decisions import Acknowledgement, Verdict
from goqueue.queues.delivery.settings import QueueSettings
from goqueue.reading.fetch import FetchRequest, PartitionRead
from goqueue.runtime.disk import SystemDisk, SystemFile, translate
from goqueue.schemas.model import Schema, SchemaType
from goqueue.server.config_load import load_config
from goqueue.server.node import Node
from goqueue.transactions.messages import InitRequest
from support.batches import garbage_batch
from support.brokers import publish, publish_checked
from support.logs import disk_log

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.broker.broker import Broker
    from support.clocks import ManualClock

FLAGS = (
    *("--kafka-port", "0", "--http-port", "0", "--grpc-port", "0"),
    *("--groups-offsets-partitions", "1", "--groups-initial-rebalance-delay", "0ms"),
)
SESSION_MS = 10_000


class RefusingFile(SystemFile):
    refuses = False

    def sync(self) -> None:
        if RefusingFile.refuses:
            raise translate(OSError(errno.EIO, "refused"), "syncing", self.path)
        super().sync()


class RefusingDisk(SystemDisk):
    """A disk whose syncs fail while the test says so."""

    def open(self, path: Path, *, create: bool = False, write: bool = True) -> RefusingFile:
        file = super().open(path, create=create, write=write)
        return RefusingFile(path, os.dup(file.fileno()))


def _node(folder: Path, clock: ManualClock, *flags: str) -> Node:
    config = load_config(["--data-dir", str(folder), *FLAGS, *flags], environment={})
    return Node(config, disk=RefusingDisk(), clock=clock)


async def _first_life(node: Node) -> None:
    """Leave a log behind whose index is gone."""
    await node.start()
    await node.broker.create_topic(
        "t", 1, {"internal.segment.bytes": "1024", "cleanup.policy": "compact"}
    )
    for _ in range(20):
        publish(node.broker, "t", b"." * 200, key=b"k")
    await node.stop()


async def _publish_and_fetch(broker: Broker) -> None:
    publish(broker, "t", b"x", key=b"k")
    with pytest.raises(MalformedBatchError):
        publish(broker, "t", b"x", attributes=0x20)
    partition = broker.partitions.partition(TopicPartition("t", 0))
    for offset in (partition.log_start, partition.log_end):
        read = PartitionRead(partition.id, offset, 1 << 20)
        await broker.fetcher.fetch(FetchRequest([read], max_wait_ms=0))
    partition.find_time(0)
    await broker.create_topic("trimmed", 1, {"internal.segment.bytes": "1024"})
    for _ in range(20):
        publish(broker, "trimmed", b"." * 200)
    await broker.delete_records(TopicPartition("trimmed", 0), None)
    await broker.create_topic("garbage", 1)
    place = TopicPartition("garbage", 0)
    broker.publisher.publish(PublishRequest(place, memoryview(garbage_batch(3))))
    await broker.reader.read(place, 0, limit=10)


async def _delay(broker: Broker, clock: ManualClock) -> None:
    """A delayed message that is delivered, and one that waits."""
    now_ms = clock.now_ms()
    due = [NewMessage(b"v", b"k", deliver_at_ms=now_ms + wait_ms) for wait_ms in (100, 10**9)]
    await broker.writer.publish("t", due)
    clock.advance(200)
    await broker.delays.deliver_due()
    assert broker.metrics.total(names.DELAYED_FIRED) == 1


async def _prioritise(broker: Broker) -> None:
    """Messages of several priorities in one batch, and one that waits first."""
    priorities = (Priority.HIGH, Priority.NORMAL, Priority.HIGH)
    await broker.writer.publish("t", [NewMessage(b"v", b"k", priority=p) for p in priorities])


def _overflow(broker: Broker) -> None:
    """More label sets than there is room for."""
    for number in range(MAX_METRIC_SERIES + 1):
        broker.metrics.counter(names.MESSAGES_FAILED, f"no-topic-{number}", "error")


async def _validate(broker: Broker) -> None:
    """A message that fits its schema, and one that does not."""
    await broker.create_topic("checked", 1, {"goqueue.schema.validation": "latest"})
    schema = Schema(SchemaType.JSON, '{"type":"integer"}')
    await broker.schemas.change(lambda registry: registry.register("checked-value", schema))
    await publish_checked(broker, "checked", b"1")
    with pytest.raises(SchemaValidationError):
        await publish_checked(broker, "checked", b'"one"')


async def _transact(broker: Broker) -> None:
    """A transaction that is committed, and one that is aborted."""
    transactions = broker.transactions
    request = InitRequest(transactional_id="tx", timeout_ms=60_000)
    identity = await transactions.init_producer(request)
    for marker in Marker:
        await transactions.begin("tx", identity)
        await transactions.end("tx", identity, marker)


async def _flush(node: Node, clock: ManualClock) -> None:
    """A compaction, a checkpoint with its snapshot, and a disk that refuses."""
    broker = node.broker
    await node.maintenance.compact(TopicPartition("t", 0))
    await broker.create_topic("failing", 1)
    publish(broker, "failing", b"x")
    partition = broker.partitions.partition(TopicPartition("failing", 0))
    await partition.checkpoint()
    publish(broker, "failing", b"y")
    RefusingFile.refuses = True
    try:
        with pytest.raises(LogFailedError):
            await disk_log(partition).flusher.flush()
        with pytest.raises(LogFailedError):
            publish(broker, "failing", b"z")
    finally:
        RefusingFile.refuses = False
    clock.advance(3_600_000)
    await node.maintenance.recover()
    assert partition.failure is None


def _join(group_id: str) -> JoinRequest:
    return JoinRequest(
        group_id=group_id,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        protocol_type=PROTOCOL_TYPE,
        protocols=(Protocol("range", b""),),
        require_known_member_id=False,
    )


def _tick(broker: Broker) -> None:
    """Let the groups see what time it is."""
    for shard in broker.groups._family.shards.values():
        shard._on_timer()


async def _classic_group(broker: Broker, clock: ManualClock) -> None:
    """A rebalance to its end, a member that sits the next one out, and one that falls silent."""
    groups = broker.groups
    joining = asyncio.ensure_future(groups.join(_join("g")))
    await asyncio.sleep(0)
    _tick(broker)
    joined = await joining
    place: dict[str, Any] = {
        "group_id": "g",
        "member_id": joined.member_id,
        "generation": joined.generation,
    }
    await groups.sync(SyncRequest(**place, assignments={joined.member_id: b""}))
    await groups.heartbeat(HeartbeatRequest(**place))
    commit = CommitRequest(
        group_id="g",
        member_id=joined.member_id,
        generation_or_epoch=joined.generation,
        offsets=(OffsetToCommit(topic="t", partition=0, offset=1),),
    )
    await groups.commit(commit)
    with pytest.raises(GroupError):
        await groups.commit(replace(commit, generation_or_epoch=joined.generation + 7))
    second = asyncio.ensure_future(groups.join(_join("g")))
    await asyncio.sleep(0)
    clock.advance(SESSION_MS - 1)
    await _shows_life(broker, place)
    clock.advance(2)
    _tick(broker)
    await second
    clock.advance(2 * SESSION_MS)
    _tick(broker)


async def _shows_life(broker: Broker, place: dict[str, object]) -> None:
    """A heartbeat that is told to join again, and still counts as a sign of life."""
    with pytest.raises(GroupError):
        await broker.groups.heartbeat(HeartbeatRequest(**place))  # type: ignore[arg-type]  # its own


async def _consumer_group(broker: Broker) -> None:
    """A member that takes a partition and leaves, and one that stays."""
    first = await broker.memberships.join("c", ["t"])
    await broker.memberships.heartbeat(first)
    await broker.memberships.join("c", ["t"])
    await broker.memberships.leave(first)


async def _queue_group(broker: Broker, clock: ManualClock) -> None:
    """Messages of every fate: acknowledged, handed back, dead and sent back, late, in flight."""
    await broker.create_topic("q", 1, {"message.ttl.ms": "60000"})
    publish(broker, "q", b"stale", timestamp_ms=clock.now_ms() - 120_000)
    publish(broker, "q", *(b"%d" % number for number in range(5)), timestamp_ms=clock.now_ms())
    member = await broker.queue_members.join("w", ["q"], QueueSettings())
    taken = await broker.deliverer.poll(member, limit=6, max_wait_ms=0, visibility_ms=1000)
    verdicts = (Verdict.ACK, Verdict.NACK, Verdict.REJECT)
    for each, verdict in zip(taken, verdicts, strict=False):
        assert await broker.acknowledger.settle([each.receipt], Acknowledgement(verdict, "x")) == [
            None
        ]
    clock.advance(1000)
    broker.queues.shard_of(broker.queues.group("w")).wake_at(0)
    timed_out = broker.measures.tallies.of("w")
    while not (await broker.letters.count("q") and timed_out.timeouts):  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.01)
    redrive = broker.redrives.begin(RedriveRequest("q"))
    assert redrive.task is not None
    await redrive.task


async def _backlogs(broker: Broker, clock: ManualClock) -> None:
    """Two looks at what groups have left, so that there are rates."""
    await broker.backlogs.look()
    clock.advance(5000)
    await broker.backlogs.look()


async def _moved_loop(node: Node) -> None:
    """Wait until the event loop was measured once."""
    lag = node.broker.metrics.histogram(names.LOOP_LAG)
    while not sum(lag.counts):  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.01)


def node_with_a_past(folder: Path, clock: ManualClock, *flags: str) -> Node:
    """A node, not yet started, over a folder in which an index is missing."""
    asyncio.run(_first_life(_node(folder, clock)))
    for index in folder.glob("topics/t/*/0/*index"):
        index.unlink()
    return _node(folder, clock, *flags)


async def live_through_everything(node: Node, clock: ManualClock) -> None:
    """Let everything happen once that a metric counts or measures; the node is started."""
    node.broker.health.watch_collections()
    await _publish_and_fetch(node.broker)
    await _delay(node.broker, clock)
    await _prioritise(node.broker)
    await _validate(node.broker)
    await _flush(node, clock)
    await _classic_group(node.broker, clock)
    clock.advance(24 * 3_600_000)
    offsets = (OffsetToCommit(topic="t", partition=0, offset=2),)
    # So much later that a snapshot is due.
    await node.broker.groups.commit(CommitRequest(group_id="g", offsets=offsets))
    await _consumer_group(node.broker)
    await _transact(node.broker)
    await _queue_group(node.broker, clock)
    await _backlogs(node.broker, clock)
    gc.collect(0)
    await _moved_loop(node)
    _overflow(node.broker)  # last: what is new afterwards has no series of its own
