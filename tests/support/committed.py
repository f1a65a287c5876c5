"""What a reader of committed messages finds in a topic, by a client nobody here wrote."""

from __future__ import annotations

from typing import NamedTuple, cast

import confluent_kafka


class Found(NamedTuple):
    """One message."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def committed(broker_or_address: object, topic: str) -> list[Found]:
    """Everything up to the last stable offset of each partition, as it is now."""
    address = getattr(broker_or_address, "kafka_address", broker_or_address)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "oracle",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in partitions])
        found, ended = [], set()
        while len(ended) < len(partitions):
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    found.append(_found(message))
                elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
        return found
    finally:
        consumer.close()


def _found(message: confluent_kafka.Message) -> Found:
    return Found(
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        message.key(),
        message.value(),
        [cast("tuple[str, bytes | None]", each) for each in message.headers() or []],
    )
