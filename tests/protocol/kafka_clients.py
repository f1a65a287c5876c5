"""The same few things done with each client: what a test says once, every client must do."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

WAIT_S = 90.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_QUIET = {"logger": logging.getLogger("librdkafka")}


@dataclass(frozen=True)
class Message:
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int | None = None
    partition: int = 0
    offset: int | None = None


@dataclass(frozen=True)
class Client:
    """One client: how it produces and how it consumes.

    `produce(address, topic, messages, codec, **options)` returns when everything is acknowledged,
    with the offsets in order. `consume(address, topic, partitions, count)` reads so many messages
    from the start of the partitions, whatever their order between partitions.
    """

    name: str
    produce: Callable[..., list[int]]
    consume: Callable[..., list[Message]]

    def __str__(self) -> str:
        return self.name


# --- confluent-kafka ------------------------------------------------------------------------------


def confluent_producer(address: str, **options: Any) -> confluent_kafka.Producer:
    config = {"bootstrap.servers": address, "linger.ms": 20, "message.timeout.ms": 120_000}
    return confluent_kafka.Producer({**config, **_dotted(options)}, **_QUIET)


@contextmanager
def confluent_consumer(address: str, **options: Any) -> Iterator[confluent_kafka.Consumer]:
    config = {
        "bootstrap.servers": address,
        "group.id": "nobody",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 50,  # closing and seeking wait for the fetch that is under way
    }
    consumer = confluent_kafka.Consumer({**config, **_dotted(options)}, **_QUIET)
    try:
        yield consumer
    finally:
        consumer.close()


def _dotted(options: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in options.items()}


def confluent_produce(
    address: str, topic: str, messages: Sequence[Message], codec: str = "none", **options: Any
) -> list[int]:
    producer = confluent_producer(address, compression_type=codec, **options)
    offsets: list[int] = []

    def delivered(error: object, message: confluent_kafka.Message) -> None:
        if error is None:
            offsets.append(message.offset())

    for message in messages:
        producer.produce(
            topic,
            message.value,
            message.key,
            message.partition,
            on_delivery=delivered,
            timestamp=message.timestamp_ms or 0,
            headers=list(message.headers),
        )
    assert producer.flush(WAIT_S) == 0
    assert len(offsets) == len(messages)
    return offsets


def confluent_consume(
    address: str, topic: str, partitions: Sequence[int], count: int, **options: Any
) -> list[Message]:
    found: list[Message] = []
    with confluent_consumer(address, fetch_message_max_bytes=16 << 20, **options) as consumer:
        start = confluent_kafka.OFFSET_BEGINNING
        consumer.assign([confluent_kafka.TopicPartition(topic, p, start) for p in partitions])
        deadline = time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < deadline:
            for message in consumer.consume(count, timeout=0.2):
                assert message.error() is None, message.error()
                found.append(from_confluent(message))
    return found


def from_confluent(message: confluent_kafka.Message) -> Message:
    headers: Any = tuple(message.headers() or ())
    _, timestamp = message.timestamp()
    return Message(
        message.value(), message.key(), headers, timestamp, message.partition(), message.offset()
    )


# --- kafka-python ---------------------------------------------------------------------------------


@contextmanager
def python_producer(address: str, **options: Any) -> Iterator[kafka.KafkaProducer]:
    producer = kafka.KafkaProducer(bootstrap_servers=address, **options)
    try:
        yield producer
    finally:
        producer.close(timeout=30)


@contextmanager
def python_consumer(address: str, **options: Any) -> Iterator[kafka.KafkaConsumer]:
    options = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, **options}
    consumer = kafka.KafkaConsumer(bootstrap_servers=address, **options)
    try:
        yield consumer
    finally:
        consumer.close()


def python_produce(
    address: str, topic: str, messages: Sequence[Message], codec: str = "none", **options: Any
) -> list[int]:
    kind = None if codec == "none" else codec
    options = {"linger_ms": 20, "max_request_size": 32 << 20, **options}
    with python_producer(address, compression_type=kind, **options) as producer:
        futures = [
            producer.send(
                topic,
                message.value,
                message.key,
                list(message.headers),
                message.partition,
                message.timestamp_ms,
            )
            for message in messages
        ]
        return [future.get(timeout=WAIT_S).offset for future in futures]


def python_consume(
    address: str, topic: str, partitions: Sequence[int], count: int, **options: Any
) -> list[Message]:
    found: list[Message] = []
    options = {"max_partition_fetch_bytes": 16 << 20, **options}
    with python_consumer(address, **options) as consumer:
        places = [kafka.TopicPartition(topic, number) for number in partitions]
        consumer.assign(places)
        consumer.seek_to_beginning(*places)
        deadline = time.monotonic() + WAIT_S
        while len(found) < count and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=200).values():
                found.extend(from_record(record) for record in records)
    return found


def from_record(record: Any) -> Message:
    headers = tuple((name, value) for name, value in record.headers)
    return Message(
        record.value, record.key, headers, record.timestamp, record.partition, record.offset
    )


# --- aiokafka -------------------------------------------------------------------------------------


def aio_produce(
    address: str, topic: str, messages: Sequence[Message], codec: str = "none", **options: Any
) -> list[int]:
    async def scenario() -> list[int]:
        kind = None if codec == "none" else codec
        producer = AIOKafkaProducer(
            bootstrap_servers=address,
            compression_type=kind,
            linger_ms=20,
            **{"max_request_size": 32 << 20, **options},
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    message.value,
                    message.key,
                    message.partition,
                    message.timestamp_ms,
                    list(message.headers),
                )
                for message in messages
            ]
            return [result.offset for result in await asyncio.gather(*futures)]
        finally:
            await producer.stop()

    return asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


def aio_consume(
    address: str, topic: str, partitions: Sequence[int], count: int, **options: Any
) -> list[Message]:
    async def scenario() -> list[Message]:
        found: list[Message] = []
        consumer = AIOKafkaConsumer(
            bootstrap_servers=address,
            fetch_max_wait_ms=50,
            **{"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 16 << 20, **options},
        )
        await consumer.start()
        try:
            places = [AioTopicPartition(topic, number) for number in partitions]
            consumer.assign(places)
            await consumer.seek_to_beginning(*places)
            while len(found) < count:
                batches = await consumer.getmany(timeout_ms=200)
                for records in batches.values():
                    found.extend(from_record(record) for record in records)
        finally:
            await consumer.stop()
        return found

    return asyncio.run(asyncio.wait_for(scenario(), WAIT_S))


# --- kcat -----------------------------------------------------------------------------------------

_BETWEEN, _KEY_END = "\x1e", "\x1f"
_FORMAT = r"%p|%o|%T|%K|%S|%k%s%h\x1d\n"
_LINE = re.compile(rb"(\d+)\|(\d+)\|(-?\d+)\|(-?\d+)\|(-?\d+)\|")


def kcat_run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["kcat", *arguments], capture_output=True, timeout=WAIT_S, check=False, **options
    )


def kcat_produce(
    address: str, topic: str, messages: Sequence[Message], codec: str = "none", **options: Any
) -> list[int]:
    """kcat sets the same headers on all messages, and cannot tell a key that is empty from none."""
    first = messages[0]
    assert all((m.headers, m.partition) == (first.headers, first.partition) for m in messages)
    lines = _BETWEEN.join(
        (f"{_text(m.key)}{_KEY_END}" if m.key is not None else "") + _text(m.value)
        for m in messages
    )
    flags: list[str] = []
    for name, header in first.headers:
        flags += ["-H", name if header is None else f"{name}={header.decode()}"]
    for name, value in _dotted(options).items():
        flags += ["-X", f"{name}={value}"]
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(lines.encode())
        done = kcat_run(
            *("-P", "-b", address, "-t", topic, "-p", str(first.partition), "-z", codec, "-Z"),
            *("-D", _BETWEEN, "-K", _KEY_END, "-X", "linger.ms=20", *flags, "-l", file.name),
        )
    assert done.returncode == 0, done.stderr
    return list(range(len(messages)))


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode()


def kcat_consume(
    address: str, topic: str, partitions: Sequence[int], count: int, **options: Any
) -> list[Message]:
    only = ("-p", str(partitions[0])) if len(partitions) == 1 else ()
    done = kcat_run(
        *("-C", "-b", address, "-t", topic, *only, "-o", "beginning", "-e", "-q", "-f", _FORMAT),
        *("-X", "fetch.message.max.bytes=16777216", "-X", "fetch.wait.max.ms=50"),
    )
    assert done.returncode == 0, done.stderr
    return list(_kcat_messages(done.stdout))


def _kcat_messages(data: bytes) -> Iterator[Message]:
    at = 0
    while at < len(data):
        match = _LINE.match(data, at)
        assert match, data[at : at + 100]
        partition, offset, timestamp, key_size, value_size = map(int, match.groups())
        at = match.end()
        key, at = _piece(data, at, key_size)
        value, at = _piece(data, at, value_size)
        end = data.index(b"\x1d\n", at)
        yield Message(value, key, _kcat_headers(data[at:end]), timestamp, partition, offset)
        at = end + 2


def _piece(data: bytes, at: int, size: int) -> tuple[bytes | None, int]:
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _kcat_headers(text: bytes) -> tuple[tuple[str, bytes | None], ...]:
    pairs = [part.partition(b"=") for part in text.split(b",") if part]
    return tuple((name.decode(), None if v == b"NULL" else v) for name, _, v in pairs)


CONFLUENT = Client("confluent", confluent_produce, confluent_consume)
PYTHON = Client("kafka-python", python_produce, python_consume)
AIO = Client("aiokafka", aio_produce, aio_consume)
KCAT = Client("kcat", kcat_produce, kcat_consume)
LIBRARIES = (CONFLUENT, PYTHON, AIO)
CLIENTS = (*LIBRARIES, KCAT)
