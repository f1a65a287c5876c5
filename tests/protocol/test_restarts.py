"""Consumers without a group that outlive the broker: they go on where they were."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from contextlib import suppress
from functools import partial

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioTopicPartition
from kafka import TopicPartition
from kafka.errors import RetriableError

from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from protocol.kafka_clients import confluent_consumer, python_consumer
from protocol.raw_kafka import RawKafka, make_batch, sequenced
from support.server import make_server
from support.waiting import eventually

WAIT_S = 90

# A client whose broker dies leaves sockets behind without closing them, as its own affair.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def collect_what_clients_left():
    """Here, where it is expected, and not in some later test."""
    yield
    gc.collect()


class Reader(threading.Thread):
    """Reads a topic from its start until it is told to stop; `seen` is everything, in order."""

    def __init__(self, read, address):
        super().__init__(daemon=True)
        self.read, self.address = read, address
        self.seen = []
        self.errors = []
        self.stopping = threading.Event()
        self.start()

    def run(self):
        try:
            self.read(self)
        except Exception as error:  # noqa: BLE001 - told to the test, which fails then
            self.errors.append(error)

    def wait_for(self, count):
        deadline = time.monotonic() + WAIT_S
        while len(self.seen) < count:
            assert time.monotonic() < deadline, f"{len(self.seen)} of {count}: {self.errors}"
            assert not self.errors
            time.sleep(0.02)

    def stop(self):
        self.stopping.set()
        self.join(WAIT_S)
        assert not self.is_alive()


def _confluent(reader):
    options = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 200}
    with confluent_consumer(reader.address, **options) as consumer:
        consumer.assign([confluent_kafka.TopicPartition("t", 0, 0)])
        while not reader.stopping.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                reader.seen.append((message.offset(), message.value()))


def _python(reader):
    options = {"reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 200}
    with python_consumer(reader.address, **options) as consumer:
        place = TopicPartition("t", 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        while not reader.stopping.is_set():
            # While the broker is away, `poll` may raise what says of itself that it is to be tried
            # again.
            with suppress(RetriableError):
                for records in consumer.poll(timeout_ms=100).values():
                    reader.seen += [(record.offset, record.value) for record in records]


def _aio(reader):
    async def scenario():
        place = AioTopicPartition("t", 0)
        consumer = AIOKafkaConsumer(bootstrap_servers=reader.address, retry_backoff_ms=50)
        await consumer.start()
        try:
            consumer.assign([place])
            consumer.seek(place, 0)
            while not reader.stopping.is_set():
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    reader.seen += [(record.offset, record.value) for record in records]
        finally:
            await consumer.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("policy", ["interval", "always"])
def test_consumers_outlive_a_killed_broker_and_miss_nothing(tmp_path, policy):
    server = make_server(tmp_path / "data", "--fsync", policy)
    server.start()
    readers = []
    written = []

    def is_stored(raw, value):
        """The nodes of a cluster that was killed as a whole come back one after the other."""
        code = raw.produce("t", make_batch(value)).error_code
        assert code in {ErrorCode.none, ErrorCode.not_enough_replicas}
        return code == ErrorCode.none

    def write(count):
        with RawKafka(server.kafka_port) as raw:
            for _ in range(count):
                value = b"%d" % len(written)
                eventually(partial(is_stored, raw, value))
                written.append((len(written), value))

    try:
        with RawKafka(server.kafka_port) as raw:
            raw.create("t")
        write(30)
        readers = [Reader(read, server.kafka_address) for read in (_confluent, _python, _aio)]
        for _ in range(2):
            for reader in readers:
                reader.wait_for(len(written))
            write(10)
            server.kill()
            server.start()
            write(20)
        for reader in readers:
            reader.wait_for(len(written))
            reader.stop()
            assert reader.seen == written
    finally:
        for reader in readers:
            reader.stopping.set()
        server.close()


def test_topics_settings_and_records_outlive_a_killed_broker(tmp_path):
    server = make_server(tmp_path / "data")
    server.start()
    try:
        with RawKafka(server.kafka_port) as raw:
            kept_id = raw.create("kept", 5, retention_ms="12345")
            raw.create("gone")
            raw.produce("kept", make_batch(b"a", b"b"), 4)
            raw.produce("gone", make_batch(b"x"))
            raw.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["gone"], timeout_ms=1000)
            raw.ask(
                ApiKey.DELETE_RECORDS,
                2,
                topics=[{"name": "kept", "partitions": [{"partition_index": 4, "offset": 1}]}],
                timeout_ms=1000,
            )
        server.kill()
        server.start()
        with RawKafka(server.kafka_port) as raw:
            answer = raw.ask(ApiKey.METADATA, 10, topics=None, **_NOTHING_ELSE)
            found = {each.name: each for each in answer.topics if not each.is_internal}
            assert {each: len(topic.partitions) for each, topic in found.items()} == {"kept": 5}
            assert found["kept"].topic_id == kept_id
            answer = raw.fetch("kept", 1, 4, max_wait_ms=0)
            assert (answer.log_start_offset, answer.high_watermark) == (1, 2)
            assert raw.fetch("kept", 0, 4, max_wait_ms=0).error_code == 1
            raw.create("gone")
            assert raw.produce("gone", sequenced((1, 0), 0, b"new")).base_offset == 0
    finally:
        server.close()


_NOTHING_ELSE = {
    "allow_auto_topic_creation": False,
    "include_topic_authorized_operations": False,
    "include_cluster_authorized_operations": False,
}
