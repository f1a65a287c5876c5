"""A worker that reads, transforms and writes in transactions, and simply dies when in doubt.

    python transform_worker.py '{"client": "confluent", "bootstrap": "...", "name": "worker-0",
                                 "partitions": [0, 2], "batch": 20}'

It copies partitions of a topic to another (`in` and `out`, unless `source` and `target` say
otherwise), and commits how far it has read in the same transactions, for the group `workers` or
`group`. Whoever starts it again finds everything done once.

Each output names its transaction and how many outputs that has. Some transactions are written twice
and aborted the first time: what they wrote then says so, and is for nobody to see.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
import time
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = "workers"
SOURCE = "in"
TARGET = "out"
TIMEOUT_S = 60
STUCK_S = 10.0 * float(os.environ.get("GOQUEUE_TEST_PATIENCE", "1"))
"""When its broker comes back, librdkafka may wait for ever for a connection that it does not make,
whatever timeout it was given. A worker that gets nowhere for so long dies, and is started anew."""


DONE, NEVER = b"done ", b"never "
"""What outputs begin with: those that count, and those of transactions that are aborted."""
TRANSACTION = "transaction"
"""The header of an output: its transaction and the number of its outputs."""
ABORTED = 0.15
"""How many transactions are aborted at first."""

_numbers = count()


class Attempt:
    """One transaction for some inputs."""

    def __init__(self, name: str, size: int, *, is_aborted: bool) -> None:
        self.is_aborted = is_aborted
        self._named = f"{name}/{os.getpid()}/{next(_numbers)}:{size}".encode()

    def output(self, value: bytes) -> bytes:
        return (NEVER if self.is_aborted else DONE) + value

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        return [(TRANSACTION, self._named)]


def attempts(name: str, size: int) -> Iterator[Attempt]:
    """The transactions for so many inputs: the last one is to be committed."""
    if random.random() < ABORTED:
        yield Attempt(name, size, is_aborted=True)
    yield Attempt(name, size, is_aborted=False)


class Watchdog:
    """Ends the process when a step takes too long, from a thread that the step cannot block."""

    def __init__(self) -> None:
        self.seen_s = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while time.monotonic() - self.seen_s < STUCK_S:
            time.sleep(0.2)
        os._exit(1)


def confluent(said: dict[str, Any]) -> None:
    from confluent_kafka import OFFSET_STORED, Consumer, Producer, TopicPartition  # noqa: PLC0415

    quiet = {
        "bootstrap.servers": said["bootstrap"],
        "log_level": 0,
        "reconnect.backoff.max.ms": 100,
    }
    producer = Producer({**quiet, "transactional.id": said["name"], "linger.ms": 0})
    producer.init_transactions(TIMEOUT_S)
    reading = {
        "group.id": said["group"],
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer({**quiet, **reading, "fetch.wait.max.ms": 50})
    consumer.assign([TopicPartition(said["source"], n, OFFSET_STORED) for n in said["partitions"]])
    watchdog = Watchdog()
    while True:
        watchdog.seen_s = time.monotonic()
        messages = consumer.consume(said["batch"], 0.2)
        if not messages:
            continue
        next_offsets: dict[int, int] = {}
        for message in messages:
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
            next_offsets[message.partition()] = message.offset() + 1
        places = [TopicPartition(said["source"], n, offset) for n, offset in next_offsets.items()]
        for attempt in attempts(said["name"], len(messages)):
            producer.begin_transaction()
            for message in messages:
                producer.produce(
                    said["target"],
                    attempt.output(message.value()),
                    partition=message.partition(),
                    headers=list(attempt.headers),
                )
            metadata = consumer.consumer_group_metadata()
            producer.send_offsets_to_transaction(places, metadata, TIMEOUT_S)
            if attempt.is_aborted:
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)


async def aiokafka(said: dict[str, Any]) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # noqa: PLC0415

    producer = AIOKafkaProducer(bootstrap_servers=said["bootstrap"], transactional_id=said["name"])
    await producer.start()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=said["bootstrap"],
        group_id=said["group"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        fetch_max_wait_ms=50,
    )
    await consumer.start()
    consumer.assign([TopicPartition(said["source"], number) for number in said["partitions"]])
    while True:
        found = await consumer.getmany(timeout_ms=200, max_records=said["batch"])
        if not found:
            continue
        offsets = {place: messages[-1].offset + 1 for place, messages in found.items()}
        for attempt in attempts(said["name"], sum(map(len, found.values()))):
            await producer.begin_transaction()
            for place, messages in found.items():
                for message in messages:
                    await producer.send(
                        said["target"],
                        attempt.output(message.value),
                        partition=place.partition,
                        headers=attempt.headers,
                    )
            await producer.send_offsets_to_transaction(offsets, said["group"])
            if attempt.is_aborted:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()


def kafka_python(said: dict[str, Any]) -> None:
    import kafka  # noqa: PLC0415
    from kafka.structs import OffsetAndMetadata  # noqa: PLC0415

    servers = said["bootstrap"].split(",")
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers, transactional_id=said["name"], delivery_timeout_ms=120_000
    )
    producer.init_transactions()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers,
        group_id=said["group"],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        fetch_max_wait_ms=50,
    )
    consumer.assign([kafka.TopicPartition(said["source"], number) for number in said["partitions"]])
    watchdog = Watchdog()
    while True:
        watchdog.seen_s = time.monotonic()
        found = consumer.poll(timeout_ms=200, max_records=said["batch"])
        if not found:
            continue
        offsets = {
            place: OffsetAndMetadata(messages[-1].offset + 1, "", -1)
            for place, messages in found.items()
        }
        for attempt in attempts(said["name"], sum(map(len, found.values()))):
            producer.begin_transaction()
            sent = [
                producer.send(
                    said["target"],
                    attempt.output(message.value),
                    partition=place.partition,
                    headers=attempt.headers,
                )
                for place, messages in found.items()
                for message in messages
            ]
            for each in sent:
                each.get(TIMEOUT_S)
            producer.send_offsets_to_transaction(offsets, said["group"])
            if attempt.is_aborted:
                producer.abort_transaction()
            else:
                producer.commit_transaction()


def main() -> None:
    said = {"source": SOURCE, "target": TARGET, "group": GROUP, **json.loads(sys.argv[1])}
    try:
        if said["client"] == "aiokafka":
            asyncio.run(asyncio.wait_for(aiokafka(said), 600))
        elif said["client"] == "kafka-python":
            kafka_python(said)
        else:
            confluent(said)
    finally:
        os._exit(1)  # at once: a client may take for ever to say goodbye to a broker that is gone


if __name__ == "__main__":
    main()
