"""Kafka producers delay messages with a header, on topics that allow it."""

from __future__ import annotations

import time

import confluent_kafka
import pytest

from protocol.kafka_clients import confluent_consumer
from support.pace import in_time, unhurried

WAIT_S = 90.0


def _produce(broker, topic, messages, **settings):
    """Values with their delays in ms (None: no header); where each went by the producer's word."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.kafka_address, "linger.ms": 50, **settings}
    )
    reports = {}
    sent_ms = int(time.time() * 1000)
    for value, delay_ms in messages:
        headers: list[tuple[str, str | bytes | None]] = [("mine", b"kept")]
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
    settings = {"compression.type": codec, "enable.idempotence": idempotent}

    def scenario(time_ms):
        topic = name("delayed")
        raw.create(topic, goqueue_kafka_headers="true")
        due = {b"now": None, b"late": time_ms + 200, b"soon": time_ms, b"past": -5}
        sent_ms, reports = _produce(broker, topic, due.items(), **settings)
        in_time(sent_ms + time_ms)
        assert reports == dict.fromkeys(due)
        found = _consume(broker, topic, 4)
        assert [message.value() for message, _ in found] == [b"now", b"past", b"soon", b"late"]
        for message, came_ms in found:
            headers = dict(message.headers())
            assert headers["mine"] == b"kept"
            if message.value() in {b"soon", b"late"}:
                assert came_ms >= int(headers["goqueue-deliver-at"])
                assert sent_ms <= int(headers["goqueue-published-at"]) < came_ms
                assert not [each for each in headers if each == "goqueue-waiting"]

    unhurried(scenario)


def test_batches_of_nothing_but_delayed_messages_do_not_stop_a_consumer(broker, raw, name):
    def scenario(time_ms):
        topic = name("only-delayed")
        raw.create(topic, goqueue_kafka_headers="true")
        began_ms = time.time() * 1000
        for number in range(3):
            _, reports = _produce(broker, topic, [(b"%d" % number, time_ms + 200 * number)])
            assert set(reports.values()) == {None}
        _produce(broker, topic, [(b"plain", None)])
        in_time(began_ms + time_ms)
        values = [message.value() for message, _ in _consume(broker, topic, 4)]
        assert values == [b"plain", b"0", b"1", b"2"]

    unhurried(scenario)


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
        {"bootstrap.servers": broker.kafka_address, "message.timeout.ms": 60_000}
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
