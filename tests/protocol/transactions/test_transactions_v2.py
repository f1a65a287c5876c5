"""Transactions of transaction.version 2 (KIP-890): what newer producers leave to the broker."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka, make_batch
from protocol.transactions.transactional_wire import Producer
from support.committed import committed
from support.server import make_server


@pytest.fixture
def topic(raw, name):
    found = name("t")
    raw.create(found, 2)
    return found


@pytest.fixture
def producer(raw, name):
    return Producer(raw, name("tx"))


def _committed(raw, topic, partition=0):
    """The values that a client of read_committed finds in a partition, in order."""
    address = "{}:{}".format(*raw.socket.getpeername())
    return [each.value for each in committed(address, topic) if each.partition == partition]


def _partitions(raw, producer):
    (found,) = raw.ask(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=[producer.name]
    ).transaction_states
    return found.transaction_state, {(t.topic, n) for t in found.topics for n in t.partitions}


def _last_stable(raw, topic):
    return raw.fetch(topic, 0, max_wait_ms=0, isolation=1).last_stable_offset


def test_the_cluster_says_that_it_has_them(raw):
    software = {"client_software_name": "test", "client_software_version": "1"}
    answer = raw.ask(ApiKey.API_VERSIONS, 4, **software)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    assert levels["transaction.version"] == 2


def test_what_is_written_is_part_of_the_transaction(raw, producer, topic):
    assert producer.produce(topic, b"a") is ErrorCode.none
    assert _partitions(raw, producer) == ("Ongoing", {(topic, 0)})
    assert producer.produce(topic, b"b", partition=1, sequence=0) is ErrorCode.none
    assert _partitions(raw, producer) == ("Ongoing", {(topic, 0), (topic, 1)})
    assert _committed(raw, topic) == []
    assert producer.end(True, 5).error_code == 0
    assert (_committed(raw, topic), _committed(raw, topic, 1)) == ([b"a"], [b"b"])


def test_topics_may_be_named_by_their_ids(raw, producer, name):
    topic = name("t")
    topic_id = raw.create(topic)
    assert producer.produce(topic, b"a", version=13, topic_id=topic_id) is ErrorCode.none
    assert producer.end(True, 5).error_code == 0
    assert _committed(raw, topic) == [b"a"]


def test_each_transaction_has_an_epoch_of_its_own(raw, producer, topic):
    expected = []
    for number in range(4):
        value, commits = b"%d" % number, number % 2 == 0
        assert producer.produce(topic, value) is ErrorCode.none
        answer = producer.end(commits, 5)
        assert (answer.producer_id, answer.producer_epoch) == (producer.id, producer.epoch + 1)
        producer.renew(answer)
        expected += [value] if commits else []
    assert _committed(raw, topic) == expected


def test_a_record_that_is_late_does_not_get_into_the_next_transaction(raw, producer, topic):
    assert producer.produce(topic, b"a") is ErrorCode.none
    late_epoch, late_sequence = producer.epoch, producer.sequence
    producer.renew(producer.end(False, 5))
    late = {"epoch": late_epoch, "sequence": late_sequence}
    assert producer.produce(topic, b"late", **late) is ErrorCode.invalid_producer_epoch
    assert producer.produce(topic, b"late", version=9, **late) is ErrorCode.invalid_producer_epoch
    assert _partitions(raw, producer) == ("CompleteAbort", set())
    assert producer.produce(topic, b"b", sequence=0) is ErrorCode.none
    assert producer.produce(topic, b"late", **late) is ErrorCode.invalid_producer_epoch
    assert producer.end(True, 5).error_code == 0
    assert _committed(raw, topic) == [b"b"]
    assert _last_stable(raw, topic) == 4


def test_an_end_that_is_asked_for_again_is_answered_again(producer, topic):
    assert producer.produce(topic, b"a") is ErrorCode.none
    first = producer.end(True, 5)
    again = producer.end(True, 5)
    assert (again.error_code, again.producer_epoch) == (0, first.producer_epoch)
    assert producer.end(False, 5).error_code == ErrorCode.invalid_txn_state
    producer.renew(first)
    assert producer.end(True, 5).error_code == ErrorCode.invalid_txn_state


def test_a_producer_may_give_up_what_it_never_began(raw, producer, topic):
    assert producer.produce(topic, b"a", partition=9) is ErrorCode.unknown_topic_or_partition
    answer = producer.end(False, 5)
    assert (answer.error_code, answer.producer_epoch) == (0, producer.epoch + 1)
    producer.renew(answer)
    assert producer.produce(topic, b"b") is ErrorCode.none
    assert producer.end(True, 5).error_code == 0
    assert _committed(raw, topic) == [b"b"]


def test_offsets_are_part_of_the_transaction_without_being_announced(raw, producer, topic, name):
    group = name("g")
    assert producer.stage(group, topic, 0, version=5) == 0
    assert producer.produce(topic, b"a") is ErrorCode.none
    producer.renew(producer.end(True, 5))
    answer = raw.ask(
        ApiKey.OFFSET_FETCH, 5, group_id=group, topics=[{"name": topic, "partition_indexes": [0]}]
    )
    assert answer.topics[0].partitions[0].committed_offset == 0


def test_only_the_producer_of_an_id_adds_to_its_transaction(raw, name, topic):
    mine, other = Producer(raw, name("tx")), Producer(raw, name("tx"))
    mine.name, theirs = other.name, mine.name
    assert mine.produce(topic, b"a") is ErrorCode.invalid_producer_id_mapping
    mine.name = theirs
    again = Producer(raw, theirs)
    assert mine.produce(topic, b"a") is ErrorCode.invalid_producer_epoch
    assert again.produce(topic, b"a") is ErrorCode.none


@pytest.mark.parametrize(
    ("version", "code"),
    [(9, ErrorCode.invalid_txn_state), (11, ErrorCode.transaction_abortable)],
)
def test_older_producers_announce_their_partitions_as_before(producer, topic, version, code):
    assert producer.produce(topic, b"a", version=version) is code
    producer.add(topic, 0)
    assert producer.produce(topic, b"a", version=version, sequence=0) is ErrorCode.none
    answer = producer.end(True, 4)
    assert answer.error_code == 0
    assert producer.produce(topic, b"b", version=version) is code, "in the same epoch as before"


def test_what_is_not_transactional_is_not_part_of_it(raw, producer, topic):
    fields = {
        "transactional_id": producer.name,
        "acks": -1,
        "timeout_ms": 60_000,
        "topic_data": [
            {"name": topic, "partition_data": [{"index": 0, "records": make_batch(b"plain")}]}
        ],
    }
    answer = raw.ask(ApiKey.PRODUCE, 12, **fields)
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert _partitions(raw, producer) == ("Empty", set())


@pytest.mark.parametrize("version", [4, 5])
def test_partitions_are_verified_for_the_id_that_is_named(raw, name, topic, version):
    one, other = Producer(raw, name("tx")), Producer(raw, name("tx"))
    assert one.produce(topic, b"a") is ErrorCode.none

    def ask(transactional_id):
        answer = raw.ask(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            transactions=[
                {
                    "transactional_id": transactional_id,
                    "producer_id": one.id,
                    "producer_epoch": one.epoch,
                    "verify_only": True,
                    "topics": [{"name": topic, "partitions": [0]}],
                }
            ],
        )
        (found,) = answer.results_by_transaction
        return ErrorCode(found.topic_results[0].results_by_partition[0].partition_error_code)

    assert ask(one.name) is ErrorCode.none
    assert ask(other.name) is ErrorCode.invalid_producer_id_mapping


def test_a_marker_of_an_epoch_that_has_written_is_late(raw, producer, topic):
    """An administrator's tool that says which version the transaction has."""
    assert producer.produce(topic, b"a") is ErrorCode.none

    def write(epoch):
        answer = raw.ask(
            ApiKey.WRITE_TXN_MARKERS,
            2,
            markers=[
                {
                    "producer_id": producer.id,
                    "producer_epoch": epoch,
                    "transaction_result": False,
                    "coordinator_epoch": 0,
                    "transaction_version": 2,
                    "topics": [{"name": topic, "partition_indexes": [0]}],
                }
            ],
        )
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)

    assert write(producer.epoch) is ErrorCode.invalid_producer_epoch
    assert _last_stable(raw, topic) == 0
    assert write(producer.epoch + 1) is ErrorCode.none
    assert _last_stable(raw, topic) == 2


def test_requests_in_a_row_keep_their_order_while_the_first_waits_for_the_disk(tmp_path):
    server = make_server(tmp_path / "data", "--fsync", "always")
    server.start()
    try:
        with RawKafka(server.kafka_port) as raw:
            raw.create("t", 2)
            producer = Producer(raw, "tx")
            for round_ in range(3):
                values = [b"%d-%d" % (round_, number) for number in range(5)]
                for value in values:
                    producer.send_produce("t", value)
                codes = [producer.produced() for _ in values]
                assert codes == [ErrorCode.none] * len(values)
                producer.renew(producer.end(True, 5))
                assert _committed(raw, "t")[-5:] == values
    finally:
        server.close()


def test_a_transaction_goes_on_over_a_kill_of_the_broker(tmp_path):
    server = make_server(tmp_path / "data")
    server.start()
    try:
        with RawKafka(server.kafka_port) as raw:
            raw.create("t", 2)
            producer = Producer(raw, "tx")
            former_epoch = producer.epoch
            assert producer.produce("t", b"first") is ErrorCode.none
            producer.renew(producer.end(True, 5))
            assert producer.produce("t", b"before") is ErrorCode.none
        server.kill()
        server.start()
        with RawKafka(server.kafka_port) as raw:
            producer.raw = raw
            assert producer.produce("t", b"late", epoch=former_epoch, sequence=1) is (
                ErrorCode.invalid_producer_epoch
            )
            after = {"partition": 1, "sequence": 0}
            assert producer.produce("t", b"after", **after) is ErrorCode.none
            assert _committed(raw, "t") == [b"first"]
            producer.send_end(True)
        server.kill()  # the answer to the end is lost, and perhaps the request as well
        server.start()
        with RawKafka(server.kafka_port) as raw:
            producer.raw = raw
            answer = producer.end(True, 5)
            assert (answer.error_code, answer.producer_epoch) == (0, producer.epoch + 1)
            assert (_committed(raw, "t"), _committed(raw, "t", 1)) == (
                [b"first", b"before"],
                [b"after"],
            )
    finally:
        server.close()
