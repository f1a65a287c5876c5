"""librdkafka with and without transactions, in a process of its own (see `_client.py`)."""

from __future__ import annotations

import time
from functools import cache
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks._client import serve_calls

CHUNK: Final = 100
MAX_QUEUED: Final = 50_000
_NEVER_S: Final = 60.0


@cache
def _producer(address: str, transactional_id: str | None) -> Producer:
    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "enable.idempotence": True,
        "linger.ms": 5,
    }
    if transactional_id is None:
        return Producer(settings)
    producer = Producer({**settings, "transactional.id": transactional_id})
    producer.init_transactions(_NEVER_S)
    return producer


def make(address: str, topic: str, partitions: int) -> None:
    """A topic."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, partitions)])[topic].result(_NEVER_S)


def produce(address: str, topic: str, size: int, count: int, each: int) -> dict[str, Any]:
    """Send so many messages, `each` in a transaction; 0: without transactions."""
    producer = _producer(address, f"bench-{each}" if each else None)
    producer.list_topics(topic, timeout=_NEVER_S)
    messages = [{"value": b"." * size} for _ in range(CHUNK)]
    per_transaction = each or count
    started = time.perf_counter()
    for _ in range(count // per_transaction):
        if each:
            producer.begin_transaction()
        for _ in range(per_transaction // CHUNK):
            while len(producer) > MAX_QUEUED:
                producer.poll(0.001)
            producer.produce_batch(topic, messages)
            producer.poll(0)
        if each:
            producer.commit_transaction(_NEVER_S)
    left = producer.flush(_NEVER_S)
    return {"seconds": time.perf_counter() - started, "left": left}


def consume(address: str, topic: str, partitions: int, count: int, isolation: str) -> float:
    """Seconds to read so many messages from the start; raises when there are fewer."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "bench",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 100,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found, started = 0, time.perf_counter()
    deadline = started + _NEVER_S
    while found < count:
        if time.perf_counter() > deadline:
            raise TimeoutError(f"{found} messages of {count}")
        found += sum(message.error() is None for message in consumer.consume(10_000, 0.1))
    took = time.perf_counter() - started
    consumer.close()
    if found != count:
        raise ValueError(f"{found} messages, expected {count}")
    return took


if __name__ == "__main__":
    serve_calls({each.__name__: each for each in (make, produce, consume)})
