"""Settings of the broker, as Apache Kafka 4.3 has them."""

from __future__ import annotations

import pytest
from confluent_kafka import admin as confluent_admin
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kio.schema.errors import ErrorCode

from protocol.config_admin import (
    APPEND,
    BROKER,
    DEFAULT,
    DELETE,
    GROUP,
    OF_CLUSTER,
    OF_NODE,
    OF_TOPIC,
    TOPIC,
    ConfigAdmin,
    eventually,
)
from protocol.raw_kafka import RawKafka, make_batch
from support.server import first_of, make_server

CLUSTER, NODE = "", "1"
WAIT_S = 60


@pytest.fixture
def raw(broker):
    """To the node whose settings are changed."""
    with RawKafka(first_of(broker.kafka_port)) as client:
        yield client


@pytest.fixture
def admin(raw: RawKafka):
    admin = ConfigAdmin(raw)
    yield admin
    for level in (CLUSTER, NODE):
        set_there = [
            name for name in admin.describe(BROKER, level) if name != "min.insync.replicas"
        ]
        changes = dict.fromkeys(
            name
            for name in set_there
            if admin.describe(BROKER, level, name)[name].source in {OF_CLUSTER, OF_NODE}
        )
        if changes:
            assert admin.change(BROKER, level, changes, DELETE)[0] is ErrorCode.none


def test_settings_are_shown_under_kafkas_names(admin):
    found = admin.describe(BROKER, NODE)
    read_only = {name: found[name].read_only for name in READ_ONLY}
    assert read_only == dict.fromkeys(READ_ONLY, True)
    dynamic = {name: found[name].read_only for name in DYNAMIC}
    assert dynamic == dict.fromkeys(DYNAMIC, False)
    assert found["node.id"].value == NODE
    assert found["message.max.bytes"].synonyms == [("message.max.bytes", "1048588", DEFAULT)]
    assert found["message.max.bytes"].kind == 3
    assert found["message.max.bytes"].documentation


READ_ONLY = (
    "auto.create.topics.enable",
    "broker.id",
    "connections.max.idle.ms",
    "default.replication.factor",
    "delete.topic.enable",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.migration.policy",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.session.timeout.ms",
    "group.initial.rebalance.delay.ms",
    "group.max.session.timeout.ms",
    "group.min.session.timeout.ms",
    "group.streams.heartbeat.interval.ms",
    "group.streams.initial.rebalance.delay.ms",
    "group.streams.max.assignment.interval.ms",
    "group.streams.max.heartbeat.interval.ms",
    "group.streams.max.session.timeout.ms",
    "group.streams.max.standby.replicas",
    "group.streams.min.assignment.interval.ms",
    "group.streams.min.heartbeat.interval.ms",
    "group.streams.min.session.timeout.ms",
    "group.streams.num.standby.replicas",
    "group.streams.session.timeout.ms",
    "log.dirs",
    "log.retention.check.interval.ms",
    "node.id",
    "num.partitions",
    "offsets.retention.minutes",
    "offsets.topic.num.partitions",
    "socket.request.max.bytes",
    "transaction.max.timeout.ms",
    "transaction.state.log.num.partitions",
    "transactional.id.expiration.ms",
)
DYNAMIC = (
    "background.threads",
    "compression.gzip.level",
    "compression.type",
    "group.consumer.assignment.interval.ms",
    "group.streams.assignment.interval.ms",
    "log.cleaner.backoff.ms",
    "log.cleaner.delete.retention.ms",
    "log.cleaner.min.cleanable.ratio",
    "log.cleaner.threads",
    "log.cleanup.policy",
    "log.flush.interval.messages",
    "log.flush.interval.ms",
    "log.message.timestamp.type",
    "log.retention.bytes",
    "log.retention.ms",
    "log.roll.ms",
    "log.segment.bytes",
    "max.connections",
    "max.connections.per.ip",
    "message.max.bytes",
    "min.insync.replicas",
    "num.io.threads",
    "producer.id.expiration.ms",
    "transaction.partition.verification.enable",
    "unclean.leader.election.enable",
)


def test_a_topic_follows_the_cluster_and_the_node_at_once(raw, admin, name):
    topic = admin.create_and_wait(name("follows"))

    def synonyms():
        return admin.describe(TOPIC, topic, "max.message.bytes")["max.message.bytes"].synonyms

    default = ("message.max.bytes", "1048588", DEFAULT)
    eventually(synonyms, [default])
    of_cluster = ("message.max.bytes", "3000", OF_CLUSTER)
    of_node = ("message.max.bytes", "2000", OF_NODE)
    of_topic = ("max.message.bytes", "1000", OF_TOPIC)
    setting = "message.max.bytes"
    assert admin.change(BROKER, CLUSTER, {setting: "3000"}) == (ErrorCode.none, None)
    eventually(synonyms, [of_cluster, default])
    assert admin.change(BROKER, NODE, {setting: "2000"}) == (ErrorCode.none, None)
    eventually(synonyms, [of_node, of_cluster, default])
    assert _refuses(raw, topic, 2500)
    assert admin.change(TOPIC, topic, {"max.message.bytes": "1000"}) == (ErrorCode.none, None)
    eventually(synonyms, [of_topic, of_node, of_cluster, default])
    assert admin.change(TOPIC, topic, {"max.message.bytes": None}, DELETE)[0] is ErrorCode.none
    assert admin.change(BROKER, NODE, {setting: None}, DELETE) == (ErrorCode.none, None)
    assert admin.change(BROKER, CLUSTER, {setting: None}, DELETE) == (ErrorCode.none, None)
    eventually(synonyms, [default])
    assert not _refuses(raw, topic, 2500)


def _refuses(raw: RawKafka, topic: str, size_bytes: int) -> bool:
    return raw.produce(topic, make_batch(b"x" * size_bytes)).error_code == 10


@pytest.mark.parametrize(
    ("setting", "topic_setting", "value"),
    [
        ("log.retention.ms", "retention.ms", "60000"),
        ("log.retention.bytes", "retention.bytes", "70000000"),
        ("log.segment.bytes", "segment.bytes", "2000000"),
        ("log.roll.ms", "segment.ms", "80000"),
        ("log.roll.jitter.ms", "segment.jitter.ms", "5"),
        ("log.cleanup.policy", "cleanup.policy", "compact"),
        ("log.cleaner.min.compaction.lag.ms", "min.compaction.lag.ms", "7"),
        ("log.cleaner.max.compaction.lag.ms", "max.compaction.lag.ms", "77777"),
        ("log.cleaner.min.cleanable.ratio", "min.cleanable.dirty.ratio", "0.25"),
        ("log.cleaner.delete.retention.ms", "delete.retention.ms", "9"),
        ("log.flush.interval.ms", "flush.ms", "50"),
        ("log.flush.interval.messages", "flush.messages", "50"),
        ("log.index.interval.bytes", "index.interval.bytes", "5000"),
        ("log.message.timestamp.type", "message.timestamp.type", "LogAppendTime"),
        ("log.message.timestamp.after.max.ms", "message.timestamp.after.max.ms", "1000"),
        ("log.segment.delete.delay.ms", "file.delete.delay.ms", "10"),
        ("compression.type", "compression.type", "zstd"),
        ("compression.zstd.level", "compression.zstd.level", "7"),
    ],
)
@pytest.mark.parametrize(("level", "source"), [(CLUSTER, OF_CLUSTER), (NODE, OF_NODE)])
def test_defaults_of_topics_are_changed_for_the_cluster_and_for_the_node(  # noqa: PLR0917 - a row
    admin, name, setting, topic_setting, value, level, source
):
    topic = admin.create_and_wait(name("follows"))
    assert admin.change(BROKER, level, {setting: value}, dry=True) == (ErrorCode.none, None)
    assert admin.change(BROKER, level, {setting: value}) == (ErrorCode.none, None)

    def of_broker():
        entry = admin.describe(BROKER, level, setting).get(setting)
        return entry and (entry.value, entry.source, entry.synonyms[:1])

    def of_topic():
        entry = admin.describe(TOPIC, topic, topic_setting)[topic_setting]
        return entry.value, entry.source, entry.synonyms[:1]

    expected = (value, source, [(setting, value, source)])
    eventually(of_broker, expected)
    eventually(of_topic, expected)


@pytest.mark.parametrize("level", [CLUSTER, NODE])
@pytest.mark.parametrize(
    "setting",
    ["num.partitions", "node.id", "group.initial.rebalance.delay.ms", "log.retention.hours"],
)
def test_settings_that_are_given_at_the_start_cannot_be_changed(admin, level, setting):
    for code, message in (
        admin.change(BROKER, level, {setting: "5"}),
        admin.replace(BROKER, level, {setting: "5"}),
    ):
        assert code is ErrorCode.invalid_request
        assert message.startswith(f"Cannot update these configs dynamically: [{setting}]")


@pytest.mark.parametrize("level", [CLUSTER, NODE])
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("message.max.bytes", "many"),
        ("message.max.bytes", "-1"),
        ("log.segment.bytes", "1024"),
        ("log.cleanup.policy", "shrink"),
        ("log.flush.interval.messages", "0"),
        ("log.cleaner.min.cleanable.ratio", "2"),
        ("producer.id.expiration.ms", "0"),
        ("compression.gzip.level", "11"),
    ],
)
def test_values_that_cannot_be_are_refused(admin, level, setting, value):
    code, message = admin.change(BROKER, level, {setting: value})
    assert code is ErrorCode.invalid_request
    assert setting in message
    assert value in message
    assert admin.describe(BROKER, NODE, setting)[setting].source == DEFAULT


def test_another_node_is_refused(admin):
    for other in ("7", "x"):
        assert admin.described(BROKER, other)[0] is ErrorCode.invalid_request
        change = admin.change(BROKER, other, {"log.retention.ms": "60000"})
        assert change[0] is ErrorCode.invalid_request


def test_of_the_cluster_only_what_was_set_is_shown(admin):
    assert admin.change(BROKER, CLUSTER, {"log.roll.ms": "5000"})[0] is ErrorCode.none
    eventually(lambda: "log.roll.ms" in admin.describe(BROKER, CLUSTER), expected=True)
    found = admin.describe(BROKER, CLUSTER)
    assert set(found) - {"min.insync.replicas"} == {"log.roll.ms"}
    assert found["log.roll.ms"].synonyms == [("log.roll.ms", "5000", OF_CLUSTER)]


def test_items_are_appended_to_a_list_of_the_broker(admin):
    assert admin.change(BROKER, CLUSTER, {"log.cleanup.policy": "compact"}, APPEND)[0] == 0

    def policy():
        entry = admin.describe(BROKER, NODE, "log.cleanup.policy")["log.cleanup.policy"]
        return entry.value, entry.source

    eventually(policy, ("delete,compact", OF_CLUSTER))
    refused = admin.change(BROKER, CLUSTER, {"log.retention.ms": "5"}, APPEND)
    assert refused[0] is ErrorCode.invalid_config


def test_replacing_the_settings_of_the_node_takes_the_others_back(admin):
    assert admin.change(BROKER, NODE, {"log.retention.ms": "60000"})[0] is ErrorCode.none
    assert admin.replace(BROKER, NODE, {"log.roll.ms": "5000"}) == (ErrorCode.none, None)

    def sources():
        found = admin.describe(BROKER, NODE, "log.retention.ms", "log.roll.ms")
        return {name: entry.source for name, entry in found.items()}

    eventually(sources, {"log.retention.ms": DEFAULT, "log.roll.ms": OF_NODE})


def test_confluents_admin_client_changes_the_broker(broker, admin):
    client = confluent_admin.AdminClient({"bootstrap.servers": broker.kafka_address})
    entry = ConfigEntry("log.retention.ms", "70000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, NODE, incremental_configs=[entry])
    for future in client.incremental_alter_configs([resource]).values():
        future.result(WAIT_S)

    def value():
        (described,) = client.describe_configs([ConfigResource(ResourceType.BROKER, NODE)]).values()
        found = described.result(WAIT_S)["log.retention.ms"]
        return found.value, found.source

    eventually(value, ("70000", OF_NODE))


def test_a_listener_takes_as_many_connections_of_an_address_as_were_set_last(tmp_path):
    server = make_server(tmp_path / "data")
    server.start()
    try:
        with (
            RawKafka(first_of(server.kafka_port)) as raw,
            RawKafka(first_of(server.kafka_port)) as other,
        ):
            admin = ConfigAdmin(raw)
            other.create("before")
            limit = {"max.connections.per.ip": "2"}
            assert admin.change(BROKER, NODE, limit) == (ErrorCode.none, None)
            with RawKafka(first_of(server.kafka_port)) as third:
                assert third.is_closed_by_server()
            assert admin.change(BROKER, NODE, limit, DELETE)[0] is ErrorCode.none
            with RawKafka(first_of(server.kafka_port)) as third:
                third.create("after")
    finally:
        server.close()


def test_settings_of_the_broker_and_of_groups_outlive_a_killed_process(tmp_path):
    server = make_server(tmp_path / "data")
    server.start()
    try:
        with RawKafka(first_of(server.kafka_port)) as raw:
            admin = ConfigAdmin(raw)
            admin.create("t")
            assert admin.change(BROKER, CLUSTER, {"log.retention.ms": "90000"})[0] == 0
            assert admin.change(BROKER, NODE, {"message.max.bytes": "2000"})[0] == 0
            assert admin.change(GROUP, "g", {"consumer.heartbeat.interval.ms": "7000"})[0] == 0
            assert admin.change(GROUP, "g", {"streams.num.standby.replicas": "1"})[0] == 0
        server.kill()
        server.restart()
        with RawKafka(first_of(server.kafka_port)) as raw:
            admin = ConfigAdmin(raw)
            topic = admin.describe(TOPIC, "t")
            assert topic["retention.ms"].synonyms[0] == ("log.retention.ms", "90000", OF_CLUSTER)
            assert topic["max.message.bytes"].value == "2000"
            assert raw.produce("t", make_batch(b"x" * 2500)).error_code == 10
            group = admin.describe(GROUP, "g")
            assert group["consumer.heartbeat.interval.ms"].value == "7000"
            assert group["streams.num.standby.replicas"].value == "1"
    finally:
        server.close()
