from __future__ import annotations

import random
import struct
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.errors import (
    MalformedRequestError,
    SchemaMismatchError,
    TooManyElementsError,
    TruncatedRequestError,
)
from goqueue.wire.kafka.frames import (
    Encoded,
    encode_body,
    frame_of,
    has_flexible_header,
    parse_body,
    parse_client_id,
    parse_prefix,
    parse_response,
    request_frame,
)
from goqueue.wire.kafka.limits import MAX_ELEMENTS
from goqueue.wire.kafka.primitives import Cursor, put_uvarint
from goqueue.wire.kafka.reading import reader_of
from goqueue.wire.kafka.schemas import schema_of
from goqueue.wire.kafka.writing import writer_of
from support.kio_messages import FILE, file_text
from support.kio_twin import every_message, kio_bytes, plain, random_message, unstruct

EVERY_MESSAGE = list(every_message())
METADATA, FIND_COORDINATOR, OFFSET_COMMIT, JOIN_GROUP, LIST_OFFSETS = 3, 10, 8, 11, 2


def body(key: int, version: int, data: bytes):
    return parse_body(Cursor(memoryview(data)), key, version)


def hold_against_kio(rng: random.Random, key: int, version: int, direction: str) -> None:
    entity = random_message(rng, key, version, direction)
    wire = kio_bytes(entity)
    schema = schema_of(key, version, direction)
    cursor = Cursor(memoryview(wire))
    ours = reader_of(schema)(cursor)
    assert cursor.position == len(wire)
    assert unstruct(ours) == plain(entity)
    for tree in (ours, plain(entity)):
        out = bytearray()
        writer_of(schema)(out, tree)
        assert bytes(out) == wire


@pytest.mark.parametrize("seed", range(3))
def test_messages_of_a_spread_of_versions_equal_kio_s_in_both_directions(seed):
    rng = random.Random(seed)
    for key, version, direction in rng.sample(EVERY_MESSAGE, 40):
        for _ in range(5):
            hold_against_kio(rng, key, version, direction)


@pytest.mark.slow
def test_the_table_of_messages_is_what_kio_says():
    assert FILE.read_text() == file_text(), "run `make messages`"


def test_error_codes_are_kio_s():
    ours = [(each.name, each.value, each.retriable) for each in ErrorCode]
    assert ours == [(each.name, each.value, each.retriable) for each in KioErrorCode]


@pytest.mark.slow
def test_messages_of_every_version_equal_kio_s_in_both_directions():
    rng = random.Random(1)
    for key, version, direction in EVERY_MESSAGE:
        for _ in range(20):
            hold_against_kio(rng, key, version, direction)


# --- Tagged fields that we do not know ----------------------------------------------------------


def tags(*fields: tuple[int, bytes]) -> bytes:
    out = bytearray()
    put_uvarint(out, len(fields))
    for tag, content in fields:
        put_uvarint(out, tag)
        put_uvarint(out, len(content))
        out += content
    return bytes(out)


UNKNOWN = tags((7, b"\x01\x02\x03"), (300, b""))


def test_unknown_tagged_fields_in_the_header_are_skipped():
    header = struct.pack(">hhih", METADATA, 12, 99, 4) + b"kcat"
    frame = memoryview(header + UNKNOWN + b"rest")
    assert parse_prefix(frame) == (METADATA, 12, 99)
    cursor = Cursor(frame)
    assert parse_client_id(cursor, flexible=True) == "kcat"
    assert bytes(frame[cursor.position :]) == b"rest"


def test_unknown_tagged_fields_in_a_body_and_in_its_structs_are_skipped():
    # One topic with a null id and the name "t"; flags; every struct carries unknown tags.
    topic = bytes(16) + b"\x02t" + UNKNOWN
    data = b"\x02" + topic + b"\x01\x00" + UNKNOWN
    request = body(METADATA, 12, data)
    assert [topic.name for topic in request.topics] == ["t"]
    assert request.allow_auto_topic_creation is True
    assert request.include_topic_authorized_operations is False


def test_known_tagged_fields_are_read_between_unknown_ones():
    # Fetch v18: cluster id (tag 0) and replica state (tag 1), then one from the future.
    replica = struct.pack(">iq", 5, 9) + b"\0"
    data = struct.pack(">iiibii", 1, 2, 3, 0, 4, 5) + b"\x01\x01\x01"
    data += tags((0, b"\x03cl"), (1, replica), (9, b"??"))
    request = body(1, 18, data)
    assert request.cluster_id == "cl"
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (5, 9)


def test_a_tagged_field_whose_length_is_wrong_is_malformed():
    data = struct.pack(">iiibii", 1, 2, 3, 0, 4, 5) + b"\x01\x01\x01" + tags((0, b"\x03clx"))
    with pytest.raises(MalformedRequestError):
        body(1, 18, data)


# --- Bytes that are not a request ---------------------------------------------------------------


def test_every_truncation_of_a_request_is_refused():
    rng = random.Random(3)
    for key, version in ((METADATA, 12), (JOIN_GROUP, 5), (JOIN_GROUP, 9), (OFFSET_COMMIT, 8)):
        wire = kio_bytes(random_message(rng, key, version, "request"))
        for cut in range(len(wire)):
            with pytest.raises(MalformedRequestError):
                body(key, version, wire[:cut])


def test_bytes_after_the_request_are_ignored_because_librdkafka_leaves_some():
    # What librdkafka 2.16 sends for all topics: null, the flags, no tags, and three bytes more.
    assert body(METADATA, 13, b"\0\0\0\0\1\0\0").topics is None


@pytest.mark.parametrize(
    ("key", "version", "data"),
    [
        pytest.param(METADATA, 12, b"\xff\xff\xff\xff\x0f" + bytes(10), id="compact array"),
        pytest.param(METADATA, 1, b"\x7f\xff\xff\xff" + bytes(10), id="array"),
        pytest.param(METADATA, 1, b"\xff\xff\xff\xfe" + bytes(10), id="negative array"),
        pytest.param(METADATA, 12, b"\xff" * 20, id="endless varint"),
        pytest.param(METADATA, 12, b"\xff\xff\xff\xff\x7f" + bytes(10), id="varint of 35 bits"),
        pytest.param(FIND_COORDINATOR, 0, b"\x7f\xffaa", id="string"),
        pytest.param(FIND_COORDINATOR, 0, b"\xff\xfe", id="negative string"),
        pytest.param(FIND_COORDINATOR, 0, b"\xff\xff", id="null string"),
        pytest.param(FIND_COORDINATOR, 0, b"\x00\x02\xff\xff", id="not utf-8"),
        pytest.param(METADATA, 12, b"\x01\0\0" + b"\xff\xff\xff\xff\x0f", id="count of tags"),
    ],
)
def test_absurd_lengths_are_refused_before_anything_is_allocated(key, version, data):
    with pytest.raises(MalformedRequestError):
        body(key, version, data)


def test_the_elements_of_one_request_are_bounded():
    names = b"".join(b"\0\1t" for _ in range(MAX_ELEMENTS + 1))
    with pytest.raises(MalformedRequestError, match="elements"):
        body(METADATA, 1, struct.pack(">i", MAX_ELEMENTS + 1) + names)


def test_a_frame_without_room_for_a_header_is_truncated():
    with pytest.raises(TruncatedRequestError):
        parse_prefix(b"\0\1\0")


def test_durations_that_no_clock_can_hold_are_plain_integers():
    data = b"\0\1g" + struct.pack(">i", 1) + b"\0\1m" + struct.pack(">qi", 2**63 - 1, 0)
    assert body(OFFSET_COMMIT, 2, data).retention_time_ms == 2**63 - 1


# --- Handlers that do not ask for the version ---------------------------------------------------


def test_a_field_that_the_version_lacks_has_kafka_s_default():
    request = body(METADATA, 0, struct.pack(">i", 0))
    assert request.allow_auto_topic_creation is True
    assert request.include_topic_authorized_operations is False
    assert request.topics == ()


def test_a_struct_that_the_version_lacks_has_kafka_s_defaults():
    data = struct.pack(">iiiibi", -1, 1, 2, 3, 0, 0)
    assert body(1, 4, data).replica_state.replica_id == -1


def test_a_misspelt_request_field_is_noticed():
    with pytest.raises(AttributeError, match="allow_auto"):
        _ = body(METADATA, 0, struct.pack(">i", 0)).allow_auto_creation


def test_a_request_cannot_be_changed():
    with pytest.raises(AttributeError):
        body(METADATA, 0, struct.pack(">i", 0)).topics = ()


BROKERS = [{"node_id": 1, "host": "h", "port": 9092, "rack": None}]
TOPICS = [
    {
        "error_code": 0,
        "name": "t",
        "topic_id": UUID(int=5),
        "is_internal": False,
        "partitions": [
            {
                "error_code": 0,
                "partition_index": 0,
                "leader_id": 1,
                "leader_epoch": 3,
                "replica_nodes": [1],
                "isr_nodes": [1],
                "offline_replicas": [],
            }
        ],
    }
]


@pytest.mark.parametrize("version", range(14))
def test_one_answer_serves_every_version(version):
    answer = {"brokers": BROKERS, "cluster_id": "c", "controller_id": 1, "topics": TOPICS}
    wire = encode_body(METADATA, version, answer)
    schema = schema_of(METADATA, version, "response")
    read = reader_of(schema)(Cursor(memoryview(wire)))
    assert read.brokers[0].port == 9092
    assert read.topics[0].partitions[0].isr_nodes == (1,)
    assert read.topics[0].topic_id == (UUID(int=5) if version >= 10 else None)


def test_a_misspelt_answer_field_is_noticed_at_any_depth():
    with pytest.raises(SchemaMismatchError, match=r"brokers v0.*'prt'"):
        encode_body(METADATA, 0, {"brokers": [{**BROKERS[0], "prt": 1}], "topics": []})


def test_a_forgotten_answer_field_is_noticed():
    with pytest.raises(SchemaMismatchError, match="'topics' was left out"):
        encode_body(METADATA, 12, {"brokers": BROKERS})


def test_an_answer_that_carries_an_error_may_leave_out_the_rest():
    wire = encode_body(FIND_COORDINATOR, 2, {"error_code": 15})
    assert wire == struct.pack(">ih", 0, 15) + b"\xff\xff" + struct.pack(">i", 0) + b"\0\0" + bytes(
        4
    )


def test_null_where_the_schema_has_none_is_noticed():
    with pytest.raises(SchemaMismatchError, match="topics may not be null"):
        encode_body(METADATA, 12, {"brokers": BROKERS, "topics": None})


def test_a_number_that_does_not_fit_names_the_field():
    with pytest.raises(SchemaMismatchError, match="'port': 4294967296"):
        encode_body(METADATA, 12, {"brokers": [{**BROKERS[0], "port": 2**32}], "topics": []})


def test_a_response_frame_has_its_length_the_number_and_tags_where_the_version_has_them():
    assert b"".join(frame_of(7, Encoded([b"ab", b"c"]), METADATA, 8)) == (
        struct.pack(">ii", 7, 7) + b"abc"
    )
    assert b"".join(frame_of(7, Encoded([b"ab", b"c"]), METADATA, 9)) == (
        struct.pack(">ii", 8, 7) + b"\0abc"
    )


def test_the_answer_to_api_versions_never_has_tags_in_its_header():
    assert has_flexible_header(18, 3)
    assert b"".join(frame_of(7, Encoded([b"ab"]), 18, 3)) == struct.pack(">ii", 6, 7) + b"ab"


@pytest.mark.parametrize("version", [0, 4])  # without and with tagged fields in the headers
def test_a_client_s_request_and_its_answer_pass_through_the_broker_s_codec(version):
    asked = {"key": "g", "key_type": 0, "coordinator_keys": ["g"]}
    frame = memoryview(request_frame(7, b"me", asked, FIND_COORDINATOR, version))
    prefix = parse_prefix(frame[4:])
    cursor = Cursor(frame[4:])
    client_id = parse_client_id(cursor, flexible=has_flexible_header(FIND_COORDINATOR, version))
    request = parse_body(cursor, FIND_COORDINATOR, version)
    assert (prefix, client_id) == ((FIND_COORDINATOR, version, 7), "me")
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    assert "g" in (request.key, *request.coordinator_keys)
    answer = b"".join(frame_of(7, {"error_code": 15}, FIND_COORDINATOR, version))
    correlation_id, response = parse_response(memoryview(answer)[4:], FIND_COORDINATOR, version)
    assert correlation_id == 7
    assert response.error_code == (15 if version == 0 else 0)


def test_a_client_s_reader_takes_no_more_elements_than_it_is_told():
    body = {"coordinators": [{"key": "a", "node_id": 1, "host": "h", "port": 9}] * 3}
    answer = b"".join(frame_of(1, body, FIND_COORDINATOR, 4))
    with pytest.raises(TooManyElementsError):
        parse_response(memoryview(answer)[4:], FIND_COORDINATOR, 4, max_elements=2)
