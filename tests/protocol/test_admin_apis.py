"""The administration that one node answers without doing much: as Apache Kafka 4 answers it."""

from __future__ import annotations

import logging

import pytest
from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition, admin
from kafka.admin import KafkaAdminClient
from kio.schema.errors import ErrorCode

from goqueue.wire.kafka.api_keys import ApiKey
from support.server import node_ids, siblings

WAIT_S = 90
NODE = 1
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture
def topic(raw, name):
    made = name("admin")
    raw.create(made, 3)
    return made


@pytest.fixture(scope="module")
def confluent(broker):
    return admin.AdminClient(
        {"bootstrap.servers": broker.kafka_address}, logger=logging.getLogger("librdkafka")
    )


@pytest.fixture(scope="module")
def python_admin(broker):
    client = KafkaAdminClient(bootstrap_servers=broker.kafka_address)
    yield client
    client.close()


def _codes(results):
    return [ErrorCode(each.error_code) for each in results]


# --- ACLs ----------------------------------------------------------------------------------------


ANY_ACL = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
NEW_ACL = {
    "resource_type": 2,
    "resource_name": "t",
    "resource_pattern_type": 3,
    "principal": "User:a",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rules_are_refused_while_there_is_no_authorizer(raw, version):
    described = raw.ask(ApiKey.DESCRIBE_ACLS, version, **ANY_ACL)
    assert described.error_code == ErrorCode.security_disabled
    assert "authorizer" in described.error_message
    created = raw.ask(ApiKey.CREATE_ACLS, version, creations=[NEW_ACL, NEW_ACL])
    assert _codes(created.results) == [ErrorCode.security_disabled] * 2
    deleted = raw.ask(ApiKey.DELETE_ACLS, version, filters=[ANY_ACL, ANY_ACL])
    assert _codes(deleted.filter_results) == [ErrorCode.security_disabled] * 2


def test_confluent_hears_that_security_is_disabled(confluent):
    rule = admin.AclBinding(
        admin.ResourceType.TOPIC,
        "t",
        admin.ResourcePatternType.LITERAL,
        "User:a",
        "*",
        admin.AclOperation.READ,
        admin.AclPermissionType.ALLOW,
    )
    with pytest.raises(KafkaException) as caught:
        confluent.create_acls([rule])[rule].result(WAIT_S)
    assert caught.value.args[0].code() == KafkaError.SECURITY_DISABLED


# --- Quotas --------------------------------------------------------------------------------------


def _component(kind, match_type=2, match=None):
    return {"entity_type": kind, "match_type": match_type, "match": match}


def _quota(entity, *ops):
    return {
        "entity": [{"entity_type": kind, "entity_name": who} for kind, who in entity],
        "ops": [{"key": key, "value": 1024.0, "remove": remove} for key, remove in ops],
    }


@pytest.mark.parametrize(
    "components",
    [
        [_component("user"), _component("user")],
        [_component("")],
        [_component("user", 3)],
        [_component("ip"), _component("user")],
    ],
)
def test_a_filter_of_quotas_that_makes_no_sense_is_refused(raw, components):
    answer = raw.ask(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=components, strict=True)
    assert answer.error_code == ErrorCode.invalid_request
    assert answer.error_message


@pytest.mark.parametrize("version", [0, 1])
def test_a_quota_that_cannot_be_is_refused(raw, version):
    entries = [
        _quota([("user", "alice"), ("client-id", None)], ("consumer_byte_rate", True)),
        _quota([("user", "alice")], ("no_such_rate", False)),
        _quota([("ip", "10.0.0.1")], ("connection_creation_rate", False)),
        _quota([("planet", "mars")], ("producer_byte_rate", True)),
        _quota([("user", "a"), ("user", "b")], ("producer_byte_rate", True)),
    ]
    answer = raw.ask(ApiKey.ALTER_CLIENT_QUOTAS, version, entries=entries, validate_only=False)
    assert _codes(answer.entries) == [ErrorCode.none] + [ErrorCode.invalid_request] * 4
    assert [each.entity[0].entity_name for each in answer.entries][:1] == ["alice"]


# --- Leaders and replicas ------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
def test_no_partition_needs_an_election(raw, topic, version):
    answer = raw.ask(
        ApiKey.ELECT_LEADERS,
        version,
        election_type=0,
        topic_partitions=[
            {"topic": topic, "partitions": [0, 2, 7]},
            {"topic": "nowhere", "partitions": [0]},
        ],
        timeout_ms=1000,
    )
    first, second = answer.replica_election_results
    assert [each.partition_id for each in first.partition_result] == [0, 2, 7]
    assert _codes(first.partition_result) == [
        ErrorCode.election_not_needed,
        ErrorCode.election_not_needed,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert _codes(second.partition_result) == [ErrorCode.unknown_topic_or_partition]
    everything = raw.ask(
        ApiKey.ELECT_LEADERS, version, election_type=0, topic_partitions=None, timeout_ms=1000
    )
    assert not [each for topic in everything.replica_election_results for each in topic[1]]


def test_an_election_of_an_unknown_kind_is_refused(raw):
    answer = raw.ask(
        ApiKey.ELECT_LEADERS, 2, election_type=5, topic_partitions=None, timeout_ms=1000
    )
    assert answer.error_code == ErrorCode.invalid_request


def test_confluent_hears_that_no_election_is_needed(confluent, topic):
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    found = confluent.elect_leaders(ElectionType.PREFERRED, partitions).result(WAIT_S)
    codes = {place.partition: error.code() for place, error in found.items()}
    assert codes == dict.fromkeys((0, 1), KafkaError.ELECTION_NOT_NEEDED)


@pytest.mark.parametrize("version", [0, 1])
def test_replicas_can_only_be_where_they_are(raw, topic, version):
    asked = [(0, [NODE]), (1, None), (2, [2]), (0, []), (0, [NODE, NODE]), (9, [NODE])]
    answer = raw.ask(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        version,
        timeout_ms=1000,
        allow_replication_factor_change=True,
        topics=[
            {
                "name": topic,
                "partitions": [
                    {"partition_index": number, "replicas": replicas} for number, replicas in asked
                ],
            },
            {"name": "nowhere", "partitions": [{"partition_index": 0, "replicas": None}]},
        ],
    )
    first, second = answer.responses
    assert _codes(first.partitions) == [
        ErrorCode.none,
        ErrorCode.no_reassignment_in_progress,
        ErrorCode.invalid_replica_assignment,
        ErrorCode.invalid_replica_assignment,
        ErrorCode.invalid_replica_assignment,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert _codes(second.partitions) == [ErrorCode.unknown_topic_or_partition]
    listed = raw.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, timeout_ms=1000, topics=None)
    assert (listed.error_code, list(listed.topics)) == (0, [])


# --- The quorum and features ---------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_node_is_in_the_quorum(raw, broker, version):
    asked = [
        {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]},
        {"topic_name": "other", "partitions": [{"partition_index": 0}]},
    ]
    answer = raw.ask(ApiKey.DESCRIBE_QUORUM, version, topics=asked)
    ((metadata,), (other,)) = [each.partitions for each in answer.topics]
    nodes = node_ids(broker.kafka_port)
    assert metadata.error_code == 0
    assert metadata.leader_id in nodes
    assert metadata.high_watermark > 0
    assert [each.replica_id for each in metadata.current_voters] == nodes
    assert other.error_code == ErrorCode.unknown_topic_or_partition
    if version == 2:
        ports = [each.port for node in answer.nodes for each in node.listeners]
        assert ports == list(siblings(broker.kafka_port))


def test_the_features_of_the_cluster_are_finalised(raw):
    software = {"client_software_name": "test", "client_software_version": "1"}
    answer = raw.ask(ApiKey.API_VERSIONS, 4, **software)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    assert levels["group.version"] == 1
    assert levels["metadata.version"] == 30
    assert levels["share.version"] == 1
    supported = {each.name: each for each in answer.supported_features}
    assert set(supported) == set(levels)
    older = raw.ask(ApiKey.API_VERSIONS, 3, **software)
    assert [each.name for each in older.supported_features] == ["metadata.version"]
    assert all(each.min_version for each in older.supported_features)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_levels_of_features_belong_to_the_release(raw, version):
    def update(name, level):
        answer = raw.ask(
            ApiKey.UPDATE_FEATURES,
            version,
            timeout_ms=1000,
            feature_updates=[
                {
                    "feature": name,
                    "max_version_level": level,
                    "upgrade_type": 1,
                    "allow_downgrade": False,
                }
            ],
            validate_only=False,
        )
        if version == 2:
            return ErrorCode(answer.error_code)
        assert answer.error_code == 0
        (result,) = answer.results
        assert result.feature == name
        return ErrorCode(result.error_code)

    assert update("share.version", 1) is ErrorCode.none
    assert update("share.version", 2) is ErrorCode.invalid_update_version
    assert update("share.version", 0) is ErrorCode.feature_update_failed
    assert update("no.such.version", 1) is ErrorCode.invalid_update_version


# --- Settings and topics in lists ----------------------------------------------------------------


def _resources(answer):
    return {(each.resource_type, each.resource_name) for each in answer.config_resources}


def test_what_has_settings_is_listed(raw, topic):
    nodes = {(BROKER, str(each)) for each in node_ids(raw.port)}
    answer = raw.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[])
    assert {(TOPIC, topic), *nodes} <= _resources(answer)
    of_broker = raw.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[BROKER, BROKER])
    assert _resources(of_broker) == nodes
    unknown = raw.ask(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[TOPIC, 77])
    assert unknown.error_code == ErrorCode.unsupported_version
    metrics = raw.ask(ApiKey.LIST_CONFIG_RESOURCES, 0)
    assert (metrics.error_code, list(metrics.config_resources)) == (0, [])


def _pages(raw, topics, limit):
    """Every page, and the error of each topic."""
    cursor, codes, found = None, {}, []
    for _ in range(100):
        answer = raw.ask(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            0,
            topics=[{"name": each} for each in topics],
            response_partition_limit=limit,
            cursor=cursor,
        )
        for each in answer.topics:
            codes[each.name] = ErrorCode(each.error_code)
        page = [(each.name, p.partition_index) for each in answer.topics for p in each.partitions]
        assert len(page) <= limit
        found += page
        if answer.next_cursor is None:
            return found, codes
        cursor = {
            "topic_name": answer.next_cursor.topic_name,
            "partition_index": answer.next_cursor.partition_index,
        }
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 2000])
def test_partitions_are_described_page_by_page(raw, name, limit):
    topics = sorted(name("paged") for _ in range(3))
    for number, each in enumerate(topics):
        raw.create(each, number + 2)
    asked = [*topics, "paged-nowhere", "not a name", topics[0]]
    found, codes = _pages(raw, asked, limit)
    assert found == [(each, n) for number, each in enumerate(topics) for n in range(number + 2)]
    assert codes == {
        **dict.fromkeys(topics, ErrorCode.none),
        "paged-nowhere": ErrorCode.unknown_topic_or_partition,
        "not a name": ErrorCode.invalid_topic_exception,
    }


def test_every_topic_is_described_when_none_is_named(raw, topic):
    found, _ = _pages(raw, [], 2)
    assert [(topic, 0), (topic, 1), (topic, 2)] == [each for each in found if each[0] == topic]
    assert found == sorted(found)


def test_a_page_cannot_begin_before_the_first_partition(raw, topic):
    answer = raw.ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=[{"name": topic}],
        response_partition_limit=10,
        cursor={"topic_name": topic, "partition_index": -1},
    )
    assert _codes(answer.topics) == [ErrorCode.invalid_request]


def test_kafka_python_lists_what_there_is(python_admin, broker, topic):
    assert python_admin.describe_cluster()["controller_id"] in node_ids(broker.kafka_port)
    assert topic in python_admin.list_topics()
