"""Topics that are made because a client asks for them, and those that are not."""

from __future__ import annotations

import asyncio

import confluent_kafka
import kafka.errors
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioError
from kio.schema.errors import ErrorCode

from goqueue.model.internal_topics import is_internal_topic
from goqueue.wire.kafka.api_keys import ApiKey
from protocol.kafka_clients import (
    AIO,
    CLIENTS,
    CONFLUENT,
    WAIT_S,
    Message,
    confluent_producer,
    kcat_run,
    python_producer,
)
from protocol.raw_kafka import RawKafka, make_batch
from support.server import make_server, siblings

NO_OPERATIONS = {
    "include_topic_authorized_operations": False,
    "include_cluster_authorized_operations": False,
}


@pytest.fixture(scope="module")
def strict(tmp_path_factory):
    """A server that makes no topic by itself."""
    folder = tmp_path_factory.mktemp("strict") / "data"
    server = make_server(folder, "--no-topics-auto-create")
    server.start()
    yield server
    server.close()


def _metadata(raw, *names, version=12, create=True, ids=()):
    topics = [{"name": name, "topic_id": None} for name in names]
    topics += [{"name": None, "topic_id": topic_id} for topic_id in ids]
    return raw.ask(
        ApiKey.METADATA,
        version,
        topics=topics,
        allow_auto_topic_creation=create,
        **NO_OPERATIONS,
    )


@pytest.mark.parametrize("client", CLIENTS, ids=str, indirect=True)
def test_producing_to_a_name_makes_the_topic(broker, raw, name, client):
    topic = name("on-demand")
    client.produce(broker.kafka_address, topic, [Message(b"first")])
    (found,) = _metadata(raw, topic, create=False).topics
    assert (found.error_code, len(found.partitions)) == (0, 3)
    assert [m.value for m in client.consume(broker.kafka_address, topic, [0], 1)] == [b"first"]


@pytest.mark.parametrize("version", range(14))
def test_asking_for_a_name_makes_the_topic_in_every_version(raw, name, version):
    """Versions below 4 cannot say whether they want it: they do."""
    topic = name("asked")
    (found,) = _metadata(raw, topic, version=version).topics
    assert (found.error_code, found.name, len(found.partitions)) == (0, topic, 3)


def test_a_client_that_does_not_want_a_topic_made_gets_none(raw, name):
    topic = name("unwanted")
    for _ in range(2):
        (found,) = _metadata(raw, topic, create=False).topics
        assert (found.error_code, found.name) == (ErrorCode.unknown_topic_or_partition, topic)


def test_describing_everything_makes_nothing_and_leaves_nothing_out(raw, name):
    topic = name("listed")
    raw.create(topic, 2)
    wish = {"allow_auto_topic_creation": True, **NO_OPERATIONS}
    answer = raw.ask(ApiKey.METADATA, 9, topics=None, **wish)
    assert {each.name: len(each.partitions) for each in answer.topics}[topic] == 2
    none = raw.ask(ApiKey.METADATA, 9, topics=[], **wish)
    assert none.topics == ()
    oldest = raw.ask(ApiKey.METADATA, 0, topics=[])
    assert topic in {each.name for each in oldest.topics}


@pytest.mark.parametrize("wrong", ["", ".", "..", "white space", "a/b", "ä", "x" * 250, "a\0b"])
def test_names_against_the_rule_are_refused_and_not_made(raw, wrong):
    (found,) = _metadata(raw, wrong).topics
    assert found.error_code == ErrorCode.invalid_topic_exception


def test_nobody_makes_an_internal_topic_by_asking(raw):
    (found,) = _metadata(raw, "__webhooks").topics
    assert found.error_code == ErrorCode.invalid_topic_exception
    (again,) = _metadata(raw, "__webhooks", create=False).topics
    assert again.error_code == ErrorCode.unknown_topic_or_partition


def test_internal_topics_say_that_they_are(raw, broker):
    wish = {"allow_auto_topic_creation": True, **NO_OPERATIONS}
    everything = raw.ask(ApiKey.METADATA, 9, topics=None, **wish)
    flags = {each.name: each.is_internal for each in everything.topics}
    assert all(is_internal == is_internal_topic(topic) for topic, is_internal in flags.items())


@pytest.mark.parametrize("version", [12, 13])
def test_topics_are_found_by_id(raw, name, version):
    topic = name("by-id")
    topic_id = raw.create(topic)
    (found,) = _metadata(raw, ids=[topic_id], version=version).topics
    assert (found.error_code, found.name, found.topic_id) == (0, topic, topic_id)
    raw.ask(ApiKey.DELETE_TOPICS, 5, topic_names=[topic], timeout_ms=1000)
    (gone,) = _metadata(raw, ids=[topic_id], version=version).topics
    assert (gone.error_code, gone.name) == (ErrorCode.unknown_topic_id, None)
    assert raw.create(topic) != topic_id


def test_the_controller_is_a_broker_that_is_listed(broker, raw):
    for version in range(1, 14):
        answer = _metadata(raw, version=version)
        nodes = {each.node_id: (each.host, each.port) for each in answer.brokers}
        ports = siblings(broker.kafka_port)
        assert nodes == {number: ("127.0.0.1", port) for number, port in enumerate(ports, 1)}
        assert answer.controller_id in nodes
        if version >= 2:
            assert answer.cluster_id


# --- Without auto-creation ------------------------------------------------------------------------


def test_a_strict_server_makes_no_topic_for_confluent(strict):
    producer = confluent_producer(
        strict.kafka_address,
        topic_metadata_propagation_max_ms=0,
        message_timeout_ms=60_000,
        topic_metadata_refresh_interval_ms=100,
    )
    errors = []
    producer.produce("absent", b"v", on_delivery=lambda error, _: errors.append(error.code()))
    producer.flush(WAIT_S)
    assert errors in (
        [confluent_kafka.KafkaError._UNKNOWN_TOPIC],
        [confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART],
    )


def test_a_strict_server_makes_no_topic_for_kafka_python(strict):
    options = {"max_block_ms": 1000}
    with (
        python_producer(strict.kafka_address, **options) as producer,
        pytest.raises(kafka.errors.KafkaError),
    ):
        producer.send("absent", b"v").get(timeout=WAIT_S)


def test_a_strict_server_makes_no_topic_for_aiokafka(strict):
    async def scenario():
        producer = AIOKafkaProducer(
            bootstrap_servers=strict.kafka_address, request_timeout_ms=1000, retry_backoff_ms=50
        )
        await producer.start()
        try:
            await producer.send_and_wait("absent", b"v")
        finally:
            await producer.stop()

    with pytest.raises(AioError):
        asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def test_a_strict_server_makes_no_topic_for_kcat(strict, kcat):
    done = kcat_run(
        *("-P", "-b", strict.kafka_address, "-t", "absent", "-p", "0"),
        *("-X", "topic.metadata.propagation.max.ms=0", "-X", "message.timeout.ms=60000"),
        input=b"v\n",
    )
    assert b"Unknown topic" in done.stderr


def test_a_strict_server_serves_topics_that_were_made(strict, name):
    topic = name("made")
    with RawKafka(strict.kafka_port) as raw:
        (missing,) = _metadata(raw, topic).topics
        assert missing.error_code == ErrorCode.unknown_topic_or_partition
        unknown = raw.produce(topic, make_batch(b"v"))
        assert unknown.error_code == ErrorCode.unknown_topic_or_partition
        raw.create(topic)
    for client in (CONFLUENT, AIO):
        client.produce(strict.kafka_address, topic, [Message(b"v")])
    assert len(CONFLUENT.consume(strict.kafka_address, topic, [0], 2)) == 2
