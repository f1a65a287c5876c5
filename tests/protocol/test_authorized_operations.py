"""Which operations clients are told that they may do, where nobody is asked for rights."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from goqueue.wire.kafka.api_keys import ApiKey

NOT_ASKED = -(1 << 31)
READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = range(3, 10)
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(10, 13)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


OF_TOPIC = _bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
OF_GROUP = _bits(READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
OF_CLUSTER = _bits(
    CREATE,
    ALTER,
    DESCRIBE,
    CLUSTER_ACTION,
    DESCRIBE_CONFIGS,
    ALTER_CONFIGS,
    IDEMPOTENT_WRITE,
)


@pytest.mark.parametrize("version", range(8, 14))
@pytest.mark.parametrize("asked", [False, True])
def test_metadata_tells_what_may_be_done_to_topics_and_the_cluster(raw, name, version, asked):
    topic, absent = name("operations"), name("absent")
    raw.create(topic)
    fields = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": asked}
    has_cluster = version <= 10
    if has_cluster:
        fields["include_cluster_authorized_operations"] = asked
    topics = [{"name": each, "topic_id": None} for each in (topic, absent)]
    answer = raw.ask(ApiKey.METADATA, version, topics=topics, **fields)
    told = [each.topic_authorized_operations for each in answer.topics]
    assert told == [OF_TOPIC if asked else NOT_ASKED] * 2
    if has_cluster:
        expected = OF_CLUSTER if asked else NOT_ASKED
        assert answer.cluster_authorized_operations == expected


@pytest.mark.parametrize("asked", [False, True])
def test_describing_the_cluster_tells_what_may_be_done_to_it(raw, asked):
    answer = raw.ask(
        ApiKey.DESCRIBE_CLUSTER,
        2,
        include_cluster_authorized_operations=asked,
        endpoint_type=1,
        include_fenced_brokers=False,
    )
    assert answer.cluster_authorized_operations == (OF_CLUSTER if asked else NOT_ASKED)


def test_describing_partitions_tells_what_may_be_done_to_the_topic(raw, name):
    topic = name("operations")
    raw.create(topic)
    answer = raw.ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        topics=[{"name": topic}],
        response_partition_limit=10,
        cursor=None,
    )
    assert [each.topic_authorized_operations for each in answer.topics] == [OF_TOPIC]


@pytest.mark.parametrize(
    ("protocol", "key", "version", "field"),
    [
        ("classic", ApiKey.DESCRIBE_GROUPS, 5, "groups"),
        ("consumer", ApiKey.CONSUMER_GROUP_DESCRIBE, 1, "group_ids"),
    ],
)
def test_describing_a_group_tells_what_may_be_done_to_it(  # noqa: PLR0917 - a row of the table
    broker, raw, name, protocol, key, version, field
):
    topic, group = name("operations"), name("group")
    raw.create(topic)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.kafka_address,
            "group.id": group,
            "group.protocol": protocol,
            "log_level": 0,
        }
    )
    try:
        consumer.subscribe([topic])
        for _ in range(100):
            consumer.poll(0.2)
            if consumer.assignment():
                break
        for asked in (False, True):
            fields = {field: [group], "include_authorized_operations": asked}
            (found,) = raw.ask(key, version, **fields).groups
            assert found.error_code == 0
            assert found.authorized_operations == (OF_GROUP if asked else NOT_ASKED)
    finally:
        consumer.close()


@pytest.mark.parametrize("key", [ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_DESCRIBE])
def test_of_a_group_that_does_not_exist_nothing_is_told(raw, name, key):
    fields = {"group_ids": [name("absent")], "include_authorized_operations": True}
    (found,) = raw.ask(key, 1, **fields).groups
    assert found.authorized_operations == NOT_ASKED
