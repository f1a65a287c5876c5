"""Whose clock a record carries, and finding records by it."""

from __future__ import annotations

import asyncio
import time

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import TopicPartition

from goqueue.records import LOG_APPEND_TIME
from goqueue.wire.kafka.api_keys import ApiKey
from protocol.kafka_clients import (
    CLIENTS,
    CONFLUENT,
    KCAT,
    LIBRARIES,
    WAIT_S,
    Message,
    confluent_consumer,
    kcat_run,
    python_consumer,
)
from protocol.raw_kafka import make_batch

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
OLD_MS = 1_500_000_000_000
TIMES = (100, 300, 200, 300, 150)
"""Out of order on purpose, the highest twice."""


@pytest.fixture(scope="module")
def timed(broker, name):
    """Five records at `OLD_MS + TIMES`, one batch each."""
    topic = name("timed")
    for number, offset_ms in enumerate(TIMES):
        sent = [Message(b"%d" % number, timestamp_ms=OLD_MS + offset_ms)]
        CONFLUENT.produce(broker.kafka_address, topic, sent, linger_ms=0)
    return topic


@pytest.mark.parametrize("client", LIBRARIES, ids=str)
def test_create_time_is_the_producers(broker, name, client):
    topic = name("create-time")
    sent = [Message(b"v", b"k", timestamp_ms=OLD_MS + n) for n in range(3)]
    client.produce(broker.kafka_address, topic, sent)
    found = client.consume(broker.kafka_address, topic, [0], 3)
    assert [m.timestamp_ms for m in found] == [OLD_MS, OLD_MS + 1, OLD_MS + 2]


@pytest.mark.parametrize("client", CLIENTS, ids=str, indirect=True)
def test_log_append_time_is_the_brokers(broker, raw, name, client):
    topic = name("append-time")
    raw.create(topic, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    old = None if client is KCAT else OLD_MS
    client.produce(broker.kafka_address, topic, [Message(b"v", b"k", timestamp_ms=old)] * 3, "gzip")
    after = int(time.time() * 1000)
    found = client.consume(broker.kafka_address, topic, [0], 3)
    assert all(before <= m.timestamp_ms <= after for m in found)
    assert [m.value for m in found] == [b"v"] * 3
    assert all(info.attributes & LOG_APPEND_TIME for info in raw.stored(topic))


def test_the_producer_is_told_the_time_of_the_append(raw, name):
    topic, own = name("append-time"), name("create-time")
    raw.create(topic, message_timestamp_type="LogAppendTime")
    raw.create(own)
    before = int(time.time() * 1000)
    answer = raw.produce(topic, make_batch(b"v"))
    assert before <= answer.log_append_time_ms <= int(time.time() * 1000)
    assert raw.produce(own, make_batch(b"v")).log_append_time_ms == -1


def test_a_consumer_learns_whose_clock_it_was(broker, raw, name):
    topic = name("append-time")
    raw.create(topic, message_timestamp_type="LogAppendTime")
    raw.produce(topic, make_batch(b"v"))
    with confluent_consumer(broker.kafka_address) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        message = consumer.poll(WAIT_S)
    assert message.timestamp()[0] == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME


# --- Offsets by time ------------------------------------------------------------------------------

BY_TIME = {100: 0, 101: 1, 200: 1, 300: 1, 301: None, 0: 0}
"""The first record at or after each moment."""


def test_confluent_finds_offsets_by_time(broker, timed):
    with confluent_consumer(broker.kafka_address) as consumer:
        for moment, offset in BY_TIME.items():
            asked = [confluent_kafka.TopicPartition(timed, 0, OLD_MS + moment)]
            (found,) = consumer.offsets_for_times(asked, timeout=WAIT_S)
            assert found.offset == (confluent_kafka.OFFSET_END if offset is None else offset)
        place = confluent_kafka.TopicPartition(timed, 0)
        assert consumer.get_watermark_offsets(place, timeout=WAIT_S) == (0, len(TIMES))


def test_confluents_admin_lists_each_kind_of_offset(broker, timed):
    admin = AdminClient({"bootstrap.servers": broker.kafka_address})
    place = confluent_kafka.TopicPartition(timed, 0)
    specs = {
        OffsetSpec.earliest(): (0, -1),
        OffsetSpec.latest(): (len(TIMES), -1),
        OffsetSpec.max_timestamp(): (1, OLD_MS + 300),
        OffsetSpec.for_timestamp(OLD_MS + 150): (1, OLD_MS + 300),
        OffsetSpec.for_timestamp(OLD_MS + 400): (-1, -1),
    }
    for spec, expected in specs.items():
        (future,) = admin.list_offsets({place: spec}, request_timeout=WAIT_S).values()
        found = future.result(timeout=WAIT_S)
        assert (found.offset, found.timestamp) == expected


def test_kafka_python_finds_offsets_by_time(broker, timed):
    place = TopicPartition(timed, 0)
    with python_consumer(broker.kafka_address) as consumer:
        for moment, offset in BY_TIME.items():
            (found,) = consumer.offsets_for_times({place: OLD_MS + moment}).values()
            assert (found.offset if found else None) == offset
            if found:
                assert found.timestamp == OLD_MS + TIMES[offset]
        assert consumer.beginning_offsets([place]) == {place: 0}
        assert consumer.end_offsets([place]) == {place: len(TIMES)}


def test_aiokafka_finds_offsets_by_time(broker, timed):
    async def scenario():
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.kafka_address)
        await consumer.start()
        try:
            place = AioTopicPartition(timed, 0)
            for moment, offset in BY_TIME.items():
                (found,) = (await consumer.offsets_for_times({place: OLD_MS + moment})).values()
                assert (found.offset if found else None) == offset
            assert await consumer.beginning_offsets([place]) == {place: 0}
            assert await consumer.end_offsets([place]) == {place: len(TIMES)}
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def test_kcat_finds_offsets_by_time(broker, timed, kcat):
    done = kcat_run("-Q", "-b", broker.kafka_address, "-t", f"{timed}:0:{OLD_MS + 101}")
    assert done.stdout.split() == [timed.encode(), b"[0]", b"offset", b"1"], done.stderr
    from_then = ("-C", "-b", broker.kafka_address, "-t", timed, "-p", "0", "-e", "-q")
    done = kcat_run(*from_then, "-o", f"s@{OLD_MS + 101}", "-f", "%s ")
    assert done.stdout.split() == [b"1", b"2", b"3", b"4"], done.stderr


def _list(raw, topic, timestamp, *, version=11, partition=0, epoch=-1):
    answer = raw.ask(
        ApiKey.LIST_OFFSETS,
        version,
        replica_id=-1,
        isolation_level=0,
        topics=[
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "current_leader_epoch": epoch,
                        "timestamp": timestamp,
                    }
                ],
            }
        ],
        timeout_ms=1000,
    )
    ((found,),) = [each.partitions for each in answer.topics]
    return found


@pytest.mark.parametrize("version", range(1, 12))
def test_offsets_by_time_come_with_the_records_own_time(raw, timed, version):
    found = _list(raw, timed, OLD_MS + 150, version=version)
    assert (found.error_code, found.offset, found.timestamp) == (0, 1, OLD_MS + 300)
    none = _list(raw, timed, OLD_MS + 400, version=version)
    assert (none.error_code, none.offset, none.timestamp) == (0, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (LATEST, (len(TIMES), -1)),
        (EARLIEST, (0, -1)),
        (MAX_TIMESTAMP, (1, OLD_MS + 300)),
        (EARLIEST_LOCAL, (0, -1)),
        (LATEST_TIERED, (-1, -1)),
    ],
)
def test_special_timestamps_name_the_ends_of_a_partition(raw, timed, timestamp, expected):
    found = _list(raw, timed, timestamp)
    assert (found.error_code, found.offset, found.timestamp) == (0, *expected)


def test_an_empty_partition_has_no_highest_timestamp(raw, name):
    topic = name("empty")
    raw.create(topic)
    for timestamp, offset in {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: -1, 5: -1}.items():
        assert _list(raw, topic, timestamp).offset == offset


def test_the_highest_timestamp_may_lie_inside_a_batch(raw, name):
    topic = name("inside")
    raw.create(topic)
    raw.produce(topic, make_batch(b"a", b"b", b"c", timestamps=[10, 90, 20]))
    raw.produce(topic, make_batch(b"d", b"e", timestamps=[30, 40]))
    assert (_list(raw, topic, MAX_TIMESTAMP).offset, _list(raw, topic, 50).offset) == (1, 1)
    assert _list(raw, topic, 91).offset == -1


def test_each_partition_that_cannot_be_looked_up_says_why(raw, timed, name):
    assert _list(raw, name("absent"), LATEST).error_code == 3
    assert _list(raw, timed, LATEST, partition=99).error_code == 3
    assert _list(raw, timed, LATEST, epoch=7).error_code == 75
    assert _list(raw, timed, LATEST, epoch=0).error_code == 0
