"""Unmodified Kafka clients of two tenants, with the same names, that see nothing of each other."""

from __future__ import annotations

import asyncio
import uuid
from functools import cache

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaException,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from protocol.secure_clients import (
    collect_leaks,
    with_aiokafka,
    with_confluent,
    with_kafka_python,
)

WAIT_S = 60.0
TENANTS = ("acme", "globex")
UNKNOWN_TOPIC = 3
DENIED = 29


@pytest.fixture
def topic() -> str:
    return f"orders-{uuid.uuid4().hex[:8]}"


@cache
def admin_of(access) -> AdminClient:
    """Kept: its requests end with it."""
    return AdminClient(access.of_confluent())


def create(access, topic: str, partitions: int = 1) -> None:
    created = admin_of(access).create_topics([NewTopic(topic, partitions)])
    created[topic].result(WAIT_S)


def publish(access, topic: str, *values: bytes, **settings) -> None:
    failed: list[object] = []
    producer = Producer({**access.of_confluent(), **settings})
    for value in values:
        producer.produce(
            topic, value, on_delivery=lambda error, _: failed.append(error) if error else None
        )
    assert not producer.flush(WAIT_S)
    assert not failed


def consumed(access, group: str, topic: str, count: int, **settings) -> list[bytes]:
    options = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**access.of_confluent(), **options, **settings})
    try:
        consumer.subscribe([topic])
        values: list[bytes] = []
        while len(values) < count:
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.error() is None, message.error()
            if not topic.startswith("^"):
                assert message.topic() == topic
            values.append(message.value())
        consumer.commit(asynchronous=False)
        return values
    finally:
        consumer.close()


@pytest.mark.parametrize("there_and_back", [with_confluent, with_kafka_python, with_aiokafka])
def test_the_same_names_hold_other_messages(accesses, topic, there_and_back) -> None:
    for tenant, access in accesses.items():
        create(access, topic)
        assert there_and_back(access, topic, tenant.encode()) == tenant.encode()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_of_the_same_name_read_their_own(accesses, topic, protocol) -> None:
    for tenant, access in accesses.items():
        create(access, topic, 2)
        publish(access, topic, *[tenant.encode()] * 10)
    group = f"g-{topic}"
    for tenant, access in accesses.items():
        found = consumed(access, group, topic, 10, **{"group.protocol": protocol})
        assert found == [tenant.encode()] * 10
        offsets = admin_of(access).list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)]
        )[group]
        told = offsets.result(WAIT_S).topic_partitions
        assert {each.topic for each in told} == {topic}
        assert sum(each.offset for each in told if each.offset > 0) == 10


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_pattern_matches_topics_of_the_own_tenant_alone(accesses, topic, protocol) -> None:
    for tenant, access in accesses.items():
        create(access, topic)
        publish(access, topic, tenant.encode())
    for tenant, access in accesses.items():
        settings = {"group.protocol": protocol}
        found = consumed(access, f"p-{topic}-{protocol}", f"^{topic[:-1]}.", 1, **settings)
        assert found == [tenant.encode()]


def test_lists_show_bare_names_of_the_own_tenant(accesses, topic) -> None:
    mine = f"only-{topic}"
    create(accesses["acme"], mine)
    publish(accesses["acme"], mine, b"x")
    consumed(accesses["acme"], f"g-{mine}", mine, 1)
    for tenant, access in accesses.items():
        admin = admin_of(access)
        topics = admin.list_topics(timeout=WAIT_S).topics
        groups = {each.group_id for each in admin.list_consumer_groups().result(WAIT_S).valid}
        assert (mine in topics) == (tenant == "acme")
        assert (f"g-{mine}" in groups) == (tenant == "acme")
        assert not any(name.startswith(("acme.", "globex.", "__")) for name in topics)
        assert not any(name.startswith(("acme.", "globex.")) for name in groups)
        described = admin.describe_consumer_groups([f"g-{mine}"])[f"g-{mine}"].result(WAIT_S)
        assert described.group_id == f"g-{mine}"


def test_no_name_reaches_another_tenant(accesses, topic) -> None:
    create(accesses["acme"], topic)
    publish(accesses["acme"], topic, b"secret")
    stranger = admin_of(accesses["globex"])
    for name in (topic, f"acme.{topic}", f"globex.{topic}", f".acme.{topic}"):
        with pytest.raises(KafkaException):
            stranger.create_partitions([NewPartitions(name, 5)])[name].result(WAIT_S)
        with pytest.raises(KafkaException):
            stranger.delete_topics([name])[name].result(WAIT_S)
    assert len(admin_of(accesses["acme"]).list_topics(topic).topics[topic].partitions) == 1


def test_administration_of_topics_is_in_bare_names(accesses, topic, root) -> None:
    access = accesses["acme"]
    admin = admin_of(access)
    create(access, topic)
    resource = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    admin.incremental_alter_configs([resource])[resource].result(WAIT_S)
    asked = ConfigResource(ResourceType.TOPIC, topic)
    assert admin.describe_configs([asked])[asked].result(WAIT_S)["retention.ms"].value == "60000"
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(WAIT_S)
    assert len(admin.list_topics(topic).topics[topic].partitions) == 3
    assert f"acme.{topic}" in root.ok("GET", "/topics")["topics"]
    assert topic in root.ok("GET", "/admin/tenants/acme/topics")["topics"]
    admin.delete_topics([topic])[topic].result(WAIT_S)
    assert f"acme.{topic}" not in root.ok("GET", "/topics")["topics"]


def test_transactions_of_the_same_id_do_not_fence_each_other(accesses, topic) -> None:
    producers = {}
    for tenant, access in accesses.items():
        create(access, topic)
        producers[tenant] = Producer({**access.of_confluent(), "transactional.id": f"t-{topic}"})
        producers[tenant].init_transactions(WAIT_S)
    for tenant, producer in producers.items():
        producer.begin_transaction()
        producer.produce(topic, tenant.encode())
    offsets = [TopicPartition(topic, 0, 1)]
    for tenant, producer in producers.items():
        reader = Consumer({**accesses[tenant].of_confluent(), "group.id": f"tg-{topic}"})
        producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), WAIT_S)
        reader.close()
        producer.commit_transaction(WAIT_S)
    for tenant, access in accesses.items():
        settings = {"isolation.level": "read_committed"}
        assert consumed(access, f"r-{topic}", topic, 1, **settings) == [tenant.encode()]
        listed = admin_of(access).list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(f"tg-{topic}")]
        )
        (told,) = listed[f"tg-{topic}"].result(WAIT_S).topic_partitions
        assert (told.topic, told.offset) == (topic, 1)


def test_share_groups_of_the_same_name_get_their_own(accesses, topic) -> None:
    for tenant, access in accesses.items():
        create(access, topic)
        publish(access, topic, *[tenant.encode()] * 5)
        resource = ConfigResource(
            ResourceType.GROUP if hasattr(ResourceType, "GROUP") else ResourceType.TOPIC,
            f"s-{topic}",
            incremental_configs=[
                ConfigEntry(
                    "share.auto.offset.reset",
                    "earliest",
                    incremental_operation=AlterConfigOpType.SET,
                )
            ],
        )
        admin_of(access).incremental_alter_configs([resource])[resource].result(WAIT_S)
    for tenant, access in accesses.items():
        consumer = ShareConsumer({**access.of_confluent(), "group.id": f"s-{topic}"})
        try:
            consumer.subscribe([topic])
            values: list[bytes] = []
            while len(values) < 5:
                values += [each.value() for each in consumer.poll(WAIT_S) if not each.error()]
            assert values == [tenant.encode()] * 5
        finally:
            consumer.close()


def test_aiokafka_members_share_the_partitions_of_their_tenant(accesses, topic) -> None:
    async def run(tenant: str, access) -> set[bytes]:
        producer = AIOKafkaProducer(**access.of_python(), transactional_id=f"a-{topic}")
        await producer.start()
        async with producer.transaction():
            for number in range(4):
                await producer.send(topic, f"{tenant}-{number}".encode(), partition=number % 2)
        await producer.stop()
        options = {"group_id": f"aio-{topic}", "auto_offset_reset": "earliest"}
        members = [AIOKafkaConsumer(topic, **access.of_python(), **options) for _ in range(2)]
        found: set[bytes] = set()
        try:
            for member in members:
                await member.start()
            async with asyncio.timeout(WAIT_S):
                while len(found) < 4:
                    for member in members:
                        batches = await member.getmany(timeout_ms=200)
                        for place, messages in batches.items():
                            assert place.topic == topic
                            found |= {each.value for each in messages}
        finally:
            for member in members:
                await member.stop()
        return found

    for tenant, access in accesses.items():
        create(access, topic, 2)
        assert asyncio.run(run(tenant, access)) == {f"{tenant}-{n}".encode() for n in range(4)}
    collect_leaks()


def test_a_suspended_tenant_is_told_why_and_loses_nothing(accesses, root, topic) -> None:
    root.ok("POST", "/admin/tenants", {"id": "initech", "name": "Initech"})
    body = {"password": "secret", "roles": ["admin"], "tenant": "initech"}
    root.ok("PUT", "/admin/users/peter", body)
    access = type(accesses["acme"])(accesses["acme"].address, "PLAIN", "peter", "secret")
    create(access, topic)
    publish(access, topic, b"kept")
    producer = Producer(access.of_confluent())  # one that is connected
    producer.produce(topic, b"kept too")
    assert not producer.flush(WAIT_S)
    root.ok("POST", "/admin/tenants/initech/suspend", {"reason": "unpaid"})
    refused: list[int] = []
    producer.produce(topic, b"refused", on_delivery=lambda error, _: refused.append(error.code()))
    producer.flush(WAIT_S)
    assert refused == [DENIED]
    with pytest.raises(KafkaException):
        admin_of(access).delete_topics([topic])[topic].result(WAIT_S)
    assert topic in admin_of(access).list_topics(timeout=WAIT_S).topics
    root.ok("POST", "/admin/tenants/initech/activate")
    assert consumed(access, f"g-{topic}", topic, 2) == [b"kept", b"kept too"]
    root.ok("POST", "/admin/tenants/initech/disable", {"reason": "gone"})
    assert topic not in admin_of(access).list_topics(timeout=WAIT_S).topics
    with pytest.raises(KafkaException):
        AdminClient(access.of_confluent()).list_topics(timeout=5)
