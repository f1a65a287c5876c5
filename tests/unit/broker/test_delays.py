"""Delayed messages in a broker: taken in, delivered when due, cancelled, kept across restarts."""

from __future__ import annotations

import asyncio

import pytest

from goqueue.delays.entries import DelayedState
from goqueue.delays.shard import DELAYED_TOPIC, STATE_TOPIC
from goqueue.metrics import names
from goqueue.model.delivery import Priority
from goqueue.model.errors import (
    DelayDisabledError,
    DelayedNotPendingError,
    DelaysUnavailableError,
    DelayTooLongError,
    DeliveryHeaderError,
    DiskError,
    MalformedRecordError,
    PriorityError,
    TooManyDelayedError,
    UnknownDelayedError,
    UnknownTopicError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.messages import ProducerSequence
from goqueue.publishing.new_messages import NewMessage
from goqueue.publishing.requests import PublishRequest
from goqueue.reading.fetch import FetchRequest, PartitionRead
from goqueue.records import DELIVERY, Compression, Record, encode, peek
from support.brokers import publish, read_all, running_broker
from support.clocks import ManualClock
from support.disks import FaultyDisk
from support.logs import disk_log

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000


class Stage:
    """A folder in which brokers live one after the other, and the clock that they all see."""

    def __init__(self, folder):
        self.folder, self.clock = folder, ManualClock(START_MS)

    def broker(self, **options):
        return running_broker(self.folder, clock=self.clock, **options)

    async def publish(self, broker, *messages, topic="t", **rest):
        """Messages as (value, delay in ms)."""
        now_ms = self.clock.now_ms()
        new = [
            NewMessage(value, b"k", partition=0, deliver_at_ms=now_ms + delay_ms)
            for value, delay_ms in messages
        ]
        return await broker.writer.publish(topic, new, **rest)

    async def later(self, broker, milliseconds):
        """How many messages went since then; the broker may have begun by itself."""
        before = broker.metrics.total(names.DELAYED_FIRED)
        self.clock.advance(milliseconds)
        await broker.delays.deliver_due()
        return broker.metrics.total(names.DELAYED_FIRED) - before


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


def play(stage, scenario, **options):
    async def main():
        async with stage.broker(**options) as broker:
            await broker.create_topic("t", 1)
            await scenario(broker)
            broker.delays.shard().parts.book.check_invariants()

    asyncio.run(main())


async def values(broker, topic="t"):
    return [record.value for record in await read_all(broker, topic)]


# --- Delivery ------------------------------------------------------------------------------------


def test_a_message_is_not_there_before_it_is_due_and_is_there_then(stage):
    async def scenario(broker):
        (result,) = await stage.publish(broker, (b"v", 1000))
        assert (result.partition, result.offset, result.error) == (0, None, None)
        assert result.deliver_at_ms == START_MS + 1000
        assert result.delayed_id is not None
        assert await stage.later(broker, 999) == 0
        assert await values(broker) == []
        assert await stage.later(broker, 1) == 1
        (record,) = await read_all(broker, "t")
        assert record == Record(
            0,
            START_MS + 1000,
            b"k",
            b"v",
            (
                ("goqueue-deliver-at", b"%d" % (START_MS + 1000)),
                ("goqueue-published-at", b"%d" % START_MS),
            ),
        )

    play(stage, scenario)


def test_messages_come_in_the_order_in_which_they_fall_due(stage):
    async def scenario(broker):
        delays = [5000, 100, 2561, 2_000_000, 99, 12_000_000, 2560]
        await stage.publish(broker, *((b"%d" % delay, delay) for delay in delays))
        for _ in range(3):
            await stage.later(broker, 4_000_000)
        assert await values(broker) == [b"%d" % delay for delay in sorted(delays)]

    play(stage, scenario)


@pytest.mark.parametrize("delay_ms", [0, -1, -DAY_MS])
def test_a_time_that_has_passed_means_now(stage, delay_ms):
    async def scenario(broker):
        (result,) = await stage.publish(broker, (b"v", delay_ms))
        assert (result.offset, result.delayed_id, result.deliver_at_ms) == (0, None, None)
        assert await values(broker) == [b"v"]

    play(stage, scenario)


def test_what_is_due_now_and_what_is_due_later_may_come_together(stage):
    async def scenario(broker):
        results = await stage.publish(broker, (b"a", 0), (b"b", 50), (b"c", 0), (b"d", 60))
        assert [result.offset for result in results] == [0, None, 1, None]
        assert await values(broker) == [b"a", b"c"]
        await stage.later(broker, 100)
        assert [record.offset for record in await read_all(broker, "t")] == [0, 1, 2, 3]
        assert await values(broker) == [b"a", b"c", b"b", b"d"]

    play(stage, scenario)


def test_priority_and_life_travel_with_a_delayed_message(stage):
    async def scenario(broker):
        new = NewMessage(
            b"v",
            deliver_at_ms=START_MS + 10,
            priority=Priority.HIGH,
            ttl_ms=5,
            headers=(("a", b"b"),),
        )
        await broker.writer.publish("t", [new])
        (waiting,) = await broker.delays.list("t")
        assert waiting.priority is Priority.HIGH
        await stage.later(broker, 10)
        (record,) = await read_all(broker, "t")
        assert dict(record.headers) == {
            "a": b"b",
            "goqueue-priority": b"high",
            "goqueue-deliver-at": b"%d" % (START_MS + 10),
            "goqueue-ttl": b"5",
            "goqueue-published-at": b"%d" % START_MS,
        }
        partition = broker.partitions.partition(TopicPartition("t", 0))
        (chunk,) = partition.chunks(0)
        assert peek(chunk.data).attributes & DELIVERY

    play(stage, scenario)


def test_a_topic_stores_delayed_messages_as_it_stores_others(stage):
    async def scenario(broker):
        settings = {"compression.type": "zstd", "message.timestamp.type": "LogAppendTime"}
        await broker.create_topic("anew", 1, settings)
        await stage.publish(broker, (b"v" * 500, 10), topic="anew")
        await stage.later(broker, 25)
        (chunk,) = broker.partitions.partition(TopicPartition("anew", 0)).chunks(0)
        info = peek(chunk.data)
        assert (info.compression, info.is_log_append_time) == (Compression.ZSTD, True)
        assert info.max_timestamp == START_MS + 25

    play(stage, scenario)


def test_ten_thousand_at_once_come_all_and_in_order(stage):
    async def scenario(broker):
        for start in range(0, 10_000, 500):
            batch = ((b"%d" % number, 1000) for number in range(start, start + 500))
            await stage.publish(broker, *batch)
        assert await stage.later(broker, 1000) == 10_000
        assert await values(broker) == [b"%d" % number for number in range(10_000)]

    play(stage, scenario)


def test_the_timer_delivers_without_being_asked(stage):
    async def scenario(broker):
        await stage.publish(broker, (b"v", 30))
        stage.clock.advance(30)
        read = PartitionRead(TopicPartition("t", 0), 0, 1 << 20)
        (fetched,) = await broker.fetcher.fetch(FetchRequest([read], max_wait_ms=30_000))
        assert fetched.next_offset == 1

    play(stage, scenario)


def test_a_clock_that_is_set_back_makes_nothing_early(stage):
    async def scenario(broker):
        await stage.publish(broker, (b"a", 5000))
        await stage.later(broker, 4000)
        stage.clock.advance(-3_600_000)
        await stage.publish(broker, (b"b", 1000))
        assert await stage.later(broker, 999) == 0
        assert await stage.later(broker, 1) == 1
        assert await values(broker) == [b"b"]
        assert await stage.later(broker, 3_600_000) == 1

    play(stage, scenario)


# --- What is refused -----------------------------------------------------------------------------


def test_each_message_that_cannot_be_delayed_says_so_and_its_neighbours_are_taken(stage):
    async def scenario(broker):
        year_ms = 366 * DAY_MS
        good, long, negative = await broker.writer.publish(
            "t",
            [
                NewMessage(b"v", deliver_at_ms=START_MS + year_ms),
                NewMessage(b"v", deliver_at_ms=START_MS + year_ms + 1),
                NewMessage(b"v", ttl_ms=-1),
            ],
        )
        assert good.delayed_id is not None
        assert isinstance(long.error, DelayTooLongError)
        assert isinstance(negative.error, DeliveryHeaderError)

    play(stage, scenario)


def test_a_topic_may_take_no_delayed_messages_or_not_so_many(stage):
    async def scenario(broker):
        await broker.create_topic("none", 1, {"goqueue.delay.enable": "false"})
        await broker.create_topic("two", 1, {"goqueue.delay.max.pending": "2"})
        await broker.create_topic("short", 1, {"goqueue.delay.max.ms": "1000"})
        (result,) = await stage.publish(broker, (b"v", 10), topic="none")
        assert isinstance(result.error, DelayDisabledError)
        (result,) = await stage.publish(broker, (b"v", 1001), topic="short")
        assert isinstance(result.error, DelayTooLongError)
        await stage.publish(broker, (b"a", 10), (b"b", 10), topic="two")
        (result,) = await stage.publish(broker, (b"c", 10), topic="two")
        assert isinstance(result.error, TooManyDelayedError)
        await stage.later(broker, 10)
        (result,) = await stage.publish(broker, (b"c", 10), topic="two")
        assert result.error is None

    play(stage, scenario)


def test_a_compacted_topic_wants_a_key_also_on_what_is_due_later(stage):
    async def scenario(broker):
        await broker.create_topic("table", 1, {"cleanup.policy": "compact"})
        (result,) = await broker.writer.publish(
            "table", [NewMessage(b"v", deliver_at_ms=START_MS + 10)]
        )
        assert isinstance(result.error, MalformedRecordError)

    play(stage, scenario)


# --- Asking and cancelling -----------------------------------------------------------------------


def test_a_cancelled_message_never_comes(stage):
    async def scenario(broker):
        results = await stage.publish(broker, (b"a", 100), (b"b", 100), (b"c", 10 * DAY_MS))
        for result in results[1:]:
            cancelled = await broker.delays.cancel("t", 0, result.delayed_id)
            assert cancelled.state is DelayedState.CANCELLED
        with pytest.raises(DelayedNotPendingError, match="cancelled"):
            await broker.delays.cancel("t", None, results[1].delayed_id)
        await stage.later(broker, 20 * DAY_MS)
        assert await values(broker) == [b"a"]
        with pytest.raises(DelayedNotPendingError, match="delivered"):
            await broker.delays.cancel("t", None, results[0].delayed_id)

    play(stage, scenario)


def test_what_is_not_there_cannot_be_cancelled(stage):
    async def scenario(broker):
        await broker.create_topic("other", 2)
        (result,) = await stage.publish(broker, (b"a", 100))
        delayed_id = result.delayed_id
        for topic, partition, unknown in (
            ("t", 1, delayed_id),
            ("other", None, delayed_id),
            ("t", 0, delayed_id + 4),
            ("t", 0, 3),
            ("t", 0, -1),
        ):
            with pytest.raises(UnknownDelayedError):
                await broker.delays.cancel(topic, partition, unknown)
        with pytest.raises(UnknownTopicError):
            await broker.delays.cancel("absent", None, delayed_id)
        assert await stage.later(broker, 100) == 1

    play(stage, scenario)


def test_a_cancel_that_meets_the_delivery_either_wins_or_is_refused(stage):
    async def scenario(broker):
        results = await stage.publish(broker, *((b"%d" % n, 100) for n in range(200)))
        stage.clock.advance(100)

        async def cancel(result):
            try:
                await broker.delays.cancel("t", 0, result.delayed_id)
            except DelayedNotPendingError:
                return False
            return True

        delivering = asyncio.create_task(broker.delays.deliver_due())
        outcomes = await asyncio.gather(*(cancel(result) for result in results))
        await delivering
        await broker.delays.deliver_due()
        came = await values(broker)
        assert len(came) == len(set(came))
        assert set(came) == {b"%d" % n for n, won in enumerate(outcomes) if not won}

    play(stage, scenario)


def test_what_waits_is_listed_page_by_page_and_by_topic(stage):
    async def scenario(broker):
        await broker.create_topic("other", 1)
        for number in range(30):
            await stage.publish(broker, (b"%d" % number, 1000 + number * 1_000_000))
            await stage.publish(broker, (b"-", 1000), topic="other")
        everything = await broker.delays.list("t", limit=100)
        assert {each.value for each in everything} == {b"%d" % n for n in range(30)}
        assert {each.topic for each in everything} == {"t"}
        paged = [
            each for skip in range(0, 30, 7) for each in await broker.delays.list("t", 7, skip)
        ]
        assert paged == everything
        assert await broker.delays.list("t", 7, 30) == []
        assert await broker.delays.list("t", 0) == []
        with pytest.raises(UnknownTopicError):
            await broker.delays.list("absent")

    play(stage, scenario)


def test_a_message_can_be_looked_at_before_and_after(stage):
    async def scenario(broker):
        (result,) = await stage.publish(broker, (b"v", 100))
        found = await broker.delays.get("t", result.delayed_id)
        assert (found.delayed_id, found.partition) == (result.delayed_id, 0)
        assert (found.key, found.value, found.state) == (b"k", b"v", DelayedState.PENDING)
        assert (found.deliver_at_ms, found.published_at_ms) == (START_MS + 100, START_MS)
        await stage.later(broker, 100)
        again = await broker.delays.get("t", result.delayed_id)
        assert again == found._replace(state=DelayedState.DELIVERED)

    play(stage, scenario)


def test_statistics_count_everything(stage):
    async def scenario(broker):
        results = await stage.publish(broker, *((b"v", 100 * n) for n in range(1, 6)))
        await broker.delays.cancel("t", 0, results[4].delayed_id)
        await stage.later(broker, 200)
        stats = broker.delays.stats()
        assert (stats.scheduled, stats.delivered, stats.cancelled, stats.expired) == (5, 2, 1, 0)
        assert (stats.pending, dict(stats.pending_by_topic)) == (2, {"t": 2})
        assert stats.wheel.size == 2

    play(stage, scenario)


# --- Topics that go ------------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True])
def test_what_waits_for_a_deleted_topic_never_comes_to_another_of_its_name(stage, restarts):
    async def first(broker):
        await stage.publish(broker, (b"old", 1000), (b"old", DAY_MS))
        await broker.create_topic("other", 1)
        await stage.publish(broker, (b"kept", 1000), topic="other")
        await broker.delete_topic("t")
        await asyncio.gather(*broker.delays.shard()._aside)
        await broker.create_topic("t", 1)
        if not restarts:
            await second(broker)

    async def second(broker):
        await asyncio.gather(*broker.delays.shard()._aside)
        stats = broker.delays.stats()
        assert (stats.expired, dict(stats.pending_by_topic)) == (2, {"other": 1})
        await stage.later(broker, 2 * DAY_MS)
        assert await values(broker) == []
        assert await values(broker, "other") == [b"kept"]
        assert broker.delays.stats().pending == 0

    async def main():
        async with stage.broker(clean=not restarts) as broker:
            await broker.create_topic("t", 1)
            await first(broker)
        if restarts:
            async with stage.broker() as broker:
                await second(broker)

    asyncio.run(main())


# --- Restarts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_forgets_nothing_and_repeats_nothing(stage, clean):
    delays = [50, 1000, 500_000, 20_000_000, 8 * DAY_MS, 300 * DAY_MS]

    async def main():
        async with stage.broker(clean=clean) as broker:
            await broker.create_topic("t", 1)
            results = await stage.publish(broker, *((b"%d" % delay, delay) for delay in delays))
            (cancelled,) = await stage.publish(broker, (b"cancelled", 2000))
            await broker.delays.cancel("t", 0, cancelled.delayed_id)
            assert await stage.later(broker, 50) == 1
        for place in range(1, len(delays)):
            async with stage.broker(clean=clean) as broker:
                stats = broker.delays.stats()
                assert (stats.pending, stats.cancelled) == (len(delays) - place, 1)
                waiting = await broker.delays.list("t")
                assert [each.value for each in waiting] == [b"%d" % ms for ms in delays[place:]]
                found = await broker.delays.get("t", results[place].delayed_id)
                assert found.state is DelayedState.PENDING
                elapsed_ms = stage.clock.now_ms() - START_MS
                assert await stage.later(broker, delays[place] - elapsed_ms - 1) == 0
                assert await stage.later(broker, 1) == 1
                assert await values(broker) == [b"%d" % ms for ms in delays[: place + 1]]
                broker.delays.shard().parts.book.check_invariants()

    asyncio.run(main())


def test_what_fell_due_while_nobody_was_there_comes_at_once(stage):
    async def main():
        async with stage.broker(clean=False) as broker:
            await broker.create_topic("t", 1)
            await stage.publish(broker, (b"a", 100), (b"b", 10 * DAY_MS))
        stage.clock.advance(20 * DAY_MS)
        async with stage.broker() as broker:
            assert await stage.later(broker, 10) == 2
            assert await values(broker) == [b"a", b"b"]

    asyncio.run(main())


def test_snapshots_and_slots_carry_what_the_logs_need_not(stage):
    """Saved between all steps: what is due later is then known from slots alone."""

    async def main():
        async with stage.broker(clean=False) as broker:
            await broker.create_topic("t", 1)
            for number in range(6):
                await stage.publish(broker, (b"%d" % number, 1000 + number * 20_000_000))
                await broker.delays.deliver_due()
                await broker.delays.shard().parts.keeper.save()
            assert len(broker.delays.shard().parts.index.unsaved) == 0
        for number in range(6):
            async with stage.broker(clean=False) as broker:
                parts = broker.delays.shard().parts
                assert len(parts.index.unsaved) == 0
                due_ms = START_MS + 1000 + number * 20_000_000
                assert await stage.later(broker, due_ms - stage.clock.now_ms() - 1) == 0
                assert await stage.later(broker, 1) == 1
                await parts.keeper.save()
        async with stage.broker() as broker:
            assert await values(broker) == [b"%d" % number for number in range(6)]
            stage.clock.advance(20_000_000)
            await broker.delays.shard().parts.keeper.save()
        assert list((stage.folder / "delay-slots").iterdir()) == []

    asyncio.run(main())


def test_the_logs_of_what_has_gone_are_trimmed(stage):
    async def scenario(broker):
        parts = broker.delays.shard().parts
        partition = broker.partitions.partition(TopicPartition(DELAYED_TOPIC, 0))
        disk_log(partition).configure(disk_log(partition).config.__class__(segment_bytes=20_000))
        await broker.delays.deliver_due()
        for _ in range(30):
            await stage.publish(broker, *((b"." * 500, 10) for _ in range(20)))
            await stage.later(broker, 10)
            await stage.later(broker, 10)
        for _ in range(4):
            await disk_log(partition).flusher.flush()
            await disk_log(broker.partitions.partition(TopicPartition("t", 0))).flusher.flush()
            await broker.delays.deliver_due()
            await parts.keeper.save()
        assert partition.log_start > 300
        (result,) = await stage.publish(broker, (b"v", 10))
        assert await stage.later(broker, 10) == 1
        with pytest.raises(UnknownDelayedError):
            await broker.delays.get("t", 0)
        assert (await broker.delays.get("t", result.delayed_id)).value == b"v"

    play(stage, scenario)


# --- Producers -----------------------------------------------------------------------------------


def test_an_idempotent_producer_may_delay_and_goes_on_counting(stage):
    async def scenario(broker):
        def sequence(first):
            return ProducerSequence(7, 0, first)

        results = await stage.publish(broker, (b"a", 0), (b"b", 100), producer=sequence(0))
        assert [result.offset for result in results] == [0, None]
        again = await stage.publish(broker, (b"a", 0), (b"b", 100), producer=sequence(0))
        assert [result.offset for result in again] == [0, None]
        assert [result.deliver_at_ms for result in again] == [None, START_MS + 100]
        (alone,) = await stage.publish(broker, (b"c", 200), producer=sequence(2))
        assert alone.delayed_id is not None
        (after,) = await stage.publish(broker, (b"d", 0), producer=sequence(3))
        assert after.offset == 3
        assert broker.delays.stats().pending == 2
        await stage.later(broker, 200)
        assert await values(broker) == [b"a", b"d", b"b", b"c"]

    play(stage, scenario)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_batch_of_which_only_the_delayed_part_was_stored_delays_nothing_twice(stage, restarts):
    async def main():
        disk = FaultyDisk(stage.folder / "topics")
        producer = ProducerSequence(7, 0, 0)
        async with stage.broker(disk=disk, clean=False) as broker:
            await broker.create_topic("t", 1)
            partition = broker.partitions.partition(TopicPartition("t", 0))
            disk_log(partition)._fail(DiskError("no"))
            first = await stage.publish(broker, (b"a", 0), (b"b", 100), producer=producer)
            assert all(result.error is not None for result in first)
            assert broker.delays.stats().pending == 1
            if not restarts:
                await partition.recover()
                await again(broker, producer)
        if restarts:
            async with stage.broker(disk=disk) as broker:
                await again(broker, producer)

    async def again(broker, producer):
        results = await stage.publish(broker, (b"a", 0), (b"b", 100), producer=producer)
        assert [result.error for result in results] == [None, None]
        assert broker.delays.stats().pending == 1
        assert await stage.later(broker, 200) == 1
        assert await values(broker) == [b"a", b"b"]

    asyncio.run(main())


# --- Kafka headers -------------------------------------------------------------------------------


def _kafka(*records, **fields):
    rows = [
        Record(number, START_MS, b"k", value, headers)
        for number, (value, headers) in enumerate(records)
    ]
    return memoryview(encode(rows, **fields))


def _due(delay_ms):
    return (("goqueue-deliver-at", b"%d" % (START_MS + delay_ms)),)


@pytest.mark.parametrize("codec", list(Compression))
def test_headers_of_kafka_producers_count_where_the_topic_says_so(stage, codec):
    async def scenario(broker):
        await broker.create_topic("open", 1, {"goqueue.kafka.headers": "true"})
        for topic in ("t", "open"):
            batch = _kafka((b"a", ()), (b"b", _due(100)), (b"c", _due(-5)), compression=codec)
            place = TopicPartition(topic, 0)
            published = broker.publisher.publish(PublishRequest(place, batch))
            assert published.placed == (0, 3, False)
        assert await values(broker) == [b"a", b"b", b"c"]
        assert await values(broker, "open") == [b"a", b"c"]
        assert publish(broker, "open", b"d").placed.first_offset == 3
        assert await stage.later(broker, 100) == 1
        records = await read_all(broker, "open")
        assert [(each.offset, each.value) for each in records] == [
            *((0, b"a"), (2, b"c"), (3, b"d"), (4, b"b"))
        ]

    play(stage, scenario)


def test_a_batch_of_nothing_but_delayed_records_leaves_its_place_empty(stage):
    async def scenario(broker):
        await broker.create_topic("open", 1, {"goqueue.kafka.headers": "true"})
        place = TopicPartition("open", 0)
        batch = _kafka((b"a", _due(100)), (b"b", _due(100)))
        assert broker.publisher.publish(PublishRequest(place, batch)).placed == (0, 2, False)
        assert await values(broker, "open") == []
        publish(broker, "open", b"c")
        assert [each.offset for each in await read_all(broker, "open")] == [2]

    play(stage, scenario)


@pytest.mark.parametrize(
    ("header", "error"),
    [
        (("goqueue-priority", b"urgent"), PriorityError),
        (("goqueue-priority", None), PriorityError),
        (("goqueue-deliver-at", b"tomorrow"), DeliveryHeaderError),
        (("goqueue-deliver-at", b"-5"), DeliveryHeaderError),
        (("goqueue-deliver-at", None), DeliveryHeaderError),
        (("goqueue-deliver-at", b"9" * 14), DelayTooLongError),
        (("goqueue-ttl", b"1.5"), DeliveryHeaderError),
    ],
)
def test_a_header_that_makes_no_sense_is_refused_with_its_record(stage, header, error):
    async def scenario(broker):
        await broker.create_topic("open", 1, {"goqueue.kafka.headers": "true"})
        batch = _kafka((b"a", ()), (b"b", (header,)))
        with pytest.raises(error, match="record 1"):
            broker.publisher.publish(PublishRequest(TopicPartition("open", 0), batch))
        assert await values(broker, "open") == []
        (result,) = await broker.writer.publish("t", [NewMessage(b"v", headers=(header,))])
        assert isinstance(result.error, error)

    play(stage, scenario)


def test_the_delivery_bit_of_a_producer_has_its_batch_opened_and_says_nothing_by_itself(stage):
    async def scenario(broker):
        place = TopicPartition("t", 0)
        batch = _kafka((b"a", ()), attributes=DELIVERY)
        broker.publisher.publish(PublishRequest(place, batch))
        assert await values(broker, "t") == [b"a"]
        wrong = _kafka((b"b", (("goqueue-priority", b"urgent"),)), attributes=DELIVERY)
        with pytest.raises(PriorityError, match="record 0"):
            broker.publisher.publish(PublishRequest(place, wrong))

    play(stage, scenario)


# --- Durability ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["always", "interval"])
def test_a_delayed_message_is_acknowledged_when_it_is_as_safe_as_its_topic_promises(stage, policy):
    async def main():
        disk = FaultyDisk(stage.folder / "topics")
        async with stage.broker(disk=disk, clean=False) as broker:
            await broker.create_topic("t", 1, {"goqueue.fsync": policy})
            await stage.publish(broker, (b"v", 100))
            log = disk_log(broker.partitions.partition(TopicPartition(DELAYED_TOPIC, 0)))
            assert (log.flushed_offset == 1) == (policy == "always")

    asyncio.run(main())


def test_a_log_of_changes_that_refuses_makes_messages_late_and_loses_none(stage):
    async def main():
        disk = FaultyDisk(stage.folder / "topics")
        async with stage.broker(disk=disk) as broker:
            await broker.create_topic("t", 1)
            await stage.publish(broker, (b"a", 100), (b"b", 2000))
            await broker.delays.deliver_due()
            state = broker.partitions.partition(TopicPartition(STATE_TOPIC, 0))
            disk_log(state)._fail(DiskError("no"))
            assert await stage.later(broker, 100) == 0
            with pytest.raises(DelaysUnavailableError):
                await broker.delays.cancel("t", 0, 4)
            (refused,) = await stage.publish(broker, (b"c", 100))
            assert isinstance(refused.error, DelaysUnavailableError)
            await state.recover()
            assert await stage.later(broker, 1000) == 1
            assert await stage.later(broker, 1000) == 1
            assert await values(broker) == [b"a", b"b"]

    asyncio.run(main())


def test_a_partition_that_refuses_gets_its_messages_when_it_is_back(stage):
    async def main():
        disk = FaultyDisk(stage.folder / "topics")
        async with stage.broker(disk=disk) as broker:
            await broker.create_topic("t", 1)
            await stage.publish(broker, (b"a", 100))
            await broker.delays.deliver_due()
            disk.fail_next("write", ending=".log", skip=1)  # the intention goes through
            assert await stage.later(broker, 100) == 0
            partition = broker.partitions.partition(TopicPartition("t", 0))
            assert partition.failure is not None
            await broker.delays.deliver_due()
            await partition.recover()
            assert await stage.later(broker, 1000) == 1
            assert await values(broker) == [b"a"]

    asyncio.run(main())
