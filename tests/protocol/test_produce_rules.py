"""Produce as it is on the wire: what is taken, what is refused, and what is answered."""

from __future__ import annotations

import struct
from uuid import uuid4

import pytest
from crc32c import crc32c
from kio.schema.errors import ErrorCode

from goqueue.records.batch import CONTROL, TRANSACTIONAL
from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka, make_batch, produce_fields, sequenced


@pytest.fixture
def topic(raw, name):
    made = name("produce")
    raw.create(made, 2)
    return made


def _resealed(batch: bytes, at: int, data: bytes) -> bytes:
    """A batch with some bytes changed and a checksum that agrees."""
    changed = bytearray(batch)
    changed[at : at + len(data)] = data
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


GOOD = make_batch(b"a", b"b")
REFUSED = {
    "a flipped bit": (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), ErrorCode.corrupt_message),
    "a batch cut short": (GOOD[:-4], ErrorCode.corrupt_message),
    "two batches": (GOOD + GOOD, ErrorCode.invalid_record),
    "no batch": (b"", ErrorCode.corrupt_message),
    "an old format": (
        GOOD[:16] + b"\x01" + GOOD[17:],
        ErrorCode.unsupported_for_message_format,
    ),
    "an unknown codec": (
        _resealed(GOOD, 21, b"\x00\x07"),
        ErrorCode.unsupported_compression_type,
    ),
    "a marker": (make_batch(b"a", attributes=CONTROL), ErrorCode.invalid_record),
    "a transaction of nobody": (
        make_batch(b"a", attributes=TRANSACTIONAL),
        ErrorCode.invalid_producer_id_mapping,
    ),
    "fewer records than offsets": (
        _resealed(GOOD, 23, struct.pack(">i", 5)),
        ErrorCode.invalid_record,
    ),
    "no records": (_resealed(GOOD, 57, struct.pack(">i", 0)), ErrorCode.invalid_record),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_no_batch_is_refused_and_nothing_is_stored(raw, topic, what):
    batch, code = REFUSED[what]
    answer = raw.produce(topic, batch)
    assert (ErrorCode(answer.error_code), answer.base_offset) == (code, -1)
    assert answer.error_message
    assert raw.stored(topic) == []
    assert raw.produce(topic, GOOD).base_offset == 0


def test_records_that_are_missing_altogether_are_refused(raw, topic):
    fields = produce_fields(topic, b"")
    fields["topic_data"][0]["partition_data"][0]["records"] = None
    answer = raw.ask(ApiKey.PRODUCE, 9, **fields)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.invalid_record


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_is_answered_with_the_offset(raw, name, version):
    topic = name("versions")
    topic_id = raw.create(topic)
    for expected in (0, 2):
        fields = produce_fields(topic, GOOD)
        fields["topic_data"][0]["topic_id"] = topic_id
        answer = raw.ask(ApiKey.PRODUCE, version, **fields)
        (response,) = answer.responses
        (found,) = response.partition_responses
        assert (found.error_code, found.base_offset) == (0, expected)


@pytest.mark.parametrize("version", range(3))
def test_versions_that_are_only_advertised_close_the_connection(raw, version):
    raw.send_bytes(ApiKey.PRODUCE, version, struct.pack(">hii", 1, 1000, 0))
    assert raw.is_closed_by_server()


def test_each_partition_has_a_result_of_its_own(raw, topic, name):
    absent = name("absent")
    answer = raw.ask(
        ApiKey.PRODUCE,
        9,
        transactional_id=None,
        acks=-1,
        timeout_ms=60_000,
        topic_data=[
            {
                "name": topic,
                "partition_data": [
                    {"index": 1, "records": GOOD},
                    {"index": 9, "records": GOOD},
                    {"index": 0, "records": GOOD[:-1]},
                ],
            },
            {"name": absent, "partition_data": [{"index": 0, "records": GOOD}]},
        ],
    )
    unknown = ErrorCode.unknown_topic_or_partition
    assert [
        (each.name, [(p.index, p.error_code) for p in each.partition_responses])
        for each in answer.responses
    ] == [
        (topic, [(1, 0), (9, unknown), (0, ErrorCode.corrupt_message)]),
        (absent, [(0, unknown)]),
    ]


def test_an_unknown_topic_id_is_said_to_be_one(raw):
    fields = produce_fields("", GOOD)
    fields["topic_data"][0]["topic_id"] = uuid4()
    answer = raw.ask(ApiKey.PRODUCE, 13, **fields)
    found = answer.responses[0].partition_responses[0]
    assert found.error_code == ErrorCode.unknown_topic_id


@pytest.mark.parametrize("acks", [-2, 2, 100])
def test_acks_that_do_not_exist_are_refused(raw, topic, acks):
    assert raw.produce(topic, GOOD, acks=acks).error_code == ErrorCode.invalid_required_acks


def test_internal_topics_are_not_written_by_clients(raw):
    answer = raw.produce("__consumer_offsets", GOOD)
    assert answer.error_code == ErrorCode.invalid_topic_exception


def test_a_compacted_topic_takes_no_record_without_a_key(raw, name):
    topic = name("compacted")
    raw.create(topic, cleanup_policy="compact")
    refused = raw.produce(topic, make_batch(b"v", key=None))
    assert refused.error_code == ErrorCode.invalid_record
    assert raw.produce(topic, make_batch(b"v", key=b"")).error_code == 0


# --- acks=0 ---------------------------------------------------------------------------------------


def test_a_publish_without_acks_is_stored_and_not_answered(raw, topic):
    for _ in range(3):
        raw.send(ApiKey.PRODUCE, 9, **produce_fields(topic, GOOD, acks=0))
    # The next answer on this connection is that of the next request, not of those three.
    assert raw.produce(topic, GOOD, acks=1).base_offset == 6


def test_a_publish_without_acks_that_fails_closes_the_connection(broker, topic, name):
    for target, batch in ((name("absent"), GOOD), (topic, GOOD[:-1])):
        with RawKafka(broker.kafka_port) as other:
            other.send(ApiKey.PRODUCE, 9, **produce_fields(target, batch, acks=0))
            assert other.next_sender().is_closed_by_server()


def test_what_came_before_a_failed_publish_without_acks_is_still_answered(broker, topic):
    with RawKafka(broker.kafka_port) as other:
        other.send(ApiKey.PRODUCE, 9, **produce_fields(topic, GOOD, acks=1))
        correlation_id, _ = other.next_sender().answer_bytes()
        assert correlation_id == 1
        other.send(ApiKey.PRODUCE, 9, **produce_fields(topic, GOOD[:-1], acks=0))
        assert other.next_sender().is_closed_by_server()


# --- Idempotent producers -------------------------------------------------------------------------


def _producer(raw):
    answer = raw.ask(
        ApiKey.INIT_PRODUCER_ID,
        4,
        transactional_id=None,
        transaction_timeout_ms=1000,
        producer_id=-1,
        producer_epoch=-1,
    )
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(raw, version):
    fields = {"transactional_id": None, "transaction_timeout_ms": 1}
    found = [raw.ask(ApiKey.INIT_PRODUCER_ID, version, **fields) for _ in range(5)]
    assert len({answer.producer_id for answer in found}) == 5
    assert {(answer.error_code, answer.producer_epoch) for answer in found} == {(0, 0)}


def test_a_repeated_batch_is_answered_with_its_first_offset(raw, topic):
    producer = _producer(raw)
    offsets = [raw.produce(topic, sequenced(producer, n, b"v")).base_offset for n in range(7)]
    assert offsets == list(range(7))
    for sequence in range(2, 7):
        again = raw.produce(topic, sequenced(producer, sequence, b"v"))
        assert (again.error_code, again.base_offset) == (0, sequence)
    assert sum(info.count for info in raw.stored(topic)) == 7


def test_a_gap_in_the_sequence_is_refused(raw, topic):
    producer = _producer(raw)
    raw.produce(topic, sequenced(producer, 0, b"a", b"b"))
    for sequence in (1, 3, 100):
        refused = raw.produce(topic, sequenced(producer, sequence, b"c"))
        assert refused.error_code == ErrorCode.out_of_order_sequence_number
    assert raw.produce(topic, sequenced(producer, 2, b"c")).base_offset == 2


def test_sequences_are_counted_for_each_partition(raw, topic):
    producer = _producer(raw)
    assert raw.produce(topic, sequenced(producer, 0, b"v"), 0).error_code == 0
    assert raw.produce(topic, sequenced(producer, 0, b"v"), 1).error_code == 0


def test_a_newer_epoch_fences_the_older(raw, topic):
    producer_id, epoch = _producer(raw)
    raw.produce(topic, sequenced((producer_id, epoch), 0, b"v"))
    late_start = raw.produce(topic, sequenced((producer_id, epoch + 1), 1, b"v"))
    assert late_start.error_code == ErrorCode.out_of_order_sequence_number
    assert raw.produce(topic, sequenced((producer_id, epoch + 1), 0, b"v")).error_code == 0
    fenced = raw.produce(topic, sequenced((producer_id, epoch), 1, b"v"))
    assert fenced.error_code == ErrorCode.invalid_producer_epoch


def test_sequences_wrap_around(raw, topic):
    producer, last = _producer(raw), (1 << 31) - 1
    assert raw.produce(topic, sequenced(producer, last, b"a", b"b", b"c")).error_code == 0
    assert raw.produce(topic, sequenced(producer, 2, b"d")).base_offset == 3
    again = raw.produce(topic, sequenced(producer, last, b"a", b"b", b"c"))
    assert (again.error_code, again.base_offset) == (0, 0)
