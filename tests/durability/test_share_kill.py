"""`kill -9` while share consumers work: nothing accepted comes again, everything else does."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import AcknowledgeType, KafkaException

from support.groups import FAST_SHARE, make_topic, publish
from support.server import start_server
from support.share import configure, open_consumer, poll, share_consumer, values

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import ShareConsumer

    from support.server import ServerProcess

__all__ = ["start_server"]

TOPIC, GROUP = "jobs", "workers"
PARTITIONS = 2
MESSAGES = 1500
PORTION = 50
"""A batch is half of it. What is being acknowledged when the broker is killed is never confirmed:
let it be little."""
KILLS = 2
WITHIN_S = 180.0


class Worker(threading.Thread):
    """Accepts four of five messages, releases the fifth, and remembers what was confirmed."""

    def __init__(self, consumer: ShareConsumer, done: threading.Event) -> None:
        super().__init__(daemon=True)
        self.consumer = consumer
        self.done = done
        self.seen: list[tuple[float, str]] = []
        self.accepted: dict[str, float] = {}
        """When each was known to be accepted."""

    def run(self) -> None:
        while not self.done.is_set():
            try:
                self._work()
            except KafkaException:
                time.sleep(0.05)  # the broker is away

    def _work(self) -> None:
        messages = [each for each in self.consumer.poll(0.2) if each.error() is None]
        now = time.monotonic()
        accepted: dict[int, list[str]] = {}
        for message in messages:
            value = message.value().decode()
            self.seen.append((now, value))
            if random.random() < 0.2:
                self.consumer.acknowledge(message, AcknowledgeType.RELEASE)
            else:
                self.consumer.acknowledge(message, AcknowledgeType.ACCEPT)
                accepted.setdefault(message.partition(), []).append(value)
        if not messages:
            return
        for place, error in self.consumer.commit_sync(5.0).items():
            if error is None:
                now = time.monotonic()
                self.accepted.update(dict.fromkeys(accepted.get(place.partition, ()), now))


def test_nothing_accepted_comes_again_and_all_else_does_across_kills(
    start_server: Callable[..., ServerProcess],
) -> None:
    server = start_server(*FAST_SHARE, "--groups-share-max-delivery-count-limit", "250")
    make_topic(server, TOPIC, PARTITIONS)
    configure(
        server,
        GROUP,
        auto_offset_reset="earliest",
        record_lock_duration_ms=3000,
        delivery_count_limit=250,
        heartbeat_interval_ms=200,
    )
    sent = {f"job-{number}" for number in range(MESSAGES)}
    jobs = sorted(sent)
    for at in range(0, MESSAGES, PORTION):  # whole stored batches are handed out
        publish(server, TOPIC, jobs[at : at + PORTION], PARTITIONS)
    done = threading.Event()
    options: dict[str, Any] = {"explicit": True, "max_poll_records": 40}
    workers = [Worker(open_consumer(server, GROUP, TOPIC, **options), done) for _ in range(2)]
    for worker in workers:
        worker.start()
    deadline = time.monotonic() + WITHIN_S
    for _ in range(KILLS):
        before = _confirmed(workers)
        while len(_confirmed(workers)) < min(len(before) + 200, MESSAGES):
            assert time.monotonic() < deadline, f"{len(before)} of {MESSAGES} are accepted"
            time.sleep(0.005)
        time.sleep(random.uniform(0, 0.02))
        server.kill()
        server.start()
    while {value for worker in workers for _, value in worker.seen} != sent:
        assert time.monotonic() < deadline, f"{len(_confirmed(workers))} of {MESSAGES} are accepted"
        time.sleep(0.02)
    while server.get(f"/groups/{GROUP}")[1]["total_lag"]:  # some were released, or are locked
        assert time.monotonic() < deadline
        time.sleep(0.05)
    done.set()
    for worker in workers:
        worker.join(60)
        worker.consumer.close()
    _judge(workers, sent)
    with share_consumer(server, GROUP, TOPIC) as last:
        assert values(poll(last, 2.0)) == []


def _confirmed(workers: list[Worker]) -> dict[str, float]:
    return {value: at for worker in workers for value, at in worker.accepted.copy().items()}


def _judge(workers: list[Worker], sent: set[str]) -> None:
    confirmed = _confirmed(workers)
    seen = [each for worker in workers for each in worker.seen]
    assert {value for _, value in seen} == sent
    assert len(confirmed) > MESSAGES / 2
    again = [value for at, value in seen if at > confirmed.get(value, float("inf"))]
    assert not again, f"accepted and delivered again: {again[:10]}"


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_settings_made_before_the_group_and_delivery_counts_outlive_the_broker(
    start_server: Callable[..., ServerProcess], how: str
) -> None:
    server = start_server(*FAST_SHARE)
    make_topic(server, TOPIC, 1)
    configure(server, GROUP, auto_offset_reset="earliest", record_lock_duration_ms=5000)
    publish(server, TOPIC, ["a", "b", "c"], 1)
    getattr(server, how)()
    server.start()
    consumer = open_consumer(server, GROUP, TOPIC, explicit=True)
    first, second, _ = poll(consumer)
    consumer.acknowledge(first, AcknowledgeType.ACCEPT)
    consumer.acknowledge(second, AcknowledgeType.RELEASE)
    assert list(consumer.commit_sync().values()) == [None]
    getattr(server, how)()
    server.start()
    with share_consumer(server, GROUP, TOPIC) as other:
        found = {}
        while len(found) < 2:
            found.update({m.value(): m.delivery_count() for m in poll(other)})
    assert found[b"b"] in {2, 3}  # the first consumer may have fetched it again
    assert found[b"c"] == 2
    consumer.close()
