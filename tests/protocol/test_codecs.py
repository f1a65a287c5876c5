"""Every codec, every producer, every consumer: what one client wrote, all of them read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from goqueue.records import Compression
from protocol.kafka_clients import CLIENTS, CODECS, KCAT, LIBRARIES, PYTHON, Message
from protocol.raw_kafka import RawKafka

PER_PARTITION = 50

RICH = [
    Message(b"plain", b"key"),
    Message(None, b"tombstone"),
    Message(b"", b"empty value"),
    Message(b"no key"),
    Message(b"empty key", b""),
    Message(bytes(range(256)), bytes(range(255, -1, -1))),
    Message(
        b"headers",
        b"k",
        (
            ("twice", b"1"),
            ("twice", b"2"),
            ("null", None),
            ("empty", b""),
            ("binary", b"\x00\xff,="),
            ("größe", b"utf-8"),
        ),
    ),
]
# What kcat can say: text, the same headers on every message, and no key that is empty.
SIMPLE_HEADERS = (("twice", b"1"), ("twice", b"2"), ("null", None))
SIMPLE = [
    Message(b"plain", b"key", SIMPLE_HEADERS),
    Message(None, b"tombstone", SIMPLE_HEADERS),
    Message(b"no key", None, SIMPLE_HEADERS),
]


def _messages(number, client):
    base = SIMPLE if client is KCAT else RICH
    filler = [Message(b"x" * 200, b"%d" % n, base[0].headers) for n in range(PER_PARTITION)]
    return [
        Message(m.value, m.key, _headers(m, client), 1_700_000_000_000 + n, number)
        for n, m in enumerate([*base, *filler])
    ]


def _headers(message, client):
    """kafka-python refuses to send a null header; it reads those of others."""
    return tuple(h for h in message.headers if client is not PYTHON or h[1] is not None)


@pytest.fixture(scope="module")
def written(broker, name, kcat):
    """A topic for each codec, with a partition for each producer."""
    topics = {}

    def write(codec):
        if codec not in topics:
            topic = name(codec)
            with RawKafka(broker.kafka_port) as raw:
                raw.create(topic, len(CLIENTS))
            for number, client in enumerate(CLIENTS):
                client.produce(broker.kafka_address, topic, _messages(number, client), codec)
            topics[codec] = topic
        return topics[codec]

    return write


@pytest.mark.parametrize("consumer", CLIENTS, ids=str)
@pytest.mark.parametrize("codec", CODECS)
def test_every_consumer_reads_what_every_producer_wrote(broker, written, codec, consumer):
    topic = written(codec)
    expected = {n: _messages(n, client) for n, client in enumerate(CLIENTS)}
    count = sum(map(len, expected.values()))

    found = consumer.consume(broker.kafka_address, topic, range(len(CLIENTS)), count)

    for number, client in enumerate(CLIENTS):
        theirs = sorted((m for m in found if m.partition == number), key=lambda m: m.offset)
        assert [m.offset for m in theirs] == list(range(len(expected[number])))
        assert [_comparable(m, consumer, client) for m in theirs] == [
            _comparable(m, consumer, client) for m in expected[number]
        ], f"written by {client}"


def _comparable(message, consumer, producer):
    """What both of them can express."""
    headers = message.headers
    if consumer is KCAT:  # prints an empty header like a null one, and separates with commas
        headers = tuple(h for h in headers if h[0] in {"twice", "null"})
    timestamp = None if producer is KCAT else message.timestamp_ms
    return message.value, message.key, headers, timestamp


@pytest.mark.parametrize("codec", CODECS)
def test_batches_are_stored_in_the_producers_codec(written, raw, codec):
    topic = written(codec)
    wanted = Compression[codec.upper()]
    for number, client in enumerate(CLIENTS):
        kinds = {Compression.of(info.compression) for info in raw.stored(topic, number)}
        # librdkafka leaves a batch uncompressed when compressing does not make it smaller.
        assert wanted in kinds <= {wanted, Compression.NONE}, client.name


@pytest.mark.parametrize("chosen", ["uncompressed", *CODECS[1:]])
def test_a_topic_may_choose_its_own_codec(broker, raw, name, chosen):
    topic = name("recompressed")
    raw.create(topic, len(LIBRARIES), compression_type=chosen)
    others = [codec for codec in CODECS if codec not in {chosen, "none"}]
    sent = [
        [Message(b"v" * 100, b"k%d" % n, (("h", b"1"),), 1000 + n, number) for n in range(20)]
        for number in range(len(LIBRARIES))
    ]

    for client, codec, messages in zip(LIBRARIES, others, sent, strict=False):
        client.produce(broker.kafka_address, topic, messages, codec)

    expected = Compression.NONE if chosen == "uncompressed" else Compression[chosen.upper()]
    for number, messages in enumerate(sent):
        assert {info.compression for info in raw.stored(topic, number)} == {expected.value}
        found = PYTHON.consume(broker.kafka_address, topic, [number], len(messages))
        assert [replace(message, offset=None) for message in found] == messages
