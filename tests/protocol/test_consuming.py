"""Consumers without a group: where they start, where they seek, what they do at the ends."""

from __future__ import annotations

import asyncio
import time

import confluent_kafka
import kafka.errors
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import OffsetOutOfRangeError as AioOutOfRangeError
from aiokafka.structs import TopicPartition as AioTopicPartition
from kafka import TopicPartition

from goqueue.wire.kafka.api_keys import ApiKey
from protocol.kafka_clients import (
    CONFLUENT,
    WAIT_S,
    Message,
    confluent_consumer,
    confluent_producer,
    kcat_run,
    python_consumer,
)
from protocol.raw_kafka import RawKafka, make_batch
from support.server import siblings

COUNT = 10
START = 4
"""Records below it are deleted."""


@pytest.fixture(scope="module")
def trimmed(broker, name):
    """A topic with records 4 to 9."""
    topic = name("trimmed")
    with RawKafka(broker.kafka_port) as raw:
        raw.create(topic, 2)
        for number in range(COUNT):
            raw.produce(topic, make_batch(b"%d" % number))
        raw.ask(
            ApiKey.DELETE_RECORDS,
            2,
            topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": START}]}],
            timeout_ms=1000,
        )
    return topic


OUT_OF_RANGE = (START - 1, COUNT + 5)


def _poll(consumer):
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            return message
    raise AssertionError("nothing came")


@pytest.mark.parametrize("offset", OUT_OF_RANGE)
def test_confluent_follows_its_reset_policy(broker, trimmed, offset):
    place = confluent_kafka.TopicPartition(trimmed, 0, offset)
    with confluent_consumer(broker.kafka_address, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        assert _poll(consumer).offset() == START
    with confluent_consumer(broker.kafka_address, auto_offset_reset="error") as consumer:
        consumer.assign([place])
        assert _poll(consumer).error().code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET
    latest = {"auto_offset_reset": "latest", "enable_partition_eof": True}
    with confluent_consumer(broker.kafka_address, **latest) as consumer:
        consumer.assign([place])
        end = _poll(consumer)
        assert end.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
        assert end.offset() == COUNT


@pytest.mark.parametrize("offset", OUT_OF_RANGE)
def test_kafka_python_follows_its_reset_policy(broker, trimmed, offset):
    place = TopicPartition(trimmed, 0)
    for policy, expected in {"earliest": START, "latest": COUNT}.items():
        with python_consumer(broker.kafka_address, auto_offset_reset=policy) as consumer:
            consumer.assign([place])
            consumer.seek(place, offset)
            deadline = time.monotonic() + WAIT_S
            while consumer.position(place) == offset and time.monotonic() < deadline:
                consumer.poll(timeout_ms=200)
            if policy == "latest":
                assert consumer.position(place) == expected
            else:
                consumer.seek(place, offset)
                assert _first(consumer, place) == expected
    with python_consumer(broker.kafka_address, auto_offset_reset="none") as consumer:
        consumer.assign([place])
        consumer.seek(place, offset)
        with pytest.raises(kafka.errors.OffsetOutOfRangeError):
            _first(consumer, place)


def _first(consumer, place):
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        records = consumer.poll(timeout_ms=200).get(place)
        if records:
            return records[0].offset
    raise AssertionError("nothing came")


@pytest.mark.parametrize("offset", OUT_OF_RANGE)
def test_aiokafka_follows_its_reset_policy(broker, trimmed, offset):
    place = AioTopicPartition(trimmed, 0)

    async def scenario(policy):
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.kafka_address, auto_offset_reset=policy
        )
        await consumer.start()
        try:
            consumer.assign([place])
            consumer.seek(place, offset)
            if policy == "latest":
                while await consumer.position(place) == offset:
                    await consumer.getmany(timeout_ms=100)
                return await consumer.position(place)
            return (await consumer.getone()).offset
        finally:
            await consumer.stop()

    def run(policy):
        return asyncio.run(asyncio.wait_for(scenario(policy), WAIT_S))

    assert run("earliest") == START
    assert run("latest") == COUNT
    with pytest.raises(AioOutOfRangeError):
        run("none")


def test_kcat_reads_from_an_offset_and_so_many_before_the_end(broker, trimmed, kcat):
    base = ("-C", "-b", broker.kafka_address, "-t", trimmed, "-p", "0", "-e", "-q", "-f", "%o ")
    assert kcat_run(*base, "-o", "6").stdout.split() == [b"6", b"7", b"8", b"9"]
    assert kcat_run(*base, "-o", "-2").stdout.split() == [b"8", b"9"]
    assert kcat_run(*base, "-o", "beginning", "-c", "2").stdout.split() == [b"4", b"5"]


def test_kcat_lists_topics_and_their_partitions(broker, trimmed, kcat):
    done = kcat_run("-L", "-b", broker.kafka_address, "-t", trimmed)
    assert f'topic "{trimmed}" with 2 partitions'.encode() in done.stdout
    controllers = [
        f"at 127.0.0.1:{port} (controller)".encode() for port in siblings(broker.kafka_port)
    ]
    assert sum(each in done.stdout for each in controllers) == 1


# --- Seeking --------------------------------------------------------------------------------------


def test_confluent_seeks_back_and_forth(broker, trimmed):
    with confluent_consumer(broker.kafka_address) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(trimmed, 0, 8)])
        assert _poll(consumer).offset() == 8
        for offset in (5, 9, START):
            consumer.seek(confluent_kafka.TopicPartition(trimmed, 0, offset))
            assert _poll(consumer).offset() == offset


def test_kafka_python_seeks_back_and_forth(broker, trimmed):
    place = TopicPartition(trimmed, 0)
    with python_consumer(broker.kafka_address) as consumer:
        consumer.assign([place])
        for offset in (8, 5, 9, START):
            consumer.seek(place, offset)
            assert _first(consumer, place) == offset


def test_aiokafka_seeks_back_and_forth(broker, trimmed):
    async def scenario():
        place = AioTopicPartition(trimmed, 0)
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.kafka_address)
        await consumer.start()
        try:
            consumer.assign([place])
            for offset in (8, 5, 9, START):
                consumer.seek(place, offset)
                assert (await consumer.getone()).offset == offset
        finally:
            await consumer.stop()

    asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


# --- While it is written --------------------------------------------------------------------------


def test_a_long_poll_is_woken_and_does_not_wait_for_its_time(broker, raw, name):
    topic = name("woken")
    raw.create(topic)
    options = {"fetch_wait_max_ms": 60_000, "socket_timeout_ms": 120_000}
    with confluent_consumer(broker.kafka_address, **options) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        assert consumer.poll(1.0) is None
        producer = confluent_producer(broker.kafka_address, linger_ms=0)
        started = time.monotonic()
        producer.produce(topic, b"now")
        assert producer.flush(WAIT_S) == 0
        assert _poll(consumer).value() == b"now"
        assert time.monotonic() - started < 45


def test_readers_of_committed_records_see_records_without_a_transaction(broker, raw, name):
    topic = name("committed")
    raw.create(topic)
    CONFLUENT.produce(broker.kafka_address, topic, [Message(b"v")] * 3)
    for isolation in ("read_committed", "read_uncommitted"):
        with confluent_consumer(broker.kafka_address, isolation_level=isolation) as consumer:
            consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
            assert [_poll(consumer).offset() for _ in range(3)] == [0, 1, 2]


def test_a_consumer_goes_on_when_its_topic_is_made_anew(broker, raw, name):
    topic = name("anew")
    raw.create(topic)
    raw.produce(topic, make_batch(b"old", b"old"))
    options = {
        "auto_offset_reset": "earliest",
        "topic_metadata_refresh_interval_ms": 200,
        "allow_auto_create_topics": False,
    }
    with confluent_consumer(broker.kafka_address, **options) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        assert [_poll(consumer).value() for _ in range(2)] == [b"old", b"old"]
        raw.ask(ApiKey.DELETE_TOPICS, 5, topic_names=[topic], timeout_ms=1000)
        raw.create(topic)
        raw.produce(topic, make_batch(b"new"))
        deadline = time.monotonic() + WAIT_S
        found = None
        while found != b"new" and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found = message.value()
        assert found == b"new"
