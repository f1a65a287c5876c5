"""How fast clients get on under a quota, measured over real connections."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

WARM_UP_S = 6.0
"""Until what was saved up is used, and nodes have shared the rate."""
WINDOW_S = 10.0
VALUE = b"x" * 100


class Counted:
    """Counts in one window of time."""

    def __init__(self) -> None:
        self.count = 0
        self._begins_s = time.monotonic() + WARM_UP_S

    @property
    def ends_s(self) -> float:
        return self._begins_s + WINDOW_S

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.ends_s

    @property
    def per_s(self) -> float:
        return self.count / WINDOW_S

    def add(self, count: int = 1) -> None:
        if self._begins_s <= time.monotonic() < self.ends_s:
            self.count += count


def published_per_s(options: dict[str, Any], topic: str, partitions: Sequence[int]) -> float:
    """Messages that one producer publishes, as fast as it may, to these partitions in turn."""
    counted = Counted()
    failed: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is None:
            counted.add()
        else:
            failed.append(error)

    settings = {"linger.ms": 5, "batch.num.messages": 50, "message.timeout.ms": 120_000}
    producer = Producer({**options, **settings, "queue.buffering.max.messages": 2000})
    at = 0
    while not counted.is_over:
        try:
            producer.produce(
                topic, VALUE, partition=partitions[at % len(partitions)], on_delivery=delivered
            )
            at += 1
        except BufferError:
            producer.poll(0.01)
    producer.purge()
    producer.flush(5)
    assert not [each for each in failed if "PURGE" not in str(each).upper()], failed[:3]
    return counted.per_s


def consumed_per_s(options: dict[str, Any], topic: str, partitions: Sequence[int]) -> float:
    """Messages that consumers, one for each partition, read as fast as they may."""
    counted = Counted()
    lock = threading.Lock()

    def read(number: int) -> None:
        settings = {
            "group.id": "unused",
            "queued.min.messages": 500,
            "fetch.queue.backoff.ms": 5,
        }
        consumer = Consumer({**options, **settings})
        consumer.assign([TopicPartition(topic, number, 0)])
        while not counted.is_over:
            found = consumer.consume(500, 0.05)
            assert not [each for each in found if each.error()]
            with lock:
                counted.add(len(found))
        consumer.close()

    with ExitStack() as stack:
        for number in partitions:
            thread = threading.Thread(target=read, args=(number,))
            thread.start()
            stack.callback(thread.join)
    return counted.per_s


def fill(options: dict[str, Any], topic: str, partitions: Sequence[int], count: int) -> None:
    """Publish so many messages to each partition."""
    producer = Producer({**options, "linger.ms": 20, "batch.num.messages": 50})
    for _ in range(count):
        for partition in partitions:
            while True:
                try:
                    producer.produce(topic, VALUE, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.05)
    assert producer.flush(120) == 0
