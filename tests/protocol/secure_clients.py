"""A message there and back with each client, over whatever the server asks for."""

from __future__ import annotations

import asyncio
import gc
import logging
import ssl
import time
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import confluent_kafka
import kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka.admin import AdminClient

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WAIT_S = 60.0
AT_ONCE = {"GOQUEUE_GROUPS_INITIAL_REBALANCE_DELAY": "0ms"}
"""For servers: no waiting for members that will not come."""


@dataclass(frozen=True)
class Access:
    """How a client gets in."""

    address: str
    mechanism: str | None = None
    user: str = ""
    password: str = ""
    ca_file: Path | None = None
    own_files: tuple[Path, Path] | None = None
    patience_s: float = 30.0
    """How long a client that tries again and again is allowed to."""

    @property
    def protocol(self) -> str:
        plain = "SSL" if self.ca_file else "PLAINTEXT"
        return f"SASL_{plain}" if self.mechanism else plain

    def of_confluent(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "bootstrap.servers": self.address,
            "security.protocol": self.protocol,
        }
        if self.mechanism:
            options["sasl.mechanism"] = self.mechanism
            options["sasl.username"] = self.user
            options["sasl.password"] = self.password
        if self.ca_file:
            options["ssl.ca.location"] = str(self.ca_file)
        if self.own_files:
            options["ssl.certificate.location"] = str(self.own_files[0])
            options["ssl.key.location"] = str(self.own_files[1])
        return options

    def of_python(self) -> dict[str, Any]:
        """What kafka-python and aiokafka have in common."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.address,
            "security_protocol": self.protocol,
        }
        if self.mechanism:
            options["sasl_mechanism"] = self.mechanism
            options["sasl_plain_username"] = self.user
            options["sasl_plain_password"] = self.password
        if self.ca_file:
            context = ssl.create_default_context(cafile=self.ca_file)
            if self.own_files:
                context.load_cert_chain(*self.own_files)
            options["ssl_context"] = context
        return options


def with_confluent(access: Access, topic: str, value: bytes) -> bytes:
    problems: list[str] = []
    producer = confluent_kafka.Producer(
        {**access.of_confluent(), "error_cb": lambda error: problems.append(error.str())}
    )
    undelivered: list[object] = []
    producer.produce(
        topic,
        value,
        partition=0,
        on_delivery=lambda error, _: undelivered.append(error) if error else None,
    )
    deadline = time.monotonic() + WAIT_S
    while producer.flush(0.1) and time.monotonic() < deadline:
        fatal = [text for text in problems if "uthentication" in text or "echanism" in text]
        if fatal:
            producer.purge()
            raise PermissionError(fatal[0])
    assert not undelivered
    settings = {"group.id": f"{topic}-confluent", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**access.of_confluent(), **settings})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()


def collect_leaks() -> None:
    """What a client leaves open in TLS, or when it cannot connect, is not our business."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def with_kafka_python(access: Access, topic: str, value: bytes) -> bytes:
    producer = _kafka_python_producer(access)
    if isinstance(producer, str):
        collect_leaks()
        raise PermissionError(producer)
    try:
        producer.send(topic, value, partition=0).get(WAIT_S)
    finally:
        producer.close()
    settings = {"group_id": f"{topic}-python", "auto_offset_reset": "earliest"}
    consumer = kafka.KafkaConsumer(
        topic, **access.of_python(), **settings, consumer_timeout_ms=WAIT_S * 1000
    )
    try:
        return next(consumer).value
    finally:
        consumer.close()


def _kafka_python_producer(access: Access) -> kafka.KafkaProducer | str:
    """A producer, or why there is none."""
    with complaints("kafka.net.manager") as said:
        patience_s = access.patience_s
        while True:
            try:
                patience_ms = patience_s * 1000
                return kafka.KafkaProducer(**access.of_python(), bootstrap_timeout_ms=patience_ms)
            except kafka.errors.KafkaError as error:
                if said or patience_s > WAIT_S / 3:
                    return said[0] if said else str(error)
            patience_s *= 4  # it was not even told why not


@contextmanager
def complaints(name: str) -> Iterator[list[str]]:
    """What a client writes into its log, where it tells nobody else why it cannot connect."""
    said: list[str] = []
    logger = logging.getLogger(name)

    def listen(record: logging.LogRecord) -> bool:
        said.append(record.getMessage())
        return False

    level = logger.level
    logger.setLevel(logging.WARNING)
    logger.addFilter(listen)
    try:
        yield said
    finally:
        logger.removeFilter(listen)
        logger.setLevel(level)


def with_aiokafka(access: Access, topic: str, value: bytes) -> bytes:
    came_back = _aiokafka_or_why_not(access, topic, value)
    collect_leaks()
    if isinstance(came_back, str):
        raise PermissionError(came_back)
    return came_back


def _aiokafka_or_why_not(access: Access, topic: str, value: bytes) -> bytes | str:
    with complaints("aiokafka") as said:
        try:
            return asyncio.run(_aiokafka_there_and_back(access, topic, value))
        except AioKafkaError as error:
            return said[0] if said else repr(error)


async def _aiokafka_there_and_back(access: Access, topic: str, value: bytes) -> bytes:
    producer = AIOKafkaProducer(**access.of_python())
    try:
        await producer.start()
        await producer.send_and_wait(topic, value, partition=0)
    finally:
        await producer.stop()
    settings = {"group_id": f"{topic}-aio", "auto_offset_reset": "earliest"}
    consumer = AIOKafkaConsumer(topic, **access.of_python(), **settings)
    try:
        await consumer.start()
        message = await asyncio.wait_for(consumer.getone(), WAIT_S)
        return message.value
    finally:
        await consumer.stop()


CLIENTS: dict[str, Callable[[Access, str, bytes], bytes]] = {
    "confluent": with_confluent,
    "aiokafka": with_aiokafka,
    "kafka-python": with_kafka_python,
}


def admin_of(access: Access) -> AdminClient:
    return AdminClient(access.of_confluent())
