"""The transactional API of each client behind the same few words."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

import confluent_kafka
import kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition as AioTopicPartition
from kafka.structs import OffsetAndMetadata

from protocol.kafka_clients import (
    WAIT_S,
    confluent_consumer,
    confluent_producer,
    python_consumer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.server import ServerProcess

QUIET_S = 0.4
"""How long a reader waits in vain before it is sure that there is nothing more."""


class Transactional(Protocol):
    """A transactional producer."""

    def begin(self) -> None: ...
    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        """Returns when the broker has the message."""

    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def send_offsets(self, group: str, topic: str, offset: int) -> None:
        """That the group has read partition 0 so far."""

    def close(self) -> None: ...


class Confluent:
    """confluent-kafka."""

    def __init__(self, address: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._address = address
        self._producer = confluent_producer(
            address,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            linger_ms=0,
            message_timeout_ms=min(timeout_ms, 120_000),
        )
        self._producer.init_transactions(WAIT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        outcomes: list[Any] = []
        self._producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: outcomes.append(error)
        )
        self._producer.flush(WAIT_S)
        if outcomes != [None]:
            raise RuntimeError(f"not sent: {outcomes}")

    def commit(self) -> None:
        self._producer.commit_transaction(WAIT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(WAIT_S)

    def send_offsets(self, group: str, topic: str, offset: int) -> None:
        with confluent_consumer(self._address, group_id=group) as consumer:
            metadata = consumer.consumer_group_metadata()
            places = [confluent_kafka.TopicPartition(topic, 0, offset)]
            self._producer.send_offsets_to_transaction(places, metadata, WAIT_S)

    def close(self) -> None:
        del self._producer


class Python:
    """kafka-python."""

    def __init__(self, address: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=address,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            delivery_timeout_ms=120_000,
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._producer.send(topic, value, partition=partition).get(WAIT_S)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def send_offsets(self, group: str, topic: str, offset: int) -> None:
        offsets = {kafka.TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, group)

    def close(self) -> None:
        self._producer.close(timeout=2)


class Loop:
    """An event loop in a thread of its own, for clients that need one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, make: Callable[[], Any]) -> Any:
        async def call() -> Any:
            return await make()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(WAIT_S)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Aio:
    """aiokafka."""

    def __init__(self, address: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._loop = Loop()

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(
                bootstrap_servers=address,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )
            await producer.start()
            return producer

        self._producer = self._loop.run(start)

    def begin(self) -> None:
        self._loop.run(self._producer.begin_transaction)

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._loop.run(lambda: self._producer.send_and_wait(topic, value, partition=partition))

    def commit(self) -> None:
        self._loop.run(self._producer.commit_transaction)

    def abort(self) -> None:
        self._loop.run(self._producer.abort_transaction)

    def send_offsets(self, group: str, topic: str, offset: int) -> None:
        offsets = {AioTopicPartition(topic, 0): offset}
        self._loop.run(lambda: self._producer.send_offsets_to_transaction(offsets, group))

    def close(self) -> None:
        with suppress(Exception):  # a fenced producer complains of it once more
            self._loop.run(self._producer.stop)
        self._loop.close()


PRODUCERS = (Confluent, Python, Aio)


@contextmanager
def transactional(
    kind: type[Any], server: ServerProcess, name: str, **options: Any
) -> Iterator[Any]:
    producer = kind(server.kafka_address, name, **options)
    try:
        yield producer
    finally:
        producer.close()


# --- Readers: so many messages from the start of partition 0, and whatever comes behind them ------


def confluent_values(address: str, topic: str, isolation: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with confluent_consumer(address, isolation_level=isolation) as consumer:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        quiet_at = time.monotonic() + 2 * QUIET_S
        while len(found) < count or time.monotonic() < quiet_at:
            for message in consumer.consume(100, timeout=0.1):
                assert message.error() is None, message.error()
                found.append(message.value())
                quiet_at = time.monotonic() + QUIET_S
    return found


def python_values(address: str, topic: str, isolation: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    with python_consumer(address, isolation_level=isolation) as consumer:
        place = kafka.TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        quiet_at = time.monotonic() + 2 * QUIET_S
        while len(found) < count or time.monotonic() < quiet_at:
            for records in consumer.poll(timeout_ms=100).values():
                found.extend(record.value for record in records)
                quiet_at = time.monotonic() + QUIET_S
    return found


def aio_values(address: str, topic: str, isolation: str, count: int) -> list[bytes]:
    async def read() -> list[bytes]:
        found: list[bytes] = []
        consumer = AIOKafkaConsumer(
            bootstrap_servers=address,
            isolation_level=isolation,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
        )
        await consumer.start()
        try:
            consumer.assign([AioTopicPartition(topic, 0)])
            quiet_at = time.monotonic() + 2 * QUIET_S
            while len(found) < count or time.monotonic() < quiet_at:
                for records in (await consumer.getmany(timeout_ms=100)).values():
                    found.extend(record.value for record in records)
                    quiet_at = time.monotonic() + QUIET_S
        finally:
            await consumer.stop()
        return found

    return asyncio.run(read())


READERS = {
    "confluent": confluent_values,
    "kafka-python": python_values,
    "aiokafka": aio_values,
}
