"""What librdkafka is asked to do, in a process of its own (see `_client.py`).

Producers: acks=all, linger 5 ms unless told otherwise, batches of up to 1 MB and 10 000 messages
(librdkafka's own), no compression, the default partitioner. Consumers: assigned from offset 0 on,
1 MB of each partition a fetch (librdkafka's own), 64 MB read ahead. `fetch.queue.backoff.ms` is 1
ms: librdkafka's second would be all that is measured.
"""

from __future__ import annotations

import struct
import time
from array import array
from functools import cache
from itertools import count as counting
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks._client import serve_calls
from benchmarks.harness import percentiles

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

VALUE_BYTES: Final = 100
CHUNK: Final = 1000
CONSUMED_AT_ONCE: Final = 10_000
MAX_QUEUED: Final = 500_000
RANKS: Final = (50, 99, 99.9)
WARM_UP_S: Final = 0.5
"""What is sent in the first half second of a paced run is not counted: connections open in it."""

_NEVER_S: Final = 60.0
_SENT_AT: Final = struct.Struct(">q")
_MS: Final = 1000.0
_consumers: Final = counting()


@cache
def _producer(address: str, linger_ms: float) -> Producer:
    return Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "linger.ms": linger_ms,
            "queue.buffering.max.messages": 2 * MAX_QUEUED,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )


def _consumer(address: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": address,
            "group.id": f"reader-{next(_consumers)}",
            "enable.auto.commit": False,
            "queued.min.messages": 10_000_000,
            "queued.max.messages.kbytes": 65_536,
            "fetch.queue.backoff.ms": 1,
        }
    )


# --- Throughput --------------------------------------------------------------------------------


class _Reports:
    """Counts delivery reports."""

    def __init__(self) -> None:
        self.delivered = 0
        self.failed = 0

    def __call__(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1


def produce(address: str, topic: str, count: int, *, reports: bool) -> dict[str, Any]:
    """Send so many messages and wait for all acknowledgements.

    With `reports`, each message's own is counted in Python; without, librdkafka counts them and
    tells how many were left.
    """
    producer = _producer(address, 5)
    producer.list_topics(topic, timeout=_NEVER_S)
    counted = _Reports()
    messages = [{"value": bytes(VALUE_BYTES)} for _ in range(CHUNK)]
    options: dict[str, Any] = {"on_delivery": counted} if reports else {}
    cpu_s, started = time.process_time(), time.perf_counter()
    for _ in range(count // CHUNK):
        while len(producer) > MAX_QUEUED:
            producer.poll(0.001)
        taken = producer.produce_batch(topic, messages, **options)
        if taken != CHUNK:
            raise RuntimeError(f"librdkafka took {taken} messages of {CHUNK}")
        producer.poll(0)
    left = producer.flush(_NEVER_S)
    return {
        "seconds": time.perf_counter() - started,
        "cpu_s": time.process_time() - cpu_s,
        "acknowledged": counted.delivered if reports else count // CHUNK * CHUNK - left,
        "failed": counted.failed,
    }


def ends(address: str, topic: str) -> list[int]:
    """The end offset of each partition, as the broker tells it; the topic is made if need be."""
    partitions = _producer(address, 5).list_topics(topic, timeout=_NEVER_S).topics[topic].partitions
    consumer = _consumer(address)
    found = [
        consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_NEVER_S)[1]
        for number in sorted(partitions)
    ]
    consumer.close()
    return found


def consume(address: str, topic: str, starts: list[int], count: int) -> dict[str, Any]:
    """Read so many messages from these offsets on."""
    consumer = _consumer(address)
    consumer.list_topics(topic, timeout=_NEVER_S)
    cpu_s, started = time.process_time(), time.perf_counter()
    consumer.assign([TopicPartition(topic, number, at) for number, at in enumerate(starts)])
    read = wrong = 0
    while read < count:
        messages = consumer.consume(CONSUMED_AT_ONCE, _NEVER_S if read == 0 else 1.0)
        if not messages and time.perf_counter() - started > _NEVER_S:
            break
        read += len(messages)
        wrong += sum(1 for message in messages[-1:] if message.error() is not None)
    seconds = time.perf_counter() - started
    cpu_s = time.process_time() - cpu_s
    consumer.close()
    return {"seconds": seconds, "cpu_s": cpu_s, "read": read, "wrong": wrong}


# --- Latency -----------------------------------------------------------------------------------


class Steps(NamedTuple):
    """A steady rate, in steps of a millisecond or more."""

    number: int
    each: int
    apart_ns: int

    @classmethod
    def at(cls, rate: float, seconds: float) -> Steps:
        """So many messages a second, for so long."""
        apart_ns = int(max(1e6, 1e9 / rate))
        return cls(int(seconds * 1e9 / apart_ns), max(1, round(rate * apart_ns / 1e9)), apart_ns)

    @property
    def messages(self) -> int:
        """How many there are in all."""
        return self.number * self.each


def paced(
    address: str, topic: str, rate: float, seconds: float, linger_ms: float
) -> dict[str, Any]:
    """Send at a steady rate, a few messages each millisecond; how long acknowledgements take.

    Each message carries the moment at which it was due, and so do those of a sender that is late:
    what a client has to wait for because the one before it had to wait counts.
    """
    producer = _producer(address, linger_ms)
    producer.list_topics(topic, timeout=_NEVER_S)
    latencies_s = array("d")
    counted_from = time.perf_counter_ns() + int(WARM_UP_S * 1e9)

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise RuntimeError(f"a message was not delivered: {error}")
        sent_at = _sent_at(message)
        if sent_at >= counted_from:
            latencies_s.append((time.perf_counter_ns() - sent_at) / 1e9)

    steps = Steps.at(rate, seconds)
    started = time.perf_counter_ns()
    padding = bytes(VALUE_BYTES - _SENT_AT.size)
    for step in range(steps.number):
        due = started + step * steps.apart_ns
        while (early_ns := due - time.perf_counter_ns()) > 0:
            producer.poll(early_ns / 1e9)
        value = _SENT_AT.pack(due) + padding
        producer.produce_batch(topic, [{"value": value}] * steps.each, on_delivery=on_delivery)
        producer.poll(0)
    sent_s = (time.perf_counter_ns() - started) / 1e9
    left = producer.flush(_NEVER_S)
    return {
        "sent": steps.messages,
        "left": left,
        "rate": steps.messages / sent_s,
        **_in_ms(latencies_s),
    }


def follow(address: str, topic: str, starts: list[int], count: int) -> dict[str, Any]:
    """Read so many messages of `paced` as they come; how long ago each was due to be sent."""
    consumer = _consumer(address)
    consumer.list_topics(topic, timeout=_NEVER_S)
    consumer.assign([TopicPartition(topic, number, at) for number, at in enumerate(starts)])
    sent_and_seen: list[tuple[int, int]] = []
    read, began = 0, time.perf_counter()
    while read < count and time.perf_counter() - began < _NEVER_S:
        # One at a time when they are few: `consume` waits until it has all that it may return.
        message = consumer.poll(0.1)
        messages = [] if message is None else [message, *consumer.consume(CONSUMED_AT_ONCE, 0)]
        now = time.perf_counter_ns()
        read += len(messages)
        sent_and_seen.extend((_sent_at(message), now) for message in messages)
    consumer.close()
    counted_from = min(sent_and_seen)[0] + int(WARM_UP_S * 1e9)
    latencies_s = [(now - sent) / 1e9 for sent, now in sent_and_seen if sent >= counted_from]
    return {"read": read, **_in_ms(latencies_s)}


def _sent_at(message: Message) -> int:
    value = message.value()
    assert value is not None, message.error()
    sent_at: int = _SENT_AT.unpack_from(value)[0]
    return sent_at


def _in_ms(latencies_s: list[float] | array[float]) -> dict[str, float]:
    return {rank: value * _MS for rank, value in percentiles(latencies_s, RANKS).items()}


if __name__ == "__main__":
    serve_calls(
        {each.__name__: each for each in (produce, ends, consume, paced, follow)}  # by name
    )
