"""Transactions through a whole broker, across kills, failing disks and restarts."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from goqueue.groups.messages import CommitRequest, OffsetToCommit
from goqueue.groups.shards import OFFSETS_TOPIC
from goqueue.model.errors import (
    ConcurrentTransactionsError,
    FencedProducerError,
    FencedTransactionError,
    GroupError,
    TransactionCoordinatorUnavailableError,
    UnknownProducerError,
    UnknownTransactionalIdError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.partitions.partition import Isolation
from goqueue.publishing.requests import PublishRequest
from goqueue.reading.stored_messages import MessageReader
from goqueue.records import TRANSACTIONAL, Record, encode, walk
from goqueue.transactions.messages import InitRequest
from goqueue.transactions.shards import TRANSACTIONS_TOPIC
from support.brokers import publish, running_broker
from support.clocks import ManualClock
from support.disks import FaultyDisk
from support.logs import disk_log

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
ENDS = ["kill", "stop", "snapshot"]


class Producer:
    """A producer of a broker in the same loop."""

    def __init__(self, broker, name="tx"):
        self.broker, self.name = broker, name
        self.sequences = {P0: itertools.count(), P1: itertools.count()}

    async def start(self, timeout_ms=60_000):
        request = InitRequest(transactional_id=self.name, timeout_ms=timeout_ms)
        self.identity = await self.broker.transactions.init_producer(request)
        return self

    async def add(self, *places):
        await self.broker.transactions.add_partitions(self.name, self.identity, places)

    def send(self, value, place=P0):
        batch = encode(
            [Record(0, 1, None, value)],
            attributes=TRANSACTIONAL,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=next(self.sequences[place]),
        )
        return self.broker.publisher.publish(PublishRequest(place, memoryview(batch)))

    async def write(self, value, *places):
        await self.add(*places)
        for place in places:
            published = self.send(value, place)
            if published.durable is not None:
                await published.durable

    async def end(self, marker=Marker.COMMIT):
        await self.broker.transactions.end(self.name, self.identity, marker)

    def to(self, broker):
        """The same producer, after the broker was started anew."""
        self.broker = broker
        return self

    @property
    def state(self):
        return self.broker.transactions.describe(self.name).state


async def _values(broker, place=P0, isolation=Isolation.READ_COMMITTED):
    reader = MessageReader(broker.fetcher, broker.damage, broker.opener)
    found = await reader.read(place, 0, limit=1000, isolation=isolation)
    return [message.record.value for message in found.messages]


def _markers(broker, place):
    log = disk_log(broker.partitions.partition(place))
    return sum(info.is_control for chunk in log.chunks(0) for _, info in walk(chunk.data))


async def _topic(broker, **settings):
    await broker.create_topic("t", 2, {k.replace("_", "."): v for k, v in settings.items()})


def _run(scenario):
    asyncio.run(scenario())


@pytest.mark.parametrize("is_member", [False, True])
def test_a_wait_for_messages_goes_on_over_aborted_ones_and_markers(tmp_path, is_member):
    async def read(broker):
        if not is_member:
            reader = MessageReader(broker.fetcher, broker.damage, broker.opener)
            return (await reader.read(P0, 0, limit=9, max_wait_ms=30_000)).messages
        member = await broker.memberships.join("g", ["t"], reset_to_earliest=True)
        while P0 not in member.assigned:
            await broker.memberships.heartbeat(member)
        polled = await broker.memberships.reader.read(member, limit=9, max_wait_ms=30_000)
        return polled.messages

    async def scenario():
        async with running_broker(tmp_path) as broker:
            await _topic(broker)
            waiting = asyncio.ensure_future(read(broker))
            await asyncio.sleep(0.1)
            producer = await Producer(broker).start()
            await producer.write(b"aborted", P0)
            await producer.end(Marker.ABORT)
            await asyncio.sleep(0.1)
            assert not waiting.done()
            publish(broker, "t", b"there")
            assert [each.record.value for each in await waiting] == [b"there"]

    _run(scenario)


@pytest.mark.parametrize("ending", ENDS)
def test_an_open_transaction_outlives_the_broker(tmp_path, ending):
    async def scenario():
        async with running_broker(tmp_path, clean=ending != "kill") as broker:
            await _topic(broker)
            publish(broker, "t", b"before")
            producer = await Producer(broker).start()
            await producer.write(b"open", P0, P1)
            if ending == "snapshot":
                for place in (P0, P1):
                    await broker.partitions.partition(place).checkpoint()
            publish(broker, "t", b"behind")
            view = broker.transactions.describe("tx")
        async with running_broker(tmp_path) as broker:
            producer.to(broker)
            assert broker.transactions.describe("tx") == view
            assert await _values(broker) == [b"before"]
            assert broker.partitions.partition(P0).last_stable == 1
            producer.send(b"more")
            await producer.end()
            assert await _values(broker) == [b"before", b"open", b"behind", b"more"]
            assert await _values(broker, P1) == [b"open"]

    _run(scenario)


@pytest.mark.parametrize("marker", list(Marker))
@pytest.mark.parametrize("written", [0, 1])
def test_a_prepared_transaction_is_completed_by_the_next_start(tmp_path, marker, written):
    """The disk refuses when so many markers are written; then the process is killed."""

    async def scenario():
        disk = FaultyDisk(tmp_path)
        async with running_broker(tmp_path, disk=disk, clean=False) as broker:
            await _topic(broker)
            producer = await Producer(broker).start()
            await producer.write(b"v", P0, P1)
            disk.fail_next("write", ending=".log", skip=1 + written, times=2)
            await producer.end(marker)
            assert producer.state.startswith("Prepare")
            with pytest.raises(ConcurrentTransactionsError):
                await producer.add(P0)
            with pytest.raises(ConcurrentTransactionsError):
                await producer.start()
        async with running_broker(tmp_path) as broker:
            producer.to(broker)
            assert producer.state.startswith("Complete")
            expected = [b"v"] if marker is Marker.COMMIT else []
            for place in (P0, P1):
                assert await _values(broker, place) == expected
                assert _markers(broker, place) == 1

    _run(scenario)


def test_a_partition_that_has_recovered_gets_its_marker_without_a_restart(tmp_path):
    async def scenario():
        disk = FaultyDisk(tmp_path)
        async with running_broker(tmp_path, disk=disk) as broker:
            await _topic(broker)
            producer = await Producer(broker).start()
            await producer.write(b"v", P0, P1)
            disk.fail_next("write", ending=".log", skip=1, times=1)
            await producer.end()
            assert producer.state == "PrepareCommit"
            assert (await _values(broker, P0), await _values(broker, P1)) == ([], [b"v"])
            await broker.partitions.partition(P0).recover()
            await broker.transactions.check()
            assert producer.state == "CompleteCommit"
            assert await _values(broker, P0) == [b"v"]
            assert [_markers(broker, place) for place in (P0, P1)] == [1, 1]

    _run(scenario)


def test_what_could_not_be_stored_has_not_happened(tmp_path):
    async def scenario():
        disk = FaultyDisk(tmp_path)
        async with running_broker(tmp_path, disk=disk) as broker:
            await _topic(broker)
            producer = await Producer(broker).start()
            await producer.write(b"v", P0)
            disk.fail_next("write", ending=".log", times=1)
            with pytest.raises(TransactionCoordinatorUnavailableError):
                await producer.end()
            with pytest.raises(TransactionCoordinatorUnavailableError):
                await producer.end()
            for partition in broker.partitions:
                await partition.recover()
            assert await _values(broker) == []
            await producer.end(Marker.ABORT)
            assert producer.state == "CompleteAbort"
            assert await _values(broker) == []

    _run(scenario)


def test_under_fsync_always_the_decision_is_on_the_disk_before_anyone_sees_it(tmp_path):
    async def scenario():
        async with running_broker(
            tmp_path, clean=False, topic_defaults={"goqueue.fsync": "always"}
        ) as broker:
            await _topic(broker)
            producer = await Producer(broker).start()
            await producer.write(b"a", P0, P1)
            await producer.end()
            await producer.write(b"b", P0)
            await producer.end(Marker.ABORT)
            for place in (P0, P1, *_state_places(broker)):
                log = disk_log(broker.partitions.partition(place))
                assert log.flushed_offset == log.end_offset
            assert await _values(broker) == [b"a"]
        async with running_broker(tmp_path, topic_defaults={"goqueue.fsync": "always"}) as broker:
            assert await _values(broker) == [b"a"]
            assert await _values(broker, isolation=Isolation.READ_UNCOMMITTED) == [b"a", b"b"]

    _run(scenario)


def _state_places(broker):
    topic = broker.topics.catalogue.topic(TRANSACTIONS_TOPIC)
    places = [TopicPartition(TRANSACTIONS_TOPIC, n) for n in range(topic.partition_count)]
    return [each for each in places if broker.partitions.partition(each).log_end]


def test_a_late_transaction_is_aborted_and_its_producer_writes_no_more(tmp_path):
    async def scenario():
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock) as broker:
            await _topic(broker)
            producer = await Producer(broker).start(timeout_ms=5000)
            await producer.write(b"late", P0)
            clock.advance(5000)
            await broker.transactions.check()
            assert producer.state == "CompleteAbort"
            with pytest.raises(FencedProducerError):
                producer.send(b"still")
            with pytest.raises(FencedTransactionError):
                await producer.end()
            assert broker.partitions.partition(P0).last_stable == 2
            assert await _values(broker) == []

    _run(scenario)


def _offsets(group, offset):
    item = OffsetToCommit(topic="t", partition=0, offset=offset, leader_epoch=-1, metadata="")
    return CommitRequest(
        group_id=group, member_id="", generation_or_epoch=-1, instance_id=None, offsets=(item,)
    )


@pytest.mark.parametrize("ending", ENDS)
def test_staged_offsets_outlive_the_broker(tmp_path, ending):
    async def scenario():
        async with running_broker(tmp_path, clean=ending != "kill") as broker:
            await _topic(broker)
            producer = await Producer(broker).start()
            await broker.transactions.add_offsets("tx", producer.identity, "g")
            await broker.transactions.stage_offsets("tx", producer.identity, _offsets("g", 5))
        async with running_broker(tmp_path) as broker:
            producer.to(broker)

            def committed():
                found = broker.groups.coordinator("g").fetch_offsets("g", [P0])[P0]
                assert not isinstance(found, GroupError)
                return found and found.offset

            assert committed() is None
            await producer.end()
            assert committed() == 5
            assert broker.transactions.describe("tx").partitions == ()

    _run(scenario)


def test_offsets_belong_to_the_partition_of_their_group(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            producer = await Producer(broker).start()
            await broker.transactions.add_offsets("tx", producer.identity, "g")
            assert broker.transactions.describe("tx").partitions == ((OFFSETS_TOPIC, 0),)
            with pytest.raises(UnknownProducerError):
                await broker.transactions.stage_offsets("ty", producer.identity, _offsets("g", 1))

    _run(scenario)


def test_a_topic_that_is_deleted_does_not_hold_up_its_transactions(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            await _topic(broker)
            producer = await Producer(broker).start()
            await producer.write(b"v", P0)
            await broker.delete_topic("t")
            await producer.end()
            assert producer.state == "CompleteCommit"
            await _topic(broker)
            assert await _values(broker) == []

    _run(scenario)


@pytest.mark.parametrize("knows", ["nothing", "a commit"])
def test_what_no_coordinator_knows_to_be_open_is_ended_by_a_start(tmp_path, knows, caplog):
    """As when a power cut takes the last moments of one log and not of another."""

    async def scenario():
        async with running_broker(tmp_path, clean=False) as broker:
            await _topic(broker)
            producer = await Producer(broker).start()
            if knows == "a commit":
                await producer.add(P1)
                await producer.end()
            batch = encode(
                [Record(0, 1, None, b"v")],
                attributes=TRANSACTIONAL,
                producer_id=producer.identity.producer_id + (knows == "nothing"),
                producer_epoch=0,
                base_sequence=0,
            )
            partition = broker.partitions.partition(P0)
            partition.append(batch, next(info for _, info in walk(batch)))
            assert partition.last_stable == 0
        async with running_broker(tmp_path) as broker:
            assert await _values(broker) == ([b"v"] if knows == "a commit" else [])
            assert broker.partitions.partition(P0).last_stable == 2
        assert "its coordinator does not know" in caplog.text

    _run(scenario)


def test_compaction_drops_what_was_aborted_and_keeps_what_it_would_have_replaced(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            await _topic(broker, cleanup_policy="compact", **{"internal.segment.bytes": "1024"})
            publish(broker, "t", b"kept", key=b"k")
            producer = await Producer(broker).start()
            await producer.add(P0)
            batch = encode(
                [Record(0, 1, b"k", b"aborted")],
                attributes=TRANSACTIONAL,
                producer_id=producer.identity.producer_id,
                producer_epoch=0,
                base_sequence=0,
            )
            broker.publisher.publish(PublishRequest(P0, memoryview(batch)))
            await producer.end(Marker.ABORT)
            publish(broker, "t", b"." * 1024, key=b"1")
            publish(broker, "t", b"." * 1024, key=b"2")
            await broker.maintenance().compact(P0)
            for isolation in Isolation:  # what one read gives is the first segment
                assert await _values(broker, isolation=isolation) == [b"kept"]

    _run(scenario)


def test_an_administrator_ends_what_hangs(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            await _topic(broker)
            with pytest.raises(UnknownTransactionalIdError):
                await broker.transactions.abort("tx")
            producer = await Producer(broker).start()
            await producer.write(b"v", P0)
            await broker.transactions.abort("tx")
            assert producer.state == "CompleteAbort"
            with pytest.raises(FencedTransactionError):
                await producer.end()

    _run(scenario)


def test_the_topic_of_transactions_is_made_for_the_first_of_them(tmp_path):
    async def scenario():
        async with running_broker(tmp_path) as broker:
            assert TRANSACTIONS_TOPIC not in broker.topics.catalogue.by_name
            assert broker.transactions.list() == []
            await asyncio.gather(*(Producer(broker, f"tx-{n}").start() for n in range(3)))
            assert len(broker.transactions.list()) == 3
            assert len({line.producer_id for line in broker.transactions.list()}) == 3

    _run(scenario)


def test_a_start_replays_what_came_after_the_last_snapshot(tmp_path):
    async def scenario():
        clock = ManualClock()
        async with running_broker(tmp_path, clock=clock, clean=False) as broker:
            await _topic(broker)
            producer = await Producer(broker).start()
            clock.advance(3_600_000)  # so much later that a snapshot is due
            await producer.write(b"a", P0)
            async with asyncio.timeout(60):
                while not broker.transactions.snapshot_bytes:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)
            await producer.end()
            await producer.write(b"b", P0)
            view = broker.transactions.describe("tx")
        async with running_broker(tmp_path, clock=clock) as broker:
            assert broker.transactions.describe("tx") == view
            assert broker.transactions.records_since_snapshot < 5
            await producer.to(broker).end()
            assert await _values(broker) == [b"a", b"b"]

    _run(scenario)
