"""Administration on the wire: one result for each item asked for, right or wrong."""

from __future__ import annotations

from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode

from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import make_batch, sequenced
from support.server import siblings

TOPIC, BROKER, CLUSTER_LINK = 2, 4, 77
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def topic(raw, name):
    made = name("admin")
    raw.create(made, 2)
    return made


def _codes(results):
    return [ErrorCode(each.error_code) for each in results]


def _new(topic, partitions=1, replication=1, assignments=(), **configs):
    return {
        "name": topic,
        "num_partitions": partitions,
        "replication_factor": replication,
        "assignments": [
            {"partition_index": number, "broker_ids": replicas} for number, replicas in assignments
        ],
        "configs": [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()],
    }


@pytest.mark.parametrize("version", range(2, 8))
def test_every_topic_to_be_made_has_a_result(raw, topic, name, version):
    good, twice = name("made"), name("made")
    asked = [
        _new(good, 2, retention_ms="1000"),
        _new(topic),
        _new("not a name"),
        _new("__queue_state"),
        _new(twice),
        _new(twice),
        _new(name("made"), 0),
        _new(name("made"), replication=7),
        _new(name("made"), no_such="1"),
        _new(name("made"), -1, -1, assignments=[(0, [7])]),
        _new(name("made"), -1, -1, assignments=[(1, [1])]),
    ]
    answer = raw.ask(
        ApiKey.CREATE_TOPICS, version, topics=asked, timeout_ms=1000, validate_only=False
    )
    assert [each.name for each in answer.topics] == [each["name"] for each in asked]
    assert _codes(answer.topics) == [
        ErrorCode.none,
        ErrorCode.topic_already_exists,
        ErrorCode.invalid_topic_exception,
        ErrorCode.invalid_topic_exception,
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
        ErrorCode.invalid_partitions,
        ErrorCode.invalid_replication_factor,
        ErrorCode.invalid_config,
        ErrorCode.invalid_replica_assignment,
        ErrorCode.invalid_replica_assignment,
    ]
    assert answer.topics[0].error_message is None
    assert all(each.error_message for each in answer.topics[1:])
    if version >= 5:
        made = answer.topics[0]
        assert (made.num_partitions, made.replication_factor) == (2, 1)
        settings = {each.name: (each.value, each.config_source) for each in made.configs}
        assert settings["retention.ms"] == ("1000", 1)
        assert settings["cleanup.policy"] == ("delete", 5)


@pytest.mark.parametrize("version", range(1, 6))
def test_every_topic_to_be_deleted_has_a_result(raw, topic, name, version):
    names = [topic, name("absent"), "__consumer_offsets"]
    answer = raw.ask(ApiKey.DELETE_TOPICS, version, topic_names=names, timeout_ms=1000)
    assert [each.name for each in answer.responses] == names
    codes = _codes(answer.responses)
    assert codes[:2] == [ErrorCode.none, ErrorCode.unknown_topic_or_partition]
    assert codes[2] in {ErrorCode.invalid_topic_exception, ErrorCode.unknown_topic_or_partition}


def test_topics_are_deleted_by_id(raw, name):
    topic = name("by-id")
    topic_id = raw.create(topic)
    asked = [{"name": None, "topic_id": each} for each in (topic_id, topic_id, uuid4())]
    answer = raw.ask(ApiKey.DELETE_TOPICS, 6, topics=asked, timeout_ms=1000)
    assert _codes(answer.responses) == [
        ErrorCode.none,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_id,
    ]
    assert answer.responses[0].name == topic


@pytest.mark.parametrize("version", range(4))
def test_every_topic_to_be_grown_has_a_result(raw, topic, name, version):
    less, more, away, placed = (name(each) for each in ("less", "more", "away", "placed"))
    for each in (more, away, placed):
        raw.create(each)
    raw.create(less, 3)
    asked = [
        {"name": topic, "count": 4, "assignments": None},
        {"name": name("absent"), "count": 4, "assignments": None},
        {"name": less, "count": 2, "assignments": None},
        {"name": more, "count": 3, "assignments": [{"broker_ids": [1]}]},
        {"name": away, "count": 2, "assignments": [{"broker_ids": [9]}]},
        {"name": placed, "count": 2, "assignments": [{"broker_ids": [1]}]},
    ]
    fields = {"topics": asked, "timeout_ms": 1000, "validate_only": False}
    answer = raw.ask(ApiKey.CREATE_PARTITIONS, version, **fields)
    assert [each.name for each in answer.results] == [each["name"] for each in asked]
    assert _codes(answer.results) == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_partitions,
        ErrorCode.invalid_replica_assignment,
        ErrorCode.invalid_replica_assignment,
        ErrorCode.none,
    ]


@pytest.mark.parametrize("version", range(3))
def test_every_partition_to_be_trimmed_has_a_result(raw, topic, name, version):
    absent = name("absent")
    raw.produce(topic, make_batch(b"a", b"b", b"c"))
    asked = [
        {
            "name": topic,
            "partitions": [
                {"partition_index": 0, "offset": 2},
                {"partition_index": 1, "offset": -1},
                {"partition_index": 1, "offset": 5},
                {"partition_index": 0, "offset": -3},
                {"partition_index": 7, "offset": 0},
            ],
        },
        {"name": absent, "partitions": [{"partition_index": 0, "offset": 0}]},
    ]
    answer = raw.ask(ApiKey.DELETE_RECORDS, version, topics=asked, timeout_ms=1000)
    assert [
        (each.name, [(p.partition_index, p.low_watermark) for p in each.partitions])
        for each in answer.topics
    ] == [(topic, [(0, 2), (1, 0), (1, -1), (0, -1), (7, -1)]), (absent, [(0, -1)])]
    out, unknown = ErrorCode.offset_out_of_range, ErrorCode.unknown_topic_or_partition
    assert _codes(answer.topics[0].partitions) == [0, 0, out, out, unknown]
    assert _codes(answer.topics[1].partitions) == [unknown]
    assert raw.fetch(topic, 1, max_wait_ms=0).error_code == out
    assert raw.fetch(topic, 2).log_start_offset == 2


# --- Settings -------------------------------------------------------------------------------------


def _describe(raw, *resources, version=4, keys=None, **options):
    return raw.ask(
        ApiKey.DESCRIBE_CONFIGS,
        version,
        resources=[
            {"resource_type": kind, "resource_name": each, "configuration_keys": keys}
            for kind, each in resources
        ],
        **{"include_synonyms": False, "include_documentation": False, **options},
    ).results


@pytest.mark.parametrize("version", range(1, 5))
def test_every_resource_to_be_described_has_a_result(raw, topic, name, version):
    asked = [(TOPIC, topic), (TOPIC, name("absent")), (BROKER, "1"), (BROKER, "9"), (77, "x")]
    results = _describe(raw, *asked, version=version)
    assert [(each.resource_type, each.resource_name) for each in results] == asked
    assert _codes(results) == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.none,
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
    ]
    assert [bool(each.configs) for each in results] == [True, False, True, False, False]


def test_settings_are_described_with_where_they_come_from(raw, name):
    topic = name("described")
    raw.create(topic, retention_ms="1000")
    keys = ["retention.ms", "cleanup.policy"]
    (plain,) = _describe(raw, (TOPIC, topic), keys=keys)
    assert {each.name: each.config_source for each in plain.configs} == {
        "retention.ms": 1,
        "cleanup.policy": 5,
    }
    assert all(each.synonyms == () and each.documentation is None for each in plain.configs)
    options = {"include_synonyms": True, "include_documentation": True}
    (full,) = _describe(raw, (TOPIC, topic), keys=keys, **options)
    by_name = {each.name: each for each in full.configs}
    assert [(s.value, s.source) for s in by_name["retention.ms"].synonyms] == [
        ("1000", 1),
        ("604800000", 5),
    ]
    assert all(each.documentation for each in full.configs)
    assert {each.name: each.config_type for each in full.configs} == {
        "retention.ms": 5,
        "cleanup.policy": 7,
    }


def _alter(raw, *resources, version=1, dry=False):
    return raw.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        version,
        resources=[
            {
                "resource_type": kind,
                "resource_name": each,
                "configs": [
                    {"name": key, "config_operation": operation, "value": value}
                    for key, operation, value in changes
                ],
            }
            for kind, each, changes in resources
        ],
        validate_only=dry,
    ).responses


@pytest.mark.parametrize("version", range(2))
def test_every_resource_to_be_changed_has_a_result(raw, topic, name, version):
    others = [name("other") for _ in range(6)]
    for each in others:
        raw.create(each)
    asked = [
        (TOPIC, topic, [("retention.ms", SET, "1000")]),
        (TOPIC, name("absent"), [("retention.ms", SET, "1000")]),
        (TOPIC, others[0], [("retention.ms", SET, "never")]),
        (TOPIC, others[1], [("no.such", SET, "1")]),
        (TOPIC, others[2], [("retention.ms", SUBTRACT, "1")]),
        (TOPIC, others[3], [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]),
        (TOPIC, others[4], [("retention.ms", 9, "1")]),
        (TOPIC, others[5], [("retention.ms", SET, None)]),
        (BROKER, "1", [("num.partitions", SET, "1")]),
        (CLUSTER_LINK, "x", []),
    ]
    responses = _alter(raw, *asked, version=version)
    assert [(each.resource_type, each.resource_name) for each in responses] == [
        (kind, each) for kind, each, _ in asked
    ]
    assert _codes(responses) == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_config,
        ErrorCode.invalid_config,
        ErrorCode.invalid_config,
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
        ErrorCode.invalid_request,
    ]
    assert all(each.error_message for each in responses[1:])
    (described,) = _describe(raw, (TOPIC, topic), keys=["retention.ms"])
    assert described.configs[0].value == "1000"


def test_what_is_named_twice_in_a_request_is_refused_once(raw, topic):
    grown = [{"name": topic, "count": count, "assignments": None} for count in (4, 5)]
    answer = raw.ask(
        ApiKey.CREATE_PARTITIONS, 3, topics=grown, timeout_ms=1000, validate_only=False
    )
    assert _codes(answer.results) == [ErrorCode.invalid_request]
    changed = (TOPIC, topic, [("retention.ms", SET, "1000")])
    assert _codes(_alter(raw, changed, changed)) == [ErrorCode.invalid_request]


def test_lists_are_appended_to_and_taken_from(raw, topic):
    def policy():
        (described,) = _describe(raw, (TOPIC, topic), keys=["cleanup.policy"])
        return described.configs[0].value

    for operation, value, expected in [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
        (DELETE, None, "delete"),
    ]:
        (done,) = _alter(raw, (TOPIC, topic, [("cleanup.policy", operation, value)]))
        assert (done.error_code, policy()) == (0, expected)


def test_a_change_that_is_only_checked_changes_nothing(raw, topic):
    changes = [("retention.ms", SET, "5")]
    assert _codes(_alter(raw, (TOPIC, topic, changes), dry=True)) == [ErrorCode.none]
    (described,) = _describe(raw, (TOPIC, topic), keys=["retention.ms"])
    assert described.configs[0].config_source == 5


@pytest.mark.parametrize("version", range(3))
def test_replacing_settings_answers_for_each_resource(raw, topic, name, version):
    config = [{"name": "retention.ms", "value": "7"}]
    asked = [(TOPIC, topic), (TOPIC, name("absent")), (BROKER, "9")]
    responses = raw.ask(
        ApiKey.ALTER_CONFIGS,
        version,
        resources=[
            {"resource_type": kind, "resource_name": each, "configs": config}
            for kind, each in asked
        ],
        validate_only=False,
    ).responses
    assert _codes(responses) == [
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_request,
    ]


# --- The node -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_all_nodes(broker, raw, version):
    fields = {
        "include_cluster_authorized_operations": False,
        "include_fenced_brokers": False,
        "endpoint_type": 1,
    }
    answer = raw.ask(ApiKey.DESCRIBE_CLUSTER, version, **fields)
    assert [(node.host, node.port) for node in answer.brokers] == [
        ("127.0.0.1", port) for port in siblings(broker.kafka_port)
    ]
    assert answer.controller_id in {each.broker_id for each in answer.brokers}
    if version >= 1:
        fields["endpoint_type"] = 2
        refused = raw.ask(ApiKey.DESCRIBE_CLUSTER, version, **fields)
        assert refused.error_code == ErrorCode.unsupported_endpoint_type


@pytest.mark.parametrize("version", range(1, 6))
def test_log_folders_are_described_with_the_sizes_of_partitions(broker, raw, topic, version):
    batch = make_batch(b"v" * 100)
    raw.produce(topic, batch, 1)
    asked = [{"topic": topic, "partitions": [0, 1]}, {"topic": "absent", "partitions": [0]}]
    (folder,) = raw.ask(ApiKey.DESCRIBE_LOG_DIRS, version, topics=asked).results
    assert folder.error_code == 0
    assert folder.log_dir in map(str, broker.data_dirs)
    (sizes,) = folder.topics
    assert [(p.partition_index, p.partition_size) for p in sizes.partitions] == [
        (0, 0),
        (1, len(batch)),
    ]
    (everything,) = raw.ask(ApiKey.DESCRIBE_LOG_DIRS, version, topics=None).results
    assert topic in {each.name for each in everything.topics}
    if version >= 4:
        assert 0 < folder.usable_bytes <= folder.total_bytes


def test_producers_are_described_for_each_partition_asked_for(raw, topic, name):
    absent = name("absent")
    raw.produce(topic, sequenced((900, 3), 0, b"a", b"b"))
    asked = [
        {"name": topic, "partition_indexes": [0, 1, 9]},
        {"name": absent, "partition_indexes": [0]},
    ]
    answer = raw.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=asked)
    first, second = answer.topics
    unknown = ErrorCode.unknown_topic_or_partition
    assert _codes(first.partitions) == [0, 0, unknown]
    assert _codes(second.partitions) == [unknown]
    (producer,) = first.partitions[0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (900, 3, 1)
    assert producer.last_timestamp == 1000
    assert first.partitions[1].active_producers == ()


@pytest.mark.parametrize("version", range(2, 5))
def test_the_end_of_an_epoch_is_found_for_each_partition(raw, topic, name, version):
    raw.produce(topic, make_batch(b"a", b"b"))
    absent = name("absent")

    def part(number, epoch, current=-1):
        return {"partition": number, "current_leader_epoch": current, "leader_epoch": epoch}

    asked = [
        {"topic": topic, "partitions": [part(0, 0), part(0, 5), part(9, 0), part(0, 0, 4)]},
        {"topic": absent, "partitions": [part(0, 0)]},
    ]
    answer = raw.ask(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, replica_id=-1, topics=asked)
    unknown = ErrorCode.unknown_topic_or_partition
    found = [
        (each.error_code, each.leader_epoch, each.end_offset)
        for topic_result in answer.topics
        for each in topic_result.partitions
    ]
    assert found == [
        (0, 0, 2),
        (0, -1, -1),
        (unknown, -1, -1),
        (ErrorCode.unknown_leader_epoch, -1, -1),
        (unknown, -1, -1),
    ]


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_of_everything_is_a_node(broker, raw, version):
    fields = {"key": "g", "key_type": 0, "coordinator_keys": ["g", "h"]}
    answer = raw.ask(ApiKey.FIND_COORDINATOR, version, **fields)
    found = [answer] if version < 4 else answer.coordinators
    assert [each.error_code for each in found] == [0] * len(found)
    assert {each.port for each in found} <= set(siblings(broker.kafka_port))
    if version >= 4:
        assert [each.key for each in found] == ["g", "h"]
    if version >= 1:
        answer = raw.ask(ApiKey.FIND_COORDINATOR, version, **{**fields, "key_type": 9})
        refused = [answer] if version < 4 else answer.coordinators
        assert {each.error_code for each in refused} == {ErrorCode.invalid_request}
