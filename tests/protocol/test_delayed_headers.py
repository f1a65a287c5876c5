"""Kafka producers delay messages with a header, on topics that allow it."""

from __future__ import annotations

import time

import confluent_kafka
import pytest
from kafka_clients import confluent_consumer

WAIT_S = 30.0


def _produce(broker, topic, messages, **settings):
    """Values with their delays in ms (None: no header); where each went by the producer's word."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.kafka_address, "linger.ms": 50, **settings}
    )
    reports = {}
    sent_ms = int(time.time() * 1000)
    for value, delay_ms in messages:
        headers = [("mine", b"kept")]
        if delay_ms is not None:
            headers.append(("goqueue-deliver-at", b"%d" % (sent_ms + delay_ms)))
        producer.produce(
            topic,
            value,
            partition=0,
            headers=headers,
            on_delivery=lambda error, message: reports.update({message.value(): error}),
        )
    producer.flush(WAIT_S)
    return sent_ms, reports


def _consume(broker, topic, count):
    """Messages from the start, each with the time at which it came."""
    found = []
    with confluent_consumer(broker.kafka_address) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        deadline_s = time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < deadline_s:
            message = consumer.poll(0.2)
            if message is not None:
                assert message.error() is None
                found.append((message, int(time.time() * 1000)))
    return found


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_header_delays_a_message_and_a_consumer_gets_it_when_it_is_due(
    broker, raw, name, codec, idempotent
):
    topic = name("delayed")
    raw.create(topic, goqueue_kafka_headers="true")
    settings = {"compression.type": codec, "enable.idempotence": idempotent}
    sent_ms, reports = _produce(
        broker, topic, [(b"now", None), (b"late", 2900), (b"soon", 2500), (b"past", -5)], **settings
    )
    assert reports == dict.fromkeys((b"now", b"late", b"soon", b"past"))
    found = _consume(broker, topic, 4)
    assert [message.value() for message, _ in found] == [b"now", b"past", b"soon", b"late"]
    for message, came_ms in found:
        headers = dict(message.headers())
        assert headers["mine"] == b"kept"
        if message.value() in {b"soon", b"late"}:
            assert came_ms >= int(headers["goqueue-deliver-at"])
            assert sent_ms <= int(headers["goqueue-published-at"]) < came_ms
            assert not [each for each in headers if each == "goqueue-waiting"]


def test_batches_of_nothing_but_delayed_messages_do_not_stop_a_consumer(broker, raw, name):
    topic = name("only-delayed")
    raw.create(topic, goqueue_kafka_headers="true")
    for delay_ms in (400, 500, 600):
        _, reports = _produce(broker, topic, [(b"%d" % delay_ms, delay_ms)])
        assert set(reports.values()) == {None}
    _produce(broker, topic, [(b"plain", None)])
    values = [message.value() for message, _ in _consume(broker, topic, 4)]
    assert values == [b"plain", b"400", b"500", b"600"]


def test_elsewhere_the_header_is_the_producers_own(broker, raw, name):
    topic = name("not-delayed")
    raw.create(topic)
    _produce(broker, topic, [(b"v", 60_000)])
    ((message, _),) = _consume(broker, topic, 1)
    assert [each for each, _ in message.headers()] == ["mine", "goqueue-deliver-at"]


def test_a_header_that_makes_no_sense_is_refused(broker, raw, name):
    topic = name("refused")
    raw.create(topic, goqueue_kafka_headers="true")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.kafka_address, "message.timeout.ms": 5000}
    )
    errors = []
    producer.produce(
        topic,
        b"v",
        partition=0,
        headers=[("goqueue-deliver-at", b"tomorrow")],
        on_delivery=lambda error, _: errors.append(error),
    )
    producer.flush(WAIT_S)
    (error,) = errors
    assert error is not None
    assert not error.retriable()
