"""GoQueue's queue groups through Kafka's protocol: confluent-kafka's own share consumer.

Each message is acknowledged explicitly; what a poll has given is sent with the next one, which is
how the client is meant to be used, and counted when that has returned. The client blocks, and has
its process for itself.
"""

from __future__ import annotations

import logging
import socket
import struct
import time
from typing import TYPE_CHECKING, ClassVar, Final

from confluent_kafka import KafkaError, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from benchmarks._queue_system import WAIT_S
from benchmarks._raw_client import compact_string, frame
from benchmarks._turns import expect

if TYPE_CHECKING:
    from confluent_kafka import Message

    from benchmarks._queue_system import Feed, Tally

_DESCRIBE_OFFSETS: Final = 90
_ANSWER_S: Final = 20.0
_INT: Final = struct.Struct(">i")
_PLACE: Final = struct.Struct(">iqiq")


class ShareGroup:
    """Acknowledges each message; a poll gives up to 500 of them."""

    joined_s: ClassVar = 1.5
    replicas: ClassVar = 1

    def __init__(self, address: str) -> None:
        self._address = address

    async def prepare(self, topic: str) -> None:
        """Make the topic; the group is made by who joins first, and reads from the start."""
        admin = AdminClient({"bootstrap.servers": self._address})
        admin.create_topics([NewTopic(topic, 1, self.replicas)])[topic].result(_ANSWER_S)
        from_start = ConfigEntry(
            "share.auto.offset.reset",
            "earliest",
            incremental_operation=AlterConfigOpType.SET,
        )
        group = ConfigResource(ConfigResource.Type.GROUP, topic, incremental_configs=[from_start])
        admin.incremental_alter_configs([group])[group].result(_ANSWER_S)

    async def produce(self, topic: str, feed: Feed) -> None:
        """The client fills its own batches."""
        producer = Producer({"bootstrap.servers": self._address, "linger.ms": 1})
        failed: list[KafkaError] = []

        def reported(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        async for values in feed:
            for value in values:
                producer.produce(topic, value, on_delivery=reported)
            producer.poll(0)
        expect(producer.flush(_ANSWER_S) == 0, "not everything was confirmed")
        expect(not failed, f"refused: {failed[:1]}")

    async def consume(self, topic: str, tally: Tally) -> None:
        """Poll, and acknowledge one by one."""
        quiet = logging.getLogger(__name__)
        quiet.setLevel(logging.CRITICAL)
        settings = {
            "bootstrap.servers": self._address,
            "group.id": topic,
            "share.acknowledgement.mode": "explicit",
        }
        consumer = ShareConsumer(settings, logger=quiet)
        consumer.subscribe([topic])
        joined_at = time.monotonic() + self.joined_s
        while time.monotonic() < joined_at:
            consumer.poll(WAIT_S)
        tally.ready()
        count = 0
        while not tally.is_done:
            messages = consumer.poll(WAIT_S)
            if count:
                tally.acked(count)
            tally.see([message.value() or b"" for message in messages])
            for message in messages:
                consumer.acknowledge(message)
            count = len(messages)
        consumer.close()

    async def left(self, topic: str) -> int:
        """What the group is not done with, by Kafka's own call for it."""
        host, _, port = self._address.rpartition(":")
        name = compact_string(topic)
        with socket.create_connection((host, int(port)), timeout=_ANSWER_S) as connection:
            connection.sendall(frame(_DESCRIBE_OFFSETS, 1, b"\0\2" + name + b"\0\0\0"))
            size = _INT.unpack(connection.recv(4, socket.MSG_WAITALL))[0]
            answer = connection.recv(size, socket.MSG_WAITALL)
        # correlation id, no tags, throttle time; one group, one topic with its id, one partition
        at = 4 + 1 + 4 + 1 + len(name) + 1 + len(name) + 16 + 1
        lag: int = _PLACE.unpack_from(answer, at)[3]
        return lag


class AgainstKafka(ShareGroup):
    """Waits for Apache Kafka: a member learns its partitions with its second heartbeat."""

    joined_s: ClassVar = 7.0
