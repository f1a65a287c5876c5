"""What clients look for before anything else, byte by byte."""

from __future__ import annotations

import struct

import pytest
from kio.schema.errors import ErrorCode

from goqueue.wire.kafka.api_keys import ApiKey
from protocol.raw_kafka import RawKafka, fetch_fields, make_batch, produce_fields


def _served(raw, version=0):
    fields = {"client_software_name": "raw", "client_software_version": "1"}
    answer = raw.ask(ApiKey.API_VERSIONS, version, **(fields if version >= 3 else {}))
    assert answer.error_code == 0
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


LOWEST = {
    ApiKey.PRODUCE: 0,
    ApiKey.FETCH: 4,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.METADATA: 0,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.FIND_COORDINATOR: 0,
    ApiKey.JOIN_GROUP: 0,
    ApiKey.INIT_PRODUCER_ID: 0,
    ApiKey.API_VERSIONS: 0,
}
"""Old librdkafka tests for exact minimums: with others it does not compress, or does not start."""

ENOUGH = {
    ApiKey.PRODUCE: 13,
    ApiKey.FETCH: 18,
    ApiKey.LIST_OFFSETS: 11,
    ApiKey.METADATA: 13,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.DESCRIBE_LOG_DIRS: 5,
}
"""zstd needs Produce 7 and Fetch 10; kafka-python infers the broker's version from the highest."""


def test_the_advertised_versions_are_those_that_clients_test_for(raw):
    served = _served(raw)
    assert {key: served[key][0] for key in LOWEST} == LOWEST
    for key, version in ENOUGH.items():
        assert served[key][1] >= version, key.name


def test_all_versions_of_api_versions_say_the_same(raw):
    first = _served(raw)
    assert all(_served(raw, version) == first for version in range(5))


def test_telemetry_is_not_advertised(raw):
    assert not {71, 72} & set(_served(raw))


def test_a_client_newer_than_the_server_is_told_so_in_the_oldest_layout(raw):
    raw.send_bytes(ApiKey.API_VERSIONS, 99, b"\xff\xfe", flexible=True)
    _, body = raw.answer_bytes()
    code, count, key, lowest, highest = struct.unpack(">hihhh", bytes(body))
    assert (code, count, key) == (ErrorCode.unsupported_version, 1, ApiKey.API_VERSIONS)
    assert (lowest, highest) == _served(raw)[ApiKey.API_VERSIONS]


def test_features_are_told_in_the_ranges_that_a_version_can_say(raw):
    fields = {"client_software_name": "raw", "client_software_version": "1"}
    for version in (3, 4):
        answer = raw.ask(ApiKey.API_VERSIONS, version, **fields)
        finalized = {each.name: each.max_version_level for each in answer.finalized_features}
        assert finalized["transaction.version"] == 2
        if version == 3:
            assert all(each.min_version > 0 for each in answer.supported_features)


@pytest.mark.parametrize(("key", "version"), [(3, 99), (1, 3), (0, 99), (71, 0), (999, 0)])
def test_an_api_or_version_that_is_not_served_closes_the_connection(broker, key, version):
    with RawKafka(broker.kafka_port) as other:
        other.send_bytes(key, version, b"")
        assert other.is_closed_by_server()
    with RawKafka(broker.kafka_port) as other:
        assert _served(other)


def test_unknown_tagged_fields_are_skipped_in_headers_and_bodies(raw, name):
    """A client one release newer than the server sends fields that it has never heard of."""
    topic = name("tagged")
    raw.create(topic)
    extra = b"\x01\x3f\x03abc"
    header = struct.pack(">hhih", ApiKey.METADATA, 12, 77, 3) + b"raw" + extra
    entry = bytes(16) + bytes([len(topic) + 1]) + topic.encode() + extra
    body = b"\x02" + entry + b"\x00\x00" + extra
    frame = header + body
    raw.socket.sendall(struct.pack(">i", len(frame)) + frame)
    correlation_id, answer = raw.answer_bytes()
    assert correlation_id == 77
    assert topic.encode() in bytes(answer)


def test_requests_of_one_connection_are_answered_in_order(raw, name):
    topic = name("order")
    raw.create(topic)
    raw.send(ApiKey.FETCH, 11, **fetch_fields([(topic, 0, 0)], max_wait_ms=300))
    raw.send(ApiKey.PRODUCE, 9, **produce_fields(topic, make_batch(b"v")))
    raw.send(ApiKey.API_VERSIONS, 0)
    numbers = [raw.answer_bytes()[0] for _ in range(3)]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) == 3


def test_a_fetch_without_a_session_gets_none(raw, name):
    topic = name("sessionless")
    raw.create(topic)
    answer = raw.ask(ApiKey.FETCH, 11, **fetch_fields([(topic, 0, 0)], max_wait_ms=0))
    assert answer.session_id == 0
