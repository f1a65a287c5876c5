"""Administration with each client's own tools."""

from __future__ import annotations

import asyncio
import logging
import time
from uuid import UUID

import confluent_kafka
import kafka.errors
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import (
    ConfigResource as AioConfigResource,
    ConfigResourceType as AioConfigResourceType,
)
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import KafkaError, KafkaException, TopicCollection, admin
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka import TopicPartition
from kafka.admin import ConfigResource as PythonResource, ConfigResourceType, KafkaAdminClient

from protocol.kafka_clients import CONFLUENT, Message
from protocol.raw_kafka import make_batch, sequenced
from support.server import node_ids, siblings

WAIT_S = 90


def _result(futures):
    (future,) = futures.values()
    return future.result(timeout=WAIT_S)


def _error(futures):
    with pytest.raises(KafkaException) as caught:
        _result(futures)
    return caught.value.args[0].code()


# --- confluent-kafka ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def confluent(broker):
    return admin.AdminClient(
        {"bootstrap.servers": broker.kafka_address}, logger=logging.getLogger("librdkafka")
    )


def test_confluent_makes_describes_and_deletes_topics(confluent, broker, name):
    topic, nodes = name("made"), node_ids(broker.kafka_port)
    config = {"retention.ms": "1000", "cleanup.policy": "compact"}
    _result(confluent.create_topics([admin.NewTopic(topic, 4, 1, config=config)]))
    described = _result(confluent.describe_topics(TopicCollection([topic])))
    assert len(described.partitions) == 4
    assert not described.is_internal
    assert {p.leader.id for p in described.partitions} <= set(nodes)
    assert len(confluent.list_topics(topic, timeout=WAIT_S).topics[topic].partitions) == 4
    assert _error(confluent.create_topics([admin.NewTopic(topic, 1)])) == (
        KafkaError.TOPIC_ALREADY_EXISTS
    )
    _result(confluent.delete_topics([topic]))
    assert topic not in confluent.list_topics(timeout=WAIT_S).topics
    assert _error(confluent.delete_topics([topic])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    missing = confluent.describe_topics(TopicCollection([topic]))
    assert _error(missing) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_confluent_makes_topics_with_the_brokers_defaults(confluent, name):
    topic = name("defaults")
    _result(confluent.create_topics([admin.NewTopic(topic)]))
    assert len(confluent.list_topics(topic, timeout=WAIT_S).topics[topic].partitions) == 3


def test_confluent_asks_whether_a_topic_could_be_made(confluent, name):
    topic = name("dry")
    _result(confluent.create_topics([admin.NewTopic(topic, 2)], validate_only=True))
    assert topic not in confluent.list_topics(timeout=WAIT_S).topics
    refused = confluent.create_topics([admin.NewTopic(topic, 0)], validate_only=True)
    assert _error(refused) == KafkaError.INVALID_PARTITIONS


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"topic": "not a name"}, KafkaError.TOPIC_EXCEPTION),
        ({"topic": ".."}, KafkaError.TOPIC_EXCEPTION),
        ({"topic": "x" * 250}, KafkaError.TOPIC_EXCEPTION),
        ({"topic": "__delay_state"}, KafkaError.TOPIC_EXCEPTION),
        ({"topic": "ok", "num_partitions": 10_001}, KafkaError.POLICY_VIOLATION),
        ({"topic": "ok", "replication_factor": 7}, KafkaError.INVALID_REPLICATION_FACTOR),
        ({"topic": "ok", "config": {"no.such": "1"}}, KafkaError.INVALID_CONFIG),
        ({"topic": "ok", "config": {"retention.ms": "soon"}}, KafkaError.INVALID_CONFIG),
    ],
)
def test_confluent_hears_why_a_topic_cannot_be_made(confluent, options, code):
    options = {"num_partitions": 1, "replication_factor": 1, **options}
    assert _error(confluent.create_topics([admin.NewTopic(**options)])) == code


def test_confluent_grows_a_topic(confluent, broker, name):
    topic = name("grown")
    _result(confluent.create_topics([admin.NewTopic(topic, 1)]))
    CONFLUENT.produce(broker.kafka_address, topic, [Message(b"kept")])
    _result(confluent.create_partitions([admin.NewPartitions(topic, 3)], validate_only=True))
    assert len(confluent.list_topics(topic, timeout=WAIT_S).topics[topic].partitions) == 1
    _result(confluent.create_partitions([admin.NewPartitions(topic, 3)]))
    assert len(confluent.list_topics(topic, timeout=WAIT_S).topics[topic].partitions) == 3
    CONFLUENT.produce(broker.kafka_address, topic, [Message(b"new", partition=2)])
    found = CONFLUENT.consume(broker.kafka_address, topic, [0, 1, 2], 2)
    assert {(m.value, m.partition) for m in found} == {(b"kept", 0), (b"new", 2)}
    for count in (3, 2):
        fewer = confluent.create_partitions([admin.NewPartitions(topic, count)])
        assert _error(fewer) == KafkaError.INVALID_PARTITIONS


def test_confluent_makes_a_deleted_topic_anew_and_finds_it_empty(confluent, broker, raw, name):
    topic = name("again")
    for number in range(3):
        _result(confluent.create_topics([admin.NewTopic(topic, 2)]))
        offsets = CONFLUENT.produce(broker.kafka_address, topic, [Message(b"%d" % number)])
        assert offsets == [0]
        found = CONFLUENT.consume(broker.kafka_address, topic, [0], 1)
        assert [m.value for m in found] == [b"%d" % number]
        _result(confluent.delete_topics([topic]))


def _resource(topic, configs=()):
    entries = [
        ConfigEntry(key, value, incremental_operation=operation)
        for key, value, operation in configs
    ]
    return ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries or None)


def _configs(confluent, topic):
    return _result(confluent.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))


def test_confluent_changes_settings_one_by_one(confluent, name):
    topic = name("configs")
    _result(confluent.create_topics([admin.NewTopic(topic, 1, config={"retention.ms": "5000"})]))
    changes = [
        ("max.message.bytes", "2000", AlterConfigOpType.SET),
        ("cleanup.policy", "compact", AlterConfigOpType.APPEND),
        ("retention.ms", None, AlterConfigOpType.DELETE),
    ]
    _result(confluent.incremental_alter_configs([_resource(topic, changes)]))
    found = _configs(confluent, topic)
    assert found["max.message.bytes"].value == "2000"
    assert found["cleanup.policy"].value == "delete,compact"
    assert found["retention.ms"].value == "604800000"
    assert found["retention.ms"].is_default
    assert not found["max.message.bytes"].is_default
    less = [("cleanup.policy", "delete", AlterConfigOpType.SUBTRACT)]
    _result(confluent.incremental_alter_configs([_resource(topic, less)]))
    assert _configs(confluent, topic)["cleanup.policy"].value == "compact"


def test_confluent_hears_why_a_setting_cannot_be_changed(confluent, name):
    topic = name("configs")
    _result(confluent.create_topics([admin.NewTopic(topic, 1)]))
    wrong = [
        ("no.such", "1", AlterConfigOpType.SET),
        ("retention.ms", "soon", AlterConfigOpType.SET),
        ("retention.ms", "1", AlterConfigOpType.APPEND),
    ]
    for change in wrong:
        changed = confluent.incremental_alter_configs([_resource(topic, [change])])
        assert _error(changed) == KafkaError.INVALID_CONFIG
    valid = [("retention.ms", "1", AlterConfigOpType.SET)]
    _result(confluent.incremental_alter_configs([_resource(topic, valid)], validate_only=True))
    assert _configs(confluent, topic)["retention.ms"].is_default
    absent = confluent.incremental_alter_configs([_resource(name("absent"), valid)])
    assert _error(absent) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.filterwarnings("ignore:alter_configs:DeprecationWarning")
def test_confluent_replaces_all_settings(confluent, name):
    topic = name("configs")
    config = {"retention.ms": "5000", "segment.bytes": "100000000"}
    _result(confluent.create_topics([admin.NewTopic(topic, 1, config=config)]))
    resource = ConfigResource(ResourceType.TOPIC, topic, set_config={"segment.bytes": "200000000"})
    _result(confluent.alter_configs([resource]))
    found = _configs(confluent, topic)
    assert found["segment.bytes"].value == "200000000"
    assert found["retention.ms"].is_default


def test_confluent_describes_the_broker_and_the_cluster(confluent, broker):
    found = _result(confluent.describe_configs([ConfigResource(ResourceType.BROKER, "1")]))
    assert found["broker.id"].value == "1"
    assert found["auto.create.topics.enable"].value == "true"
    assert found["broker.id"].is_read_only
    cluster = confluent.describe_cluster().result(timeout=WAIT_S)
    ports = siblings(broker.kafka_port)
    assert [(node.host, node.port) for node in cluster.nodes] == [
        ("127.0.0.1", port) for port in ports
    ]
    assert cluster.controller.id in node_ids(ports[0])
    assert cluster.cluster_id
    assert cluster.cluster_id == confluent.list_topics(timeout=WAIT_S).cluster_id


def test_confluent_deletes_records(confluent, broker, name):
    topic = name("trimmed")
    _result(confluent.create_topics([admin.NewTopic(topic, 1)]))
    CONFLUENT.produce(broker.kafka_address, topic, [Message(b"%d" % n) for n in range(10)])
    place = confluent_kafka.TopicPartition(topic, 0, 4)
    assert _result(confluent.delete_records([place])).low_watermark == 4
    found = CONFLUENT.consume(broker.kafka_address, topic, [0], 6)
    assert [m.offset for m in found] == [4, 5, 6, 7, 8, 9]
    beyond = confluent_kafka.TopicPartition(topic, 0, 11)
    assert _error(confluent.delete_records([beyond])) == KafkaError.OFFSET_OUT_OF_RANGE
    whole = confluent_kafka.TopicPartition(topic, 0, confluent_kafka.OFFSET_END)
    assert _result(confluent.delete_records([whole])).low_watermark == 10


# --- kafka-python ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def python(broker):
    client = KafkaAdminClient(bootstrap_servers=broker.kafka_address)
    yield client
    client.close()


def test_kafka_python_makes_describes_grows_and_deletes_topics(python, name):
    topic, other = name("made"), name("made")
    python.create_topics(
        {topic: {"num_partitions": 2, "configs": {"retention.ms": "1"}}, other: {}}
    )
    found = {each["name"]: each for each in python.describe_topics([topic, other])}
    assert [len(found[each]["partitions"]) for each in (topic, other)] == [2, 3]
    ids = {each: UUID(str(found[each]["topic_id"])) for each in (topic, other)}
    by_id = python.describe_topics([ids[topic]])
    assert [each["name"] for each in by_id] == [topic]
    assert {topic, other} <= set(python.list_topics())
    python.create_partitions({topic: 5})
    assert len(python.describe_topics([topic])[0]["partitions"]) == 5
    with pytest.raises(kafka.errors.InvalidPartitionsError):
        python.create_partitions({topic: 5})
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        python.create_topics([topic])
    python.delete_topics([topic, ids[other]])
    assert not {topic, other} & set(python.list_topics())
    with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
        python.delete_topics([topic])
    with pytest.raises(kafka.errors.UnknownTopicIdError):
        python.delete_topics([ids[other]])


def test_kafka_python_asks_whether_a_topic_could_be_made(python, name):
    topic = name("dry")
    python.create_topics([topic], validate_only=True)
    assert topic not in python.list_topics()
    with pytest.raises(kafka.errors.InvalidTopicError):
        python.create_topics(["__delay_state"], validate_only=True)


def test_kafka_python_places_replicas_only_where_there_is_a_broker(python, name):
    topic = name("placed")
    python.create_topics({topic: {"assignments": {0: [1], 1: [1]}}})
    assert len(python.describe_topics([topic])[0]["partitions"]) == 2
    with pytest.raises(kafka.errors.InvalidReplicationAssignmentError):
        python.create_topics({name("placed"): {"assignments": {0: [7]}}})
    with pytest.raises(kafka.errors.InvalidReplicationAssignmentError):
        python.create_partitions({topic: {"count": 4, "assignments": [[1]]}})
    python.create_partitions({topic: {"count": 4, "assignments": [[1], [1]]}})
    assert len(python.describe_topics([topic])[0]["partitions"]) == 4


def _python_configs(python, topic, **options):
    resource = PythonResource(ConfigResourceType.TOPIC, topic)
    return python.describe_configs([resource], **options)["topic"][topic]


def test_kafka_python_changes_and_resets_settings(python, name):
    topic = name("configs")
    python.create_topics([topic])
    changes = {"retention.ms": "7000", "cleanup.policy": ("APPEND", "compact")}
    python.alter_configs([PythonResource(ConfigResourceType.TOPIC, topic, changes)])
    found = _python_configs(python, topic)
    assert found["retention.ms"]["value"] == "7000"
    assert found["cleanup.policy"]["value"] == "delete,compact"
    assert "segment.bytes" not in found
    assert "segment.bytes" in _python_configs(python, topic, config_filter="all")
    reset = PythonResource(ConfigResourceType.TOPIC, topic, ["retention.ms", "cleanup.policy"])
    python.reset_configs([reset])
    assert not {"retention.ms", "cleanup.policy"} & set(_python_configs(python, topic))


def test_kafka_python_deletes_records_and_describes_the_rest(python, broker, raw, name):
    topic = name("records")
    raw.create(topic)
    producer_id = 4242
    raw.produce(topic, sequenced((producer_id, 0), 0, b"a", b"b", b"c"))
    place = TopicPartition(topic, 0)
    assert python.delete_records({place: 2})[place]["low_watermark"] == 2
    (state,) = python.describe_producers([place]).values()
    (producer,) = state.active_producers
    assert (producer.producer_id, producer.last_sequence) == (producer_id, 2)
    folders = python.describe_log_dirs([topic])
    assert len(folders) == len(broker.data_dirs)
    assert all(topic in str(folder) for folder in folders)
    cluster = python.describe_cluster()
    assert [node["port"] for node in cluster["brokers"]] == list(siblings(broker.kafka_port))


# --- aiokafka -------------------------------------------------------------------------------------


def _with_aio(broker, scenario):
    async def run():
        client = AIOKafkaAdminClient(bootstrap_servers=broker.kafka_address)
        await client.start()
        try:
            return await scenario(client)
        finally:
            await client.close()

    return asyncio.run(asyncio.wait_for(run(), WAIT_S))


def test_aiokafka_makes_describes_grows_and_deletes_topics(broker, name):
    topic = name("made")

    async def scenario(client):
        made = await client.create_topics([NewTopic(topic, 2, 1)])
        assert [error[1] for error in made.topic_errors] == [0]
        again = await client.create_topics([NewTopic(topic, 2, 1)])
        assert [error[1] for error in again.topic_errors] == [36]
        assert topic in await client.list_topics()
        grown = await client.create_partitions({topic: NewPartitions(4)})
        assert [error[1] for error in grown.topic_errors] == [0]
        (described,) = await client.describe_topics([topic])
        assert len(described["partitions"]) == 4
        controller = (await client.describe_cluster())["controller_id"]
        assert controller in node_ids(broker.kafka_port)
        gone = await client.delete_topics([topic])
        assert [error[1] for error in gone.topic_error_codes] == [0]
        assert topic not in await client.list_topics()

    _with_aio(broker, scenario)


def test_aiokafka_changes_settings_and_deletes_records(broker, raw, name):
    topic = name("configs")
    raw.create(topic)
    raw.produce(topic, make_batch(b"a", b"b", b"c"))

    async def scenario(client):
        kind = AioConfigResourceType.TOPIC
        (altered,) = await client.alter_configs(
            [AioConfigResource(kind, topic, {"retention.ms": "9000"})]
        )
        assert [resource[0] for resource in altered.resources] == [0]
        (described,) = await client.describe_configs([AioConfigResource(kind, topic)])
        (resource,) = described.resources
        assert {entry[0]: entry[1] for entry in resource[4]}["retention.ms"] == "9000"
        place = AioTopicPartition(topic, 0)
        return await client.delete_records({place: RecordsToDelete(2)})

    assert list(_with_aio(broker, scenario).values()) == [2]


# --- Making and deleting at the same time ---------------------------------------------------------


def test_a_topic_made_while_its_namesake_is_being_deleted_has_records_of_its_own(
    confluent, raw, name
):
    topic = name("raced")
    for _ in range(5):
        raw.create(topic, 20)
        for partition in (0, 19):
            raw.produce(topic, make_batch(b"old"), partition)
        deleted = confluent.delete_topics([topic])
        deadline = time.monotonic() + WAIT_S
        while not _is_made(confluent, topic):
            assert time.monotonic() < deadline
        _result(deleted)
        for partition in (0, 19):
            answer = raw.produce(topic, make_batch(b"new"), partition)
            assert (answer.error_code, answer.base_offset) == (0, 0)
        _result(confluent.delete_topics([topic]))


def _is_made(confluent, topic):
    try:
        _result(confluent.create_topics([admin.NewTopic(topic, 20)]))
    except KafkaException:
        return False
    return True
