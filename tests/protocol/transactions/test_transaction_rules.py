"""Transactions byte by byte: Kafka's own codes for bad input, in every version of each API."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from goqueue.groups.shards import OFFSETS_TOPIC
from goqueue.records import TRANSACTIONAL, decode_rows, walk
from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka, fetch_fields, make_batch, produce_fields
from protocol.transactions.transactional_wire import Producer


@pytest.fixture
def topic(raw, name):
    found = name("t")
    raw.create(found, 2)
    return found


@pytest.fixture
def producer(raw, name):
    return Producer(raw, name("tx"))


def _readable(raw, topic, isolation=1, offset=0):
    return raw.fetch(topic, offset, max_wait_ms=0, isolation=isolation)


def _end_offset(raw, topic, isolation):
    answer = raw.ask(
        ApiKey.LIST_OFFSETS,
        7,
        replica_id=-1,
        isolation_level=isolation,
        topics=[{"name": topic, "partitions": [
            {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
        ]}],
    )  # fmt: skip
    return answer.topics[0].partitions[0].offset


# --- Every version --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(6))
def test_a_producer_is_given_its_id_in_every_version(raw, name, version):
    producer = Producer(raw, name("tx"))
    again = producer.init(version)
    assert (again.error_code, again.producer_id) == (0, producer.id)
    assert again.producer_epoch == producer.epoch + 1


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_in_every_version_of_clients(producer, topic, version):
    assert producer.add(topic, 0, 1, version=version) == {0: 0, 1: 0}


def with_one_coordinator(raw, name):
    """Two ids that one node coordinates, as a request may name: of four at three nodes some do."""
    wanted = [name("tx") for _ in range(4)]
    answer = raw.ask(ApiKey.FIND_COORDINATOR, 4, key_type=1, coordinator_keys=wanted)
    found = sorted(answer.coordinators, key=lambda each: each.node_id)
    pairs = itertools.pairwise(found)
    return next((a.key, b.key) for a, b in pairs if a.node_id == b.node_id)


@pytest.mark.parametrize("version", [4, 5])
def test_partitions_of_several_transactions_are_added_or_only_looked_at(raw, name, topic, version):
    producers = [Producer(raw, each) for each in with_one_coordinator(raw, name)]

    def ask(*, verify_only):
        answer = raw.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            transactions=[
                {
                    **each._fields(),
                    "verify_only": verify_only,
                    "topics": [{"name": topic, "partitions": [0]}],
                }
                for each in producers
            ],
        )
        return [
            found.topic_results[0].results_by_partition[0].partition_error_code
            for found in answer.results_by_transaction
        ]

    missing = ErrorCode.invalid_txn_state if version < 5 else ErrorCode.transaction_abortable
    assert ask(verify_only=True) == [missing, missing]
    assert ask(verify_only=False) == [0, 0]
    assert ask(verify_only=True) == [0, 0]


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_ends_in_every_version(raw, producer, topic, version):
    for committed in (True, False):
        producer.add(topic, 0)
        producer.send(topic, b"v")
        answer = producer.end(committed, version)
        assert answer.error_code == 0
        if version >= 5:
            assert (answer.producer_id, answer.producer_epoch) == (producer.id, producer.epoch + 1)
            producer.renew(answer)
    assert _end_offset(raw, topic, 1) == 4


@pytest.mark.parametrize("version", range(6))
def test_offsets_are_staged_in_every_version(producer, topic, name, version):
    group = name("g")
    if version < 5:
        assert producer.add_offsets(group, min(version, 4)) == 0
    assert producer.stage(group, topic, 3, version) == 0


# --- What is stored -------------------------------------------------------------------------------


def test_a_marker_is_what_kafka_writes(raw, producer, topic):
    for committed in (False, True):
        producer.add(topic, 0)
        producer.send(topic, b"v")
        producer.end(committed)
    data = bytes(_readable(raw, topic, isolation=0).records)
    markers = [(position, info) for position, info in walk(data) if info.is_control]
    for (position, info), kind in zip(markers, (b"\0\0", b"\0\1"), strict=True):
        (record,) = decode_rows(data, position)
        assert record.key == b"\0\0" + kind
        assert record.value == b"\0\0" + b"\0\0\0\0"
        assert info.is_transactional
        assert (info.producer_id, info.producer_epoch) == (producer.id, producer.epoch)
        assert info.base_sequence == -1


def test_a_reader_of_committed_records_is_told_what_was_aborted(raw, producer, topic):
    for committed in (True, False, True, False):
        producer.add(topic, 0)
        producer.send(topic, b"v")
        producer.end(committed)
    everything = _readable(raw, topic)
    told = [(each.producer_id, each.first_offset) for each in everything.aborted_transactions]
    assert told == [(producer.id, 2), (producer.id, 6)]
    later = _readable(raw, topic, offset=4)
    assert [each.first_offset for each in later.aborted_transactions] == [6]
    assert _readable(raw, topic, isolation=0).aborted_transactions is None


def test_the_last_stable_offset_stays_before_an_open_transaction(raw, producer, topic):
    raw.produce(topic, make_batch(b"plain"))
    producer.add(topic, 0)
    producer.send(topic, b"open")
    raw.produce(topic, make_batch(b"behind"))
    found = _readable(raw, topic)
    assert (found.last_stable_offset, found.high_watermark) == (1, 3)
    assert [info.base_offset for _, info in walk(bytes(found.records))] == [0]
    assert (_end_offset(raw, topic, 1), _end_offset(raw, topic, 0)) == (1, 3)
    producer.end(committed=True)
    assert _readable(raw, topic).last_stable_offset == 4


def test_a_waiting_reader_is_woken_by_the_commit(broker, raw, producer, topic):
    producer.add(topic, 0)
    producer.send(topic, b"v")
    with RawKafka(broker.kafka_port) as reader:
        fields = fetch_fields([(topic, 0, 0)], max_wait_ms=60_000, isolation=1)
        reader.send(ApiKey.FETCH, 11, **fields)
        producer.send(topic, b"w")
        producer.end(committed=True)
        answer = reader.answer(ApiKey.FETCH, 11)
    assert len(list(walk(bytes(answer.responses[0].partitions[0].records)))) == 3


def test_a_partition_that_nothing_was_written_to_gets_no_marker(raw, producer, topic):
    producer.add(topic, 0, 1)
    producer.send(topic, b"v")
    producer.end(committed=True)
    assert [info.is_control for info in raw.stored(topic, 0)] == [False, True]
    assert raw.stored(topic, 1) == []


# --- Bad input ------------------------------------------------------------------------------------


def test_a_batch_outside_of_a_transaction_is_refused(raw, producer, topic):
    assert producer.send(topic, b"v").error_code == ErrorCode.invalid_txn_state
    producer.add(topic, 1)
    assert producer.send(topic, b"v").error_code == ErrorCode.invalid_txn_state
    producer.sequence = 0
    producer.add(topic, 0)
    assert producer.send(topic, b"v").error_code == 0
    producer.end(committed=True)
    assert producer.send(topic, b"w").error_code == ErrorCode.invalid_txn_state
    assert _end_offset(raw, topic, 0) == 2


def test_a_batch_of_another_epoch_is_refused(raw, producer, topic):
    producer.add(topic, 0)
    for epoch in (producer.epoch - 1, producer.epoch + 1):
        batch = producer.batch(b"v", epoch=epoch)
        refused = raw.produce(topic, batch, transactional_id=producer.name)
        assert refused.error_code == ErrorCode.invalid_producer_epoch
    stranger = make_batch(b"v", attributes=TRANSACTIONAL, producer_id=1 << 40, producer_epoch=0)
    refused = raw.produce(topic, stranger, transactional_id=producer.name)
    assert refused.error_code == ErrorCode.invalid_producer_id_mapping


def test_a_batch_beside_the_open_transaction_of_its_producer_is_refused(raw, producer, topic):
    producer.add(topic, 0)
    producer.send(topic, b"v")
    fields = {"producer_id": producer.id, "producer_epoch": producer.epoch, "base_sequence": 1}
    refused = raw.produce(topic, make_batch(b"w", **fields))
    assert refused.error_code == ErrorCode.invalid_txn_state


FENCED = {
    ApiKey.ADD_PARTITIONS_TO_TXN: (lambda p, topic, v: p.add(topic, 0, version=v)[0], 2),
    ApiKey.ADD_OFFSETS_TO_TXN: (lambda p, topic, v: p.add_offsets("g", v), 2),
    ApiKey.END_TXN: (lambda p, topic, v: p.end(committed=True, version=v).error_code, 2),
    ApiKey.INIT_PRODUCER_ID: (
        lambda p, topic, v: p.init(v, producer_id=p.id, epoch=p.epoch).error_code,
        4,
    ),
}


@pytest.mark.parametrize("key", FENCED, ids=lambda key: key.name)
def test_a_fenced_producer_is_told_in_the_words_of_its_version(raw, name, topic, key):
    ask, fenced_from = FENCED[key]
    producer = Producer(raw, name("tx"))
    producer.init()
    first = 3 if key is ApiKey.INIT_PRODUCER_ID else 0  # older ones do not say who they are
    for version in range(first, fenced_from):
        assert ask(producer, topic, version) == ErrorCode.invalid_producer_epoch
    assert ask(producer, topic, fenced_from) == ErrorCode.producer_fenced


def test_somebody_elses_producer_id_is_refused(producer, topic):
    other = {"producer_id": producer.id + 1_000_000}
    wrong = ErrorCode.invalid_producer_id_mapping
    assert producer.add(topic, 0, **other) == {0: wrong}
    assert producer.end(committed=True, **other).error_code == wrong
    unknown = {"transactional_id": "nobody-has-this"}
    assert producer.add(topic, 0, **unknown) == {0: wrong}
    assert producer.end(committed=False, **unknown).error_code == wrong
    assert producer.add_offsets("g", **unknown) == wrong


def test_the_end_of_what_was_never_begun_is_refused(producer, topic):
    for committed in (True, False):
        assert producer.end(committed).error_code == ErrorCode.invalid_txn_state
    producer.add(topic, 0)
    assert producer.end(committed=True).error_code == 0
    assert producer.end(committed=True).error_code == 0, "the answer may have got lost"
    assert producer.end(committed=False).error_code == ErrorCode.invalid_txn_state


@pytest.mark.parametrize("timeout_ms", [0, -1, 15 * 60_000 + 1])
def test_a_timeout_out_of_bounds_is_refused(producer, timeout_ms):
    answer = producer.init(timeout_ms=timeout_ms)
    assert answer.error_code == ErrorCode.invalid_transaction_timeout
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


def test_an_identity_by_halves_is_refused(producer):
    for half in ({"producer_id": 1}, {"epoch": 1}):
        assert producer.init(**half).error_code == ErrorCode.invalid_request


def test_an_empty_transactional_id_is_refused(raw, producer, topic):
    empty = {"transactional_id": ""}
    assert producer.add(topic, 0, **empty) == {0: ErrorCode.invalid_request}
    answer = raw.ask(ApiKey.INIT_PRODUCER_ID, 1, transactional_id="", transaction_timeout_ms=60_000)
    assert answer.error_code == ErrorCode.invalid_request


def test_one_unknown_partition_keeps_the_others_out(raw, producer, topic):
    assert producer.add(topic, 0, 9) == {
        0: ErrorCode.operation_not_attempted,
        9: ErrorCode.unknown_topic_or_partition,
    }
    assert producer.add("absent", 0) == {0: ErrorCode.unknown_topic_or_partition}
    assert producer.add(OFFSETS_TOPIC, 0) == {0: ErrorCode.topic_authorization_failed}
    assert producer.send(topic, b"v").error_code == ErrorCode.invalid_txn_state


def test_offsets_of_a_group_that_was_not_added_are_refused(producer, topic, name):
    group = name("g")
    assert producer.stage(group, topic, 1) == ErrorCode.invalid_txn_state
    producer.add_offsets(group)
    assert producer.stage(group, topic, 1) == 0
    assert producer.stage(group, "absent", 1) == ErrorCode.unknown_topic_or_partition
    fenced = {"producer_epoch": producer.epoch + 1}
    assert producer.stage(group, topic, 1, **fenced) == ErrorCode.invalid_producer_epoch
    member = {"generation_id": 7, "member_id": "who"}
    assert producer.stage(group, topic, 1, **member) == ErrorCode.unknown_member_id
    assert producer.stage("", topic, 1) == ErrorCode.invalid_group_id


def test_offsets_about_to_change_are_told_from_stable_ones(raw, producer, topic, name):
    group = name("g")
    producer.add_offsets(group)
    producer.stage(group, topic, 5)

    def fetched(*, stable):
        answer = raw.ask(
            ApiKey.OFFSET_FETCH,
            7,
            group_id=group,
            require_stable=stable,
            topics=[{"name": topic, "partition_indexes": [0]}],
        )
        found = answer.topics[0].partitions[0]
        return found.error_code, found.committed_offset

    assert fetched(stable=True) == (ErrorCode.unstable_offset_commit, -1)
    assert fetched(stable=False) == (0, -1)
    producer.end(committed=True)
    assert fetched(stable=True) == (0, 5)


# --- Administration -------------------------------------------------------------------------------


def test_transactions_are_listed_and_described(raw, producer, topic):
    def listed(version=1, **fields):
        filters: dict[str, Any] = {"state_filters": [], "producer_id_filters": [producer.id]}
        if version >= 1:
            filters["duration_filter"] = -1
        answer = raw.ask(ApiKey.LIST_TRANSACTIONS, version, **(filters | fields))
        found = [
            (each.transactional_id, each.transaction_state) for each in answer.transaction_states
        ]
        return found, list(answer.unknown_state_filters)

    assert listed(0) == ([(producer.name, "Empty")], [])
    producer.add(topic, 1)
    assert listed() == ([(producer.name, "Ongoing")], [])
    assert listed(state_filters=["Empty", "Odd"]) == ([], ["Odd"])
    assert listed(duration_filter=60_000) == ([], [])
    assert listed(2, transactional_id_pattern="tx-.*") == ([(producer.name, "Ongoing")], [])
    assert listed(2, transactional_id_pattern="nothing") == ([], [])
    known, unknown = (
        raw.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[each]).transaction_states[0]
        for each in (producer.name, "absent")  # each at its own coordinator, in a cluster
    )
    assert (known.producer_id, known.producer_epoch) == (producer.id, producer.epoch)
    assert known.transaction_timeout_ms == 60_000
    assert known.transaction_start_time_ms > 0
    assert [(each.topic, list(each.partitions)) for each in known.topics] == [(topic, [1])]
    assert unknown.error_code == ErrorCode.transactional_id_not_found


def test_a_pattern_that_does_not_compile_is_refused(raw):
    answer = raw.ask(
        ApiKey.LIST_TRANSACTIONS,
        2,
        state_filters=[],
        producer_id_filters=[],
        duration_filter=-1,
        transactional_id_pattern="(",
    )
    assert answer.error_code == ErrorCode.invalid_regular_expression


def test_open_transactions_are_shown_with_their_producers(raw, producer, topic):
    raw.produce(topic, make_batch(b"plain"))
    producer.add(topic, 0)
    producer.send(topic, b"v")
    asked = [{"name": topic, "partition_indexes": [0]}]
    answer = raw.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=asked)
    (found,) = answer.topics[0].partitions[0].active_producers
    assert (found.producer_id, found.current_txn_start_offset) == (producer.id, 1)
    producer.end(committed=True)
    answer = raw.ask(ApiKey.DESCRIBE_PRODUCERS, 0, topics=asked)
    assert answer.topics[0].partitions[0].active_producers[0].current_txn_start_offset == -1


@pytest.mark.parametrize("version", [1, 2])
def test_a_hanging_transaction_is_ended_by_a_marker(raw, producer, topic, version):
    producer.add(topic, 0)
    producer.send(topic, b"hangs")

    def write(epoch, partition=0):
        marker = {
            "producer_id": producer.id,
            "producer_epoch": epoch,
            "transaction_result": False,
            "topics": [{"name": topic, "partition_indexes": [partition]}],
            "coordinator_epoch": 0,
        }
        answer = raw.ask(ApiKey.WRITE_TXN_MARKERS, version, markers=[marker])
        return answer.markers[0].topics[0].partitions[0].error_code

    assert write(producer.epoch - 1) == ErrorCode.invalid_producer_epoch
    assert write(producer.epoch, partition=9) == ErrorCode.unknown_topic_or_partition
    assert write(producer.epoch) == 0
    assert write(producer.epoch) == 0
    assert [info.is_control for info in raw.stored(topic)] == [False, True]
    assert _readable(raw, topic).last_stable_offset == 2


def test_produce_requests_name_their_transactional_id(raw, producer, topic):
    producer.add(topic, 0)
    fields = produce_fields(topic, producer.batch(b"v")) | {"transactional_id": producer.name}
    answer = raw.ask(ApiKey.PRODUCE, 9, **fields)
    assert answer.responses[0].partition_responses[0].error_code == 0
