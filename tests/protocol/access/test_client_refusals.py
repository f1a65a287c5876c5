"""What unmodified Kafka clients raise when they are refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiokafka
import kafka
import pytest
from aiokafka import errors as aiokafka_errors
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import errors as kafka_errors

from support.guarded import TOPIC

if TYPE_CHECKING:
    from support.guarded import GuardedServer


def librdkafka(server: GuardedServer, who: str, **more: Any) -> dict[str, Any]:
    user, password = server.login(who)
    return {
        "bootstrap.servers": f"127.0.0.1:{server.kafka_port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": password,
        **more,
    }


def python(server: GuardedServer, who: str) -> dict[str, Any]:
    user, password = server.login(who)
    return {
        "bootstrap_servers": f"127.0.0.1:{server.kafka_port}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def test_confluent_kafka(server: GuardedServer) -> None:
    told: list[KafkaError | None] = []
    for who in ("consumer", "producer"):
        producer = Producer(librdkafka(server, who, **{"message.timeout.ms": 30_000}))
        producer.produce(TOPIC, b"x", on_delivery=lambda error, _: told.append(error))
        producer.flush(60)
    refused, stored = told
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert stored is None
    consumer = Consumer(librdkafka(server, "producer", **{"group.id": "mine"}))
    try:
        consumer.subscribe([TOPIC])
        message = consumer.poll(60)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    finally:
        consumer.close()
    admin = AdminClient(librdkafka(server, "readonly"))
    with pytest.raises(KafkaException) as refusal:
        admin.create_topics([NewTopic("made", 1, 1)])["made"].result(60)
    assert refusal.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert TOPIC in admin.list_topics(timeout=60).topics


def test_kafka_python(server: GuardedServer) -> None:
    producer = kafka.KafkaProducer(**python(server, "consumer"))
    try:
        with pytest.raises(kafka_errors.KafkaError):
            producer.send(TOPIC, b"x").get(60)
    finally:
        producer.close(1)
    consumer = kafka.KafkaConsumer(TOPIC, **python(server, "producer"), group_id="mine")
    try:
        with pytest.raises(kafka_errors.GroupAuthorizationFailedError):
            consumer.poll(60_000)
    finally:
        consumer.close()


def test_aiokafka(server: GuardedServer) -> None:
    async def scenario() -> None:
        producer = aiokafka.AIOKafkaProducer(**python(server, "consumer"))
        await producer.start()
        try:
            with pytest.raises(aiokafka_errors.TopicAuthorizationFailedError):
                await asyncio.wait_for(producer.send_and_wait(TOPIC, b"x"), 60)
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(TOPIC, **python(server, "producer"))
        await consumer.start()
        try:
            with pytest.raises(aiokafka_errors.TopicAuthorizationFailedError):
                await asyncio.wait_for(consumer.getone(), 60)
        finally:
            await consumer.stop()

    asyncio.run(scenario())
