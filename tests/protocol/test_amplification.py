"""Small requests for large answers, and large requests: answered once, in turns, and bounded."""

from __future__ import annotations

import time

import pytest
from kio.schema.errors import ErrorCode

from goqueue.protocols.kafka.limits import MAX_CREATED_PARTITIONS
from goqueue.protocols.kafka.records.fetch import MAX_PARTITIONS_A_FETCH
from goqueue.protocols.kafka.topics.metadata import BURST, PER_S, CreationRate
from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka, fetch_fields, make_batch

TIMES = 2000
TOPIC_RESOURCE = 2


@pytest.fixture
def topic(raw, name):
    made = name("named")
    raw.create(made, 4)
    return made


def metadata(raw: RawKafka, names: list[str], *, create: bool = False):
    return raw.ask(
        ApiKey.METADATA,
        9,
        topics=[{"name": each} for each in names],
        allow_auto_topic_creation=create,
        include_topic_authorized_operations=False,
        include_cluster_authorized_operations=False,
    ).topics


# --- What is named over and over is answered once -------------------------------------------------


def test_metadata_tells_a_topic_once_however_often_it_is_named(raw, topic):
    missing = f"{topic}-missing"
    topics = metadata(raw, [topic, missing] * TIMES)
    assert [(each.name, len(each.partitions)) for each in topics] == [(topic, 4), (missing, 0)]


def test_describe_configs_tells_a_resource_once(raw, topic):
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configuration_keys": None}
    answer = raw.ask(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        resources=[resource] * TIMES,
        include_synonyms=True,
        include_documentation=True,
    )
    (result,) = answer.results
    assert result.resource_name == topic
    assert "retention.ms" in {config.name for config in result.configs}


def test_find_coordinator_tells_a_key_once(raw):
    answer = raw.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["a", "b"] * TIMES)
    assert [each.key for each in answer.coordinators] == ["a", "b"]


def test_describe_groups_tells_a_group_once(raw):
    answer = raw.ask(
        ApiKey.DESCRIBE_GROUPS, 5, groups=["g"] * TIMES, include_authorized_operations=False
    )
    assert [each.group_id for each in answer.groups] == ["g"]


def test_offset_fetch_tells_a_group_once(raw):
    answer = raw.ask(
        ApiKey.OFFSET_FETCH,
        8,
        groups=[{"group_id": "g", "topics": None}] * TIMES,
        require_stable=False,
    )
    assert [each.group_id for each in answer.groups] == ["g"]


def test_describe_log_dirs_tells_a_topic_once(raw, topic):
    asked = [{"topic": topic, "partitions": [0, 1]}] * TIMES
    answer = raw.ask(ApiKey.DESCRIBE_LOG_DIRS, 2, topics=asked)
    ((told,),) = [each.topics for each in answer.results]
    assert [each.partition_index for each in told.partitions] == [0, 1]


def test_a_resource_that_is_to_be_changed_twice_is_refused_once(raw, topic):
    change = {"name": "retention.ms", "value": "1000", "config_operation": 0}
    resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic, "configs": [change]}
    answer = raw.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource] * 3, validate_only=False
    )
    (result,) = answer.responses
    assert result.error_code == ErrorCode.invalid_request
    assert "more than once" in result.error_message


# --- Topics are made at a rate --------------------------------------------------------------------


def test_one_metadata_request_makes_a_bounded_number_of_topics(raw, name):
    stem = name("wanted")
    began_s = time.monotonic()
    topics = metadata(raw, [f"{stem}-{number}" for number in range(2 * BURST)], create=True)
    refilled = PER_S * (time.monotonic() - began_s)
    codes = [each.error_code for each in topics]
    assert set(codes) <= {ErrorCode.none, ErrorCode.unknown_topic_or_partition}
    assert codes[0] == ErrorCode.none
    assert codes.count(ErrorCode.none) <= BURST + refilled + 1
    # What was not made yet is made for a client that asks again.
    late = f"{stem}-{2 * BURST - 1}"
    while metadata(raw, [late], create=True)[0].error_code != ErrorCode.none:
        pass


def test_the_rate_fills_up_again():
    rate = CreationRate(now_s=0.0)
    assert [rate.take(0.0) for _ in range(BURST + 1)] == [True] * BURST + [False]
    assert rate.take(1.0)
    assert sum(rate.take(1_000_000.0) for _ in range(2 * BURST)) == BURST


def test_one_request_makes_as_many_partitions_as_in_kafka(raw, name):
    stem = name("many")
    half = MAX_CREATED_PARTITIONS // 2
    topics = [
        {
            "name": f"{stem}-{number}",
            "num_partitions": half,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        for number in range(3)
    ]
    answer = raw.ask(ApiKey.CREATE_TOPICS, 7, topics=topics, timeout_ms=60_000, validate_only=False)
    assert {each.error_code for each in answer.topics} == {ErrorCode.policy_violation}
    assert metadata(raw, [f"{stem}-0"])[0].error_code == ErrorCode.unknown_topic_or_partition


# --- Large requests are served like others --------------------------------------------------------


@pytest.fixture(scope="module")
def wide(broker):
    with RawKafka(broker.kafka_port) as client:
        client.create("wide", 700)
    return "wide"


def test_a_produce_request_for_many_partitions_is_stored_in_all_of_them(raw, wide):
    data = [{"index": number, "records": make_batch(b"v")} for number in range(700)]
    answer = raw.ask(
        ApiKey.PRODUCE,
        9,
        transactional_id=None,
        acks=-1,
        timeout_ms=60_000,
        topic_data=[{"name": wide, "partition_data": data}],
    )
    (result,) = answer.responses
    assert [each.index for each in result.partition_responses] == list(range(700))
    assert {each.error_code for each in result.partition_responses} == {0}
    read = raw.ask(ApiKey.FETCH, 11, **fetch_fields([(wide, number, 0) for number in range(700)]))
    (fetched,) = read.responses
    assert sum(bool(each.records) for each in fetched.partitions) == 700


def test_offsets_of_many_partitions_are_committed_and_found(raw, wide, name):
    group = name("group")
    partitions = [
        {
            "partition_index": number,
            "committed_offset": number,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        for number in range(700)
    ]
    answer = raw.ask(
        ApiKey.OFFSET_COMMIT,
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": wide, "partitions": partitions}],
    )
    assert {each.error_code for each in answer.topics[0].partitions} == {0}
    found = raw.ask(
        ApiKey.OFFSET_FETCH,
        7,
        group_id=group,
        topics=[{"name": wide, "partition_indexes": list(range(700))}],
        require_stable=False,
    )
    offsets = {each.partition_index: each.committed_offset for each in found.topics[0].partitions}
    assert offsets == {number: number for number in range(700)}


def test_a_fetch_of_too_many_partitions_is_refused(raw, topic):
    wanted = [(topic, number, 0) for number in range(MAX_PARTITIONS_A_FETCH + 1)]
    answer = raw.ask(ApiKey.FETCH, 11, **fetch_fields(wanted, max_wait_ms=0))
    assert answer.error_code == ErrorCode.invalid_request


def test_a_fetch_of_partitions_that_do_not_exist_says_so_of_each(raw, topic):
    wanted = [(topic, number, 0) for number in range(1000)]
    answer = raw.ask(ApiKey.FETCH, 11, **fetch_fields(wanted, max_wait_ms=0))
    (told,) = answer.responses
    codes = {each.partition_index: each.error_code for each in told.partitions}
    assert [codes[number] for number in range(4)] == [0] * 4
    assert {codes[number] for number in range(4, 1000)} == {3}
