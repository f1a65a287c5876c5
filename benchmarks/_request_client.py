"""librdkafka when its requests are small, in a process of its own (see `_client.py`)."""

from __future__ import annotations

import time
from functools import cache
from threading import Barrier, Thread
from typing import Any, Final

from confluent_kafka import Producer

from benchmarks._client import serve_calls

VALUE: Final = bytes(100)
_NEVER_S: Final = 60.0


@cache
def _producer(address: str, _number: int = 0) -> Producer:
    return Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0})


def without_linger(
    address: str, topic: str, partitions: int, count: int, unconfirmed: int
) -> dict[str, Any]:
    """Send messages one by one, to each partition in turn, at most so many unconfirmed."""
    producer = _producer(address)
    producer.list_topics(topic, timeout=_NEVER_S)
    started = time.perf_counter()
    for number in range(count):
        while len(producer) >= unconfirmed:
            producer.poll(0.001)
        producer.produce(topic, VALUE, partition=number % partitions)
    left = producer.flush(_NEVER_S)
    return {"seconds": time.perf_counter() - started, "left": left}


def one_in_flight(address: str, topic: str, producers: int, seconds: float) -> dict[str, Any]:
    """So many producers for so long, each waits for its acknowledgement before it sends again."""
    counts = [0] * producers
    began = Barrier(producers)
    left = 0

    def send(number: int) -> None:
        nonlocal left
        producer = _producer(address, number)
        producer.list_topics(topic, timeout=_NEVER_S)
        began.wait()
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            producer.produce(topic, VALUE)
            left += producer.flush(_NEVER_S)
            counts[number] += 1

    threads = [Thread(target=send, args=(number,)) for number in range(producers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"a_second": sum(counts) / seconds, "left": left}


if __name__ == "__main__":
    serve_calls({each.__name__: each for each in (without_linger, one_in_flight)})
