"""librdkafka with messages of the schema benchmarks, in a process of its own (see `_client.py`)."""

from __future__ import annotations

import base64
import time
from functools import cache
from typing import Any, Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks._client import serve_calls
from benchmarks._kafka_client import ends

CHUNK: Final = 1000
MAX_QUEUED: Final = 50_000
_NEVER_S: Final = 60.0


@cache
def _producer(address: str) -> Producer:
    return Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 5})


def make(address: str, topic: str, settings: dict[str, str]) -> None:
    """A topic of one partition."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, 1, config=settings)])[topic].result(_NEVER_S)


def produce(address: str, topic: str, value: str, count: int) -> dict[str, Any]:
    """Send a message, which comes in base64, so many times and wait for all acknowledgements."""
    producer = _producer(address)
    producer.list_topics(topic, timeout=_NEVER_S)
    messages = [{"value": base64.b64decode(value)} for _ in range(CHUNK)]
    started = time.perf_counter()
    for _ in range(count // CHUNK):
        while len(producer) > MAX_QUEUED:
            producer.poll(0.001)
        producer.produce_batch(topic, messages)
        producer.poll(0)
    left = producer.flush(_NEVER_S)
    return {"seconds": time.perf_counter() - started, "left": left}


def end(address: str, topic: str) -> int:
    """Where the topic's only partition ends."""
    (found,) = ends(address, topic)
    return found


if __name__ == "__main__":
    serve_calls({each.__name__: each for each in (make, produce, end)})
