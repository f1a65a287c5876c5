"""Messages of every size, and the sizes that are too much."""

from __future__ import annotations

import confluent_kafka
import kafka.errors
import pytest
from aiokafka.errors import MessageSizeTooLargeError as AioTooLargeError

from goqueue.records import Compression
from goqueue.wire.kafka.api_keys import ApiKey
from protocol.kafka_clients import (
    AIO,
    CLIENTS,
    CONFLUENT,
    KCAT,
    LIBRARIES,
    PYTHON,
    WAIT_S,
    Message,
    confluent_producer,
    kcat_run,
)
from protocol.raw_kafka import make_batch

SIZES = (1, 2, 63, 64, 4096, 65_535, 1_000_000)
LARGEST = 10_000_000
ROOM = 11_000_000

# What each client has to be told before it sends a large message at all.
ALLOWED = {
    CONFLUENT: {"message_max_bytes": 20_000_000},
    PYTHON: {"max_request_size": 20_000_000},
    AIO: {"max_request_size": 20_000_000},
    KCAT: {"message_max_bytes": 20_000_000},
}


def _value(size: int, seed: int = 0) -> bytes:
    """Printable, so that kcat can be given it, and different at every place."""
    line = b"".join(b"%08d" % (n + seed) for n in range(1000))
    return (line * (size // len(line) + 1))[:size]


@pytest.mark.parametrize("client", CLIENTS, ids=str, indirect=True)
def test_messages_from_one_byte_to_ten_megabytes_pass(broker, raw, name, client):
    topic = name("sizes")
    raw.create(topic, max_message_bytes=str(ROOM))
    sent = [Message(_value(size), b"%d" % size) for size in (*SIZES, LARGEST)]

    client.produce(broker.kafka_address, topic, sent, **ALLOWED[client])

    found = client.consume(broker.kafka_address, topic, [0], len(sent))
    assert [(m.key, len(m.value)) for m in found] == [(m.key, len(m.value)) for m in sent]
    assert [m.value for m in found] == [m.value for m in sent]


def test_confluent_is_told_that_a_message_is_too_large(broker, raw, name):
    topic = name("small")
    raw.create(topic)
    errors = []
    producer = confluent_producer(broker.kafka_address, **ALLOWED[CONFLUENT])
    producer.produce(topic, _value(2_000_000), on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_S) == 0
    assert [error.code() for error in errors] == [confluent_kafka.KafkaError.MSG_SIZE_TOO_LARGE]


def test_kafka_python_is_told_that_a_message_is_too_large(broker, raw, name):
    topic = name("small")
    raw.create(topic)
    with pytest.raises(kafka.errors.MessageSizeTooLargeError):
        PYTHON.produce(broker.kafka_address, topic, [Message(_value(2_000_000))], **ALLOWED[PYTHON])


def test_aiokafka_is_told_that_a_message_is_too_large(broker, raw, name):
    topic = name("small")
    raw.create(topic)
    with pytest.raises(AioTooLargeError):
        AIO.produce(broker.kafka_address, topic, [Message(_value(2_000_000))], **ALLOWED[AIO])


def test_kcat_is_told_that_a_message_is_too_large(broker, raw, name, kcat, tmp_path):
    topic = name("small")
    raw.create(topic)
    (tmp_path / "large").write_bytes(_value(2_000_000))
    done = kcat_run(
        *("-P", "-b", broker.kafka_address, "-t", topic, "-p", "0"),
        *("-X", "message.max.bytes=20000000", str(tmp_path / "large")),
    )
    assert b"Message size too large" in done.stderr


@pytest.mark.parametrize("client", LIBRARIES, ids=str)
def test_the_limit_of_a_topic_can_be_raised_and_lowered_while_it_is_used(broker, raw, name, client):
    topic = name("changing")
    raw.create(topic, max_message_bytes="1000")
    exact = make_batch(b"x" * 500)
    assert raw.produce(topic, exact).error_code == 0
    from_now = {"max.message.bytes": str(len(exact))}
    _alter(raw, topic, from_now)
    assert raw.produce(topic, exact).error_code == 0
    _alter(raw, topic, {"max.message.bytes": str(len(exact) - 1)})
    refused = raw.produce(topic, exact)
    assert refused.error_code == 10
    assert "max.message.bytes" in refused.error_message
    assert len(client.consume(broker.kafka_address, topic, [0], 2)) == 2


def _alter(raw, topic, configs):
    answer = raw.ask(
        ApiKey.ALTER_CONFIGS,
        2,
        resources=[
            {
                "resource_type": 2,
                "resource_name": topic,
                "configs": [{"name": key, "value": value} for key, value in configs.items()],
            }
        ],
        validate_only=False,
    )
    assert [each.error_code for each in answer.responses] == [0]


def test_a_batch_that_only_decompresses_beyond_the_limit_is_refused_where_it_would_be_stored_so(
    raw, name
):
    topic, as_sent = name("bomb"), name("bomb")
    raw.create(topic, compression_type="uncompressed", max_message_bytes="10000")
    raw.create(as_sent, max_message_bytes="10000")
    batch = make_batch(b"0" * 500_000, compression=Compression.ZSTD)
    assert len(batch) < 10_000
    assert raw.produce(topic, batch).error_code == 10
    assert raw.stored(topic) == []
    assert raw.produce(as_sent, batch).error_code == 0
