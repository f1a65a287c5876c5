"""Which records of a refused batch are to blame (KIP-467), as the Produce answer tells it."""

from __future__ import annotations

import struct
import time

import pytest
from crc32c import crc32c
from kio.schema.errors import ErrorCode

from goqueue.records import Record, encode
from protocol.raw_kafka import make_batch

HOUR_MS = 3_600_000


def _batch(*headers):
    """A record for each set of headers."""
    return bytes(
        encode(
            [
                Record(number, 1000, b"k", b"v", tuple(each.items()))
                for number, each in enumerate(headers)
            ]
        )
    )


def _blamed(answer):
    return {each.batch_index: each.batch_index_error_message for each in answer.record_errors}


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("goqueue-priority", b"9"),
        ("goqueue-ttl", b"-3"),
        ("goqueue-ttl", b"9" * 40),
        ("goqueue-deliver-at", b"soon"),
    ],
)
def test_every_record_with_a_wrong_header_is_named(raw, name, header, value):
    topic = name("blamed")
    raw.create(topic, goqueue_kafka_headers="true")
    answer = raw.produce(topic, _batch({}, {header: value}, {}, {header: value}))
    assert answer.error_code == ErrorCode.invalid_record
    assert answer.error_message
    assert list(_blamed(answer)) == [1, 3]
    assert all(_blamed(answer).values())
    assert raw.stored(topic) == []


def test_records_that_are_due_too_late_are_named(raw, name):
    topic = name("late")
    raw.create(topic, goqueue_kafka_headers="true", goqueue_delay_max_ms="1000")
    late = str(int(time.time() * 1000) + HOUR_MS).encode()
    answer = raw.produce(topic, _batch({"goqueue-deliver-at": late}, {}))
    assert answer.error_code == ErrorCode.invalid_record
    assert list(_blamed(answer)) == [0]


def test_records_without_a_key_are_named_where_the_topic_is_compacted(raw, name):
    topic = name("keyless")
    raw.create(topic, cleanup_policy="compact")
    records = [Record(n, 1000, key, b"v") for n, key in enumerate((b"a", None, b"b", None))]
    answer = raw.produce(topic, bytes(encode(records)))
    assert answer.error_code == ErrorCode.invalid_record
    assert list(_blamed(answer)) == [1, 3]


def test_a_record_that_does_not_parse_is_named(raw, name):
    topic = name("garbage")
    raw.create(topic, cleanup_policy="compact")
    batch = bytearray(make_batch(b"first", b"second"))
    batch[batch.index(b"second") - 1] = 0x7F  # the length of the value
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    answer = raw.produce(topic, bytes(batch))
    assert answer.error_code == ErrorCode.invalid_record
    assert list(_blamed(answer)) == [1]


def test_a_batch_that_is_refused_as_a_whole_blames_no_record_and_says_why(raw, name):
    topic = name("whole")
    raw.create(topic, max_message_bytes="100")
    answer = raw.produce(topic, make_batch(b"x" * 200))
    assert answer.error_code == ErrorCode.message_too_large
    assert "max.message.bytes" in answer.error_message
    assert _blamed(answer) == {}
