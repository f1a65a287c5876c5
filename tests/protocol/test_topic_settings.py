"""Settings of topics, as Apache Kafka 4.3 has them."""

from __future__ import annotations

import time

import pytest
from kio.schema.errors import ErrorCode

from goqueue.records import Compression
from goqueue.wire.kafka.api_keys import ApiKey
from protocol.config_admin import DELETE, OF_TOPIC, TOPIC, ConfigAdmin, eventually
from protocol.raw_kafka import RawKafka, make_batch

LONG = "9223372036854775807"

KAFKA_4_3 = {
    "cleanup.policy": 7,
    "compression.gzip.level": 3,
    "compression.lz4.level": 3,
    "compression.type": 2,
    "compression.zstd.level": 3,
    "delete.retention.ms": 5,
    "file.delete.delay.ms": 5,
    "flush.messages": 5,
    "flush.ms": 5,
    "follower.replication.throttled.replicas": 7,
    "index.interval.bytes": 3,
    "leader.replication.throttled.replicas": 7,
    "local.retention.bytes": 5,
    "local.retention.ms": 5,
    "max.compaction.lag.ms": 5,
    "max.message.bytes": 3,
    "message.timestamp.after.max.ms": 5,
    "message.timestamp.before.max.ms": 5,
    "message.timestamp.type": 2,
    "min.cleanable.dirty.ratio": 6,
    "min.compaction.lag.ms": 5,
    "min.insync.replicas": 3,
    "preallocate": 1,
    "remote.log.copy.disable": 1,
    "remote.log.delete.on.disable": 1,
    "remote.storage.enable": 1,
    "retention.bytes": 5,
    "retention.ms": 5,
    "segment.bytes": 3,
    "segment.index.bytes": 3,
    "segment.jitter.ms": 5,
    "segment.ms": 5,
    "unclean.leader.election.enable": 1,
}
"""Every topic setting of Kafka 4.3, and its type."""


@pytest.fixture
def admin(raw: RawKafka) -> ConfigAdmin:
    return ConfigAdmin(raw)


@pytest.fixture
def topic(admin, name) -> str:
    return admin.create_and_wait(name("settings"))


def test_every_setting_of_kafka_is_shown_with_its_type(admin, topic):
    found = admin.describe(TOPIC, topic)
    kinds = {name: entry.kind for name, entry in found.items() if name in KAFKA_4_3}
    assert kinds == KAFKA_4_3
    assert all(found[name].documentation for name in KAFKA_4_3)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", "compact, delete"),
        ("compression.gzip.level", "9"),
        ("compression.gzip.level", "-1"),
        ("compression.lz4.level", "17"),
        ("compression.zstd.level", "22"),
        ("compression.zstd.level", "-131072"),
        ("file.delete.delay.ms", "0"),
        ("flush.messages", "1"),
        ("flush.ms", "0"),
        ("follower.replication.throttled.replicas", "*"),
        ("follower.replication.throttled.replicas", "0:1,1:2"),
        ("index.interval.bytes", "0"),
        ("internal.segment.bytes", "1024"),
        ("leader.replication.throttled.replicas", ""),
        ("local.retention.bytes", "-1"),
        ("local.retention.ms", "1000"),
        ("max.message.bytes", "2147483647"),
        ("min.insync.replicas", "3"),
        ("preallocate", "TRUE"),
        ("remote.log.copy.disable", "true"),
        ("remote.log.delete.on.disable", "true"),
        ("remote.storage.enable", "false"),
        ("retention.ms", " 5 "),
        ("segment.bytes", "1048576"),
        ("segment.index.bytes", "4"),
        ("unclean.leader.election.enable", "true"),
    ],
)
def test_values_that_kafka_accepts_are_accepted(admin, topic, setting, value):
    assert admin.change(TOPIC, topic, {setting: value}) == (ErrorCode.none, None)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("cleanup.policy", "compress"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "0"),
        ("compression.lz4.level", "18"),
        ("compression.type", "GZIP"),
        ("compression.zstd.level", "23"),
        ("delete.retention.ms", "-1"),
        ("file.delete.delay.ms", "-1"),
        ("flush.messages", "0"),
        ("flush.ms", "-1"),
        ("follower.replication.throttled.replicas", "none"),
        ("index.interval.bytes", "-1"),
        ("local.retention.ms", "-3"),
        ("max.compaction.lag.ms", "0"),
        ("max.message.bytes", "-1"),
        ("max.message.bytes", "2147483648"),
        ("message.timestamp.type", "append"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.compaction.lag.ms", "-1"),
        ("min.insync.replicas", "0"),
        ("preallocate", "yes"),
        ("remote.log.copy.disable", "1"),
        ("remote.storage.enable", "true"),
        ("retention.ms", ""),
        ("retention.ms", "-2"),
        ("retention.ms", "1_000"),
        ("retention.ms", "9223372036854775808"),
        ("segment.bytes", "1024"),
        ("segment.index.bytes", "3"),
        ("segment.jitter.ms", "-1"),
        ("segment.ms", "0"),
        ("unclean.leader.election.enable", "maybe"),
    ],
)
def test_values_that_kafka_refuses_are_refused(admin, topic, name, setting, value):
    code, message = admin.change(TOPIC, topic, {setting: value})
    assert code is ErrorCode.invalid_config
    if setting != "remote.storage.enable":
        assert setting in message
        assert value in message
    assert admin.create(name("refused"), {setting: value})[0] is ErrorCode.invalid_config
    assert admin.describe(TOPIC, topic, setting)[setting].source != OF_TOPIC


@pytest.mark.parametrize(
    "setting",
    [
        "no.such",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.difference.max.ms",
        "log.retention.ms",
    ],
)
def test_names_that_kafka_4_does_not_know_are_refused(admin, topic, name, setting):
    code, message = admin.change(TOPIC, topic, {setting: "1"})
    assert code is ErrorCode.invalid_config
    assert setting in message
    assert admin.replace(TOPIC, topic, {setting: "1"})[0] is ErrorCode.invalid_config
    assert admin.create(name("refused"), {setting: "1"})[0] is ErrorCode.invalid_config


def test_a_topic_is_not_made_with_a_setting_without_value(admin, name):
    code, message = admin.create(name("null"), {"retention.ms": None})
    assert code is ErrorCode.invalid_config
    assert "retention.ms" in message


def test_settings_that_contradict_each_other_are_refused(admin, topic):
    lags = {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "50"}
    code, message = admin.change(TOPIC, topic, lags)
    assert code is ErrorCode.invalid_config
    assert all(name in message for name in lags)


def test_settings_that_are_asked_for_by_no_name_are_all_told(raw, topic):
    resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": []}
    (result,) = raw.ask(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        resources=[resource],
        include_synonyms=False,
        include_documentation=False,
    ).results
    assert {each.name for each in result.configs} >= KAFKA_4_3.keys()
    assert not any(each.synonyms for each in result.configs)


# --- Names that collide ---------------------------------------------------------------------------


def test_a_name_that_differs_only_in_dots_and_underscores_is_refused(admin, name):
    stem = name("a").replace("-", ".")
    assert admin.create(f"{stem}.b_c")[0] is ErrorCode.none
    code, message = admin.create(f"{stem}_b.c")
    assert code is ErrorCode.invalid_topic_exception
    assert f"{stem}.b_c" in message
    assert admin.create(f"{stem}.b_c")[0] is ErrorCode.topic_already_exists
    assert admin.create(f"{stem}-b_c")[0] is ErrorCode.none


# --- What topics do with them ---------------------------------------------------------------------


def _delete_records(raw: RawKafka, topic: str) -> ErrorCode:
    partition = {"partition_index": 0, "offset": 1}
    answer = raw.ask(
        ApiKey.DELETE_RECORDS,
        2,
        topics=[{"name": topic, "partitions": [partition]}],
        timeout_ms=10_000,
    )
    return ErrorCode(answer.topics[0].partitions[0].error_code)


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("compact", ErrorCode.policy_violation),
        ("compact,delete", ErrorCode.none),
        ("delete", ErrorCode.none),
        ("", ErrorCode.none),
    ],
)
def test_records_of_a_topic_that_is_only_compacted_cannot_be_deleted(
    raw, admin, name, policy, code
):
    topic = admin.create_and_wait(name("trimmed"), {"cleanup.policy": policy})
    assert raw.produce(topic, make_batch(b"v")).error_code == 0
    assert _delete_records(raw, topic) is code


_TEXT = [b"%d" % number * 50 for number in range(400)]


@pytest.mark.parametrize("codec", ["gzip", "lz4"])
def test_batches_are_compressed_at_the_level_of_the_topic(raw, admin, name, codec):
    sizes = []
    for level in ("1", "9"):
        config = {"compression.type": codec, f"compression.{codec}.level": level}
        topic = admin.create_and_wait(name("levels"), config)
        batch = make_batch(*_TEXT, timestamps=[time.time_ns() // 1_000_000] * len(_TEXT))
        assert raw.produce(topic, batch).error_code == 0
        (stored,) = raw.stored(topic)
        assert stored.compression == Compression[codec.upper()]
        sizes.append(stored.size_bytes)
    assert sizes[1] < sizes[0]


def test_a_topic_with_an_empty_policy_says_so_and_takes_its_default_back(admin, name):
    topic = admin.create_and_wait(name("kept"), {"cleanup.policy": ""})

    def policy():
        return admin.describe(TOPIC, topic, "cleanup.policy")["cleanup.policy"].value

    assert policy() == ""
    assert admin.change(TOPIC, topic, {"cleanup.policy": None}, DELETE)[0] is ErrorCode.none
    eventually(policy, "delete")
