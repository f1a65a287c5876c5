"""confluent-kafka as its users write it, in a process of its own (see `_client.py`).

Every setting is the one it comes with, but for `tuned`: a consumer whose queue is full waits for a
second before it fetches again, and that one for a millisecond.
"""

from __future__ import annotations

import time
from itertools import count as counting
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from benchmarks._client import serve_calls
from benchmarks._client_ways import VALUE_BYTES, VALUES, taken, values
from benchmarks._turns import expect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_NEVER_S: Final = 60.0
_AT_ONCE: Final = 500
_TUNED: Final = {"fetch.queue.backoff.ms": 1}
_groups: Final = counting()


class _Reports:
    """Looks at the delivery report of each message."""

    def __init__(self) -> None:
        self.delivered = 0

    def __call__(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"a message was not delivered: {error}")
        self.delivered += 1


def publish(address: str, topic: str, count: int, way: str) -> dict[str, Any]:
    """Send so many messages and wait for the report of each."""
    producer = Producer({"bootstrap.servers": address})
    reports = _Reports()
    producer.produce(topic, VALUES[0], on_delivery=reports)
    producer.flush(_NEVER_S)
    cpu_s, started = time.process_time(), time.perf_counter()
    _PUBLISHING[way](producer, topic, count, reports)
    producer.flush(_NEVER_S)
    found = taken(started, cpu_s)
    expect(reports.delivered == count + 1, f"{reports.delivered} of {count + 1} were delivered")
    return found


def _one_by_one(producer: Producer, topic: str, count: int, reports: _Reports) -> None:
    for value in values(count):
        while True:
            try:
                producer.produce(topic, value, on_delivery=reports)
            except BufferError:
                producer.poll(0.01)
            else:
                break
        producer.poll(0)


def _in_batches(producer: Producer, topic: str, count: int, reports: _Reports) -> None:
    for _ in range(count // len(VALUES)):
        left = [{"value": value} for value in VALUES]
        while left:
            took = producer.produce_batch(topic, left, on_delivery=reports)
            left = left[took:] if took < len(left) else []
            producer.poll(0.01 if left else 0)


_PUBLISHING: Final[dict[str, Callable[[Producer, str, int, _Reports], None]]] = {
    "produce": _one_by_one,
    "produce_batch": _in_batches,
}


def consume(address: str, topic: str, count: int, way: str) -> dict[str, Any]:
    """Read so many messages from the start of a partition, and look at each value."""
    settings: dict[str, Any] = {"bootstrap.servers": address, "group.id": f"r{next(_groups)}"}
    if way.endswith("tuned"):
        settings |= _TUNED
    consumer = Consumer(settings)
    consumer.list_topics(topic, timeout=_NEVER_S)
    read = size_bytes = 0
    cpu_s, started = time.process_time(), time.perf_counter()
    consumer.assign([TopicPartition(topic, 0, 0)])
    for messages in (_polled if way.startswith("poll") else _consumed)(consumer):
        for message in messages:
            if message.error() is not None:
                raise RuntimeError(f"reading failed: {message.error()}")
            size_bytes += len(message.value() or b"")
        read += len(messages)
        if read >= count:
            break
    found = taken(started, cpu_s)
    consumer.close()
    expect(size_bytes == read * VALUE_BYTES, f"{read} messages had {size_bytes} bytes")
    return found


def _consumed(consumer: Consumer) -> Iterator[list[Message]]:
    while True:
        yield consumer.consume(_AT_ONCE, 1.0)


def _polled(consumer: Consumer) -> Iterator[list[Message]]:
    while True:
        message = consumer.poll(1.0)
        yield [] if message is None else [message]


if __name__ == "__main__":
    serve_calls({each.__name__: each for each in (publish, consume)})
