"""Client quotas: kept, and clients that nobody here wrote are throttled as Kafka throttles them."""

from __future__ import annotations

import asyncio
import time
import urllib.error
import urllib.request

import grpc
import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.wire.grpc.v1 import goqueue_pb2 as pb, goqueue_pb2_grpc as services
from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka

WAIT_S = 60.0


def alter(raw, entity, **values):
    """Set quotas of an entity; None removes one."""
    entry = {
        "entity": [{"entity_type": kind, "entity_name": who} for kind, who in entity.items()],
        "ops": [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key, value in values.items()
        ],
    }
    answer = raw.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[entry], validate_only=False)
    assert [each.error_code for each in answer.entries] == [0], answer.entries[0].error_message


def described(raw, kind, match_type=2, match=None):
    component = {"entity_type": kind, "match_type": match_type, "match": match}
    answer = raw.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=[component], strict=False)
    assert answer.error_code == 0
    return [
        (
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in answer.entries
    ]


@pytest.fixture
def topic(broker, name):
    made = name("quotas")
    admin = AdminClient({"bootstrap.servers": broker.kafka_address})
    admin.create_topics([NewTopic(made, 1)])[made].result(WAIT_S)
    return made


def produce(broker, topic, client_id, count, size_bytes=1000, **settings):
    """Publish, and return how long it took and what the broker said of waiting, in ms."""
    throttled = []
    producer = Producer(
        {
            "bootstrap.servers": broker.kafka_address,
            "client.id": client_id,
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
            "batch.num.messages": 20,
            "linger.ms": 0,
            **settings,
        }
    )
    started = time.monotonic()
    for _ in range(count):
        producer.produce(topic, b"x" * size_bytes)
        producer.poll(0)
    assert producer.flush(WAIT_S) == 0
    took_s = time.monotonic() - started
    producer.poll(0.1)
    return took_s, throttled


@pytest.mark.parametrize("acks", [1, "all"])
def test_a_producer_is_throttled_and_told_so(broker, raw, topic, name, acks):
    client_id = name("slow")
    alter(raw, {"client-id": client_id}, producer_byte_rate=100_000)
    took_s, throttled = produce(broker, topic, client_id, 400, acks=acks)
    assert took_s > 2.5  # of 400 kB the first 100 are a burst
    assert max(throttled) > 0
    _, free = produce(broker, topic, name("free"), 400, acks=acks)
    assert free == []


def test_a_quota_that_is_removed_throttles_nobody(broker, raw, topic, name):
    client_id = name("slow")
    alter(raw, {"client-id": client_id}, producer_byte_rate=1000)
    assert produce(broker, topic, client_id, 3)[1]
    alter(raw, {"client-id": client_id}, producer_byte_rate=None)
    assert described(raw, "client-id", 0, client_id) == []
    assert produce(broker, topic, client_id, 50)[1] == []


def test_a_consumer_is_throttled_and_gets_everything(broker, raw, topic, name):
    produce(broker, topic, name("filler"), 300)
    client_id, throttled = name("slow"), []
    alter(raw, {"client-id": client_id}, consumer_byte_rate=100_000)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.kafka_address,
            "client.id": client_id,
            "group.id": name("group"),
            "auto.offset.reset": "earliest",
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    consumer.subscribe([topic])
    found, until = [], time.monotonic() + WAIT_S
    while len(found) < 300 and time.monotonic() < until:
        found += [each.offset() for each in consumer.consume(100, 1.0) if each.error() is None]
    consumer.close()
    assert found == list(range(300))
    assert max(throttled) > 0


def test_aiokafka_reads_everything_under_a_quota(broker, raw, topic, name):
    produce(broker, topic, name("filler"), 200)
    client_id = name("slow")
    alter(raw, {"client-id": client_id}, consumer_byte_rate=50_000)

    async def read():
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.kafka_address,
            client_id=client_id,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            async with asyncio.timeout(WAIT_S):
                return [(await consumer.getone()).offset for _ in range(200)]
        finally:
            await consumer.stop()

    started = time.monotonic()
    assert asyncio.run(read()) == list(range(200))
    assert time.monotonic() - started > 2.0  # 200 kB at 50 kB a second, 50 of them at once


def test_quotas_are_found_by_filters_and_survive_a_restart(broker, raw, name):
    user = name("user")
    alter(raw, {"user": user}, request_percentage=12.5)
    alter(raw, {"user": user, "client-id": None}, producer_byte_rate=1024)
    expected = [
        ({"user": user}, {"request_percentage": 12.5}),
        ({"user": user, "client-id": None}, {"producer_byte_rate": 1024}),
    ]
    assert described(raw, "user", 0, user) == expected
    broker.restart()
    with RawKafka(broker.kafka_port) as again:
        assert described(again, "user", 0, user) == expected


def test_partitions_are_not_created_faster_than_allowed(broker, raw, name):
    client_id = name("maker")
    alter(raw, {"client-id": client_id}, controller_mutation_rate=0.1)
    admin = AdminClient({"bootstrap.servers": broker.kafka_address, "client.id": client_id})
    first, second = name("made"), name("refused")
    admin.create_topics([NewTopic(first, 3)])[first].result(WAIT_S)
    with pytest.raises(KafkaException) as caught:
        admin.create_topics([NewTopic(second, 1)])[second].result(WAIT_S)
    assert caught.value.args[0].code() == KafkaError.THROTTLING_QUOTA_EXCEEDED
    assert second not in admin.list_topics(timeout=WAIT_S).topics


@pytest.fixture
def few_requests(raw):
    """Nobody may make more than a few requests a second; this connection has made its own."""
    with RawKafka(raw.port) as other:
        alter(other, {"user": None}, request_rate=2)
        yield
        alter(other, {"user": None}, request_rate=None)


def test_http_is_refused_with_429_and_when_to_try_again(broker, few_requests):
    def ask():
        for _ in range(50):
            urllib.request.urlopen(f"{broker.http_url}/topics", timeout=WAIT_S).read()

    with pytest.raises(urllib.error.HTTPError) as caught:
        ask()
    assert caught.value.code == 429
    assert int(caught.value.headers["retry-after"]) >= 1
    with caught.value:
        assert b"request_rate of user 'ANONYMOUS'" in caught.value.read()


def test_health_is_answered_however_many_ask(broker, few_requests):
    for _ in range(20):
        with urllib.request.urlopen(f"{broker.http_url}/healthz", timeout=WAIT_S) as answer:
            assert answer.status == 200


def test_grpc_is_refused_as_exhausted(broker, few_requests):
    def ask():
        with grpc.insecure_channel(broker.grpc_address) as channel:
            admin = services.AdminServiceStub(channel)
            for _ in range(50):
                admin.ListTopics(pb.ListTopicsRequest(), timeout=WAIT_S)

    with pytest.raises(grpc.RpcError) as caught:
        ask()
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "request_rate" in caught.value.details()


def test_a_client_that_asks_too_often_waits_and_is_not_refused(broker, raw, name):
    client_id = name("eager")
    alter(raw, {"client-id": client_id}, request_rate=20)
    admin = AdminClient({"bootstrap.servers": broker.kafka_address, "client.id": client_id})
    started = time.monotonic()
    for _ in range(60):
        admin.list_topics(timeout=WAIT_S)
    assert time.monotonic() - started > 1.5
