"""Records dated further from the broker's clock than their topic allows are refused everywhere."""

from __future__ import annotations

import json
import time
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import confluent_kafka
import grpc
import pytest
from confluent_kafka import KafkaError

from goqueue.records import LOG_APPEND_TIME, Compression
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import PublishServiceStub
from protocol.raw_kafka import make_batch

INVALID_TIMESTAMP = 32
YEAR_9999 = 253_370_764_800_000
HOUR_MS = 3600 * 1000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def topic(raw, name):
    made = name("dated")
    raw.create(made)
    return made


def test_a_client_that_dates_a_record_9999_is_told_so(broker, topic):
    failures = []
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.kafka_address})
    producer.produce(
        topic, b"v", timestamp=YEAR_9999, on_delivery=lambda error, _: failures.append(error)
    )
    assert producer.flush(60) == 0
    (error,) = failures
    assert error.code() == KafkaError.INVALID_TIMESTAMP


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_the_records_that_are_refused_are_named(raw, topic, compression):
    times = [now_ms(), YEAR_9999, -1, now_ms() + 2 * HOUR_MS]
    batch = make_batch(b"a", b"b", b"c", b"d", timestamps=times, compression=compression)
    answer = raw.produce(topic, batch)
    assert answer.error_code == INVALID_TIMESTAMP
    assert [each.batch_index for each in answer.record_errors] == [1, 3]
    assert "message.timestamp.after.max.ms" in answer.record_errors[0].batch_index_error_message
    assert raw.stored(topic) == []


def test_an_hour_ahead_and_anything_behind_is_taken_by_default(raw, topic):
    times = [now_ms() + HOUR_MS - 60_000, 0, -1]
    assert raw.produce(topic, make_batch(b"a", b"b", b"c", timestamps=times)).error_code == 0


def test_a_topic_can_take_more_and_less(raw, name):
    wide, narrow = name("wide"), name("narrow")
    raw.create(wide, message_timestamp_after_max_ms=str((1 << 63) - 1))
    raw.create(narrow, message_timestamp_before_max_ms="60000")
    assert raw.produce(wide, make_batch(b"v", timestamps=[YEAR_9999])).error_code == 0
    old = now_ms() - HOUR_MS
    answer = raw.produce(narrow, make_batch(b"a", b"b", timestamps=[now_ms(), old]))
    assert answer.error_code == INVALID_TIMESTAMP
    assert [each.batch_index for each in answer.record_errors] == [1]
    assert raw.produce(narrow, make_batch(b"a", timestamps=[now_ms()])).error_code == 0


def test_log_append_time_makes_the_producers_timestamps_irrelevant(raw, name):
    topic = name("stamped")
    raw.create(topic, message_timestamp_type="LogAppendTime")
    assert raw.produce(topic, make_batch(b"v", timestamps=[YEAR_9999])).error_code == 0


def test_only_the_broker_says_that_timestamps_are_those_of_the_append(raw, topic):
    batch = make_batch(b"v", timestamps=[now_ms()], attributes=LOG_APPEND_TIME)
    assert raw.produce(topic, batch).error_code == INVALID_TIMESTAMP


def test_http_refuses_one_message_and_stores_its_neighbours(broker, raw, topic):
    body = {
        "messages": [
            {"value": "kept", "partition": 0},
            {"value": "refused", "partition": 0, "timestamp": YEAR_9999},
        ]
    }
    request = Request(
        f"http://127.0.0.1:{broker.http_port}/topics/{topic}/messages",
        json.dumps(body).encode(),
        {"content-type": "application/json"},
    )
    try:
        with urlopen(request, timeout=60) as answer:
            told = answer.read()
    except HTTPError as error:
        told = error.read()
    assert b"invalid_timestamp" in told
    assert sum(info.count for info in raw.stored(topic)) == 1


def test_grpc_refuses_it_too(broker, raw, topic):
    with grpc.insecure_channel(broker.grpc_address) as channel:
        request = pb.PublishRequest(
            topic=topic,
            messages=[pb.NewMessage(value=b"v", partition=0, timestamp_ms=YEAR_9999)],
        )
        answer = PublishServiceStub(channel).Publish(request, timeout=60)
    assert "message.timestamp.after.max.ms" in str(answer)
    assert raw.stored(topic) == []
