"""Consume, transform, produce, with `kill -9` of broker and workers at any moment: exactly once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from support import transform_worker
from support.groups import make_topic
from support.server import start_server
from support.transform_worker import GROUP, SOURCE, TARGET, transformed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.server import ServerProcess

__all__ = ["start_server"]

PARTITIONS = 4
WORKERS = 2
WAIT_S = 60.0


class Worker:
    """One worker process, started again whenever it has died."""

    def __init__(self, client: str, server: ServerProcess, number: int, batch: int) -> None:
        self._said = {
            "client": client,
            "bootstrap": server.kafka_address,
            "name": f"worker-{number}",
            "partitions": list(range(number, PARTITIONS, WORKERS)),
            "batch": batch,
        }
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    def ensure(self) -> None:
        if self._process is None or self._process.poll() is not None:
            script = str(Path(transform_worker.__file__))
            self._process = subprocess.Popen(
                [sys.executable, script, json.dumps(self._said)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            self.starts += 1

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def _workers(client: str, server: ServerProcess, batch: int) -> Iterator[list[Worker]]:
    workers = [Worker(client, server, number, batch) for number in range(WORKERS)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.kill()


def _publish(server: ServerProcess, count: int) -> Counter[bytes]:
    """So many inputs, each of them its own; what must come out of them, once."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": server.kafka_address, "enable.idempotence": True, "log_level": 0}
    )
    values = [b"%d" % number for number in range(count)]
    for number, value in enumerate(values):
        producer.produce(SOURCE, value, partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0
    return Counter(transformed(value) for value in values)


class Judge:
    """Reads what is committed, as a consumer that knows nothing of the workers."""

    def __init__(self, server: ServerProcess) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": server.kafka_address,
                "group.id": "judge",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
                "reconnect.backoff.max.ms": 100,
            }
        )
        self._consumer.assign(
            [confluent_kafka.TopicPartition(TARGET, n, 0) for n in range(PARTITIONS)]
        )
        self.seen: Counter[bytes] = Counter()

    def look(self, for_s: float) -> None:
        deadline = time.monotonic() + for_s
        while (left_s := deadline - time.monotonic()) > 0:
            for message in self._consumer.consume(500, min(left_s, 0.1)):
                if message.error() is None:
                    self.seen[message.value()] += 1

    def close(self) -> None:
        self._consumer.close()


def _committed(server: ServerProcess) -> list[int]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": server.kafka_address, "group.id": GROUP, "log_level": 0}
    )
    try:
        places = [confluent_kafka.TopicPartition(SOURCE, n) for n in range(PARTITIONS)]
        return [place.offset for place in consumer.committed(places, timeout=WAIT_S)]
    finally:
        consumer.close()


def _exactly_once(
    server: ServerProcess, client: str, *, inputs: int, batch: int, kills: int, seed: int
) -> None:
    for topic in (SOURCE, TARGET):
        make_topic(server, topic, PARTITIONS)
    expected = _publish(server, inputs)
    rng = random.Random(seed)
    judge = Judge(server)
    with _workers(client, server, batch) as workers:
        planned = rng.sample(("broker", "worker"), 2)
        planned += rng.choices(("broker", "worker"), (4, 6), k=kills - 2)
        deadline = time.monotonic() + 3 * WAIT_S + 15 * kills
        while judge.seen.total() < inputs or planned:
            assert time.monotonic() < deadline, f"{judge.seen.total()} of {inputs} came out"
            for worker in workers:
                worker.ensure()
            judge.look(rng.uniform(0.2, 0.8))
            if not planned or not judge.seen:
                continue
            if planned.pop() == "broker":
                server.kill()
                server.start()
            else:
                rng.choice(workers).kill()
        judge.look(1.0)  # nothing comes twice
    judge.close()
    assert judge.seen == expected
    sent = inputs // PARTITIONS
    assert _committed(server) == [sent] * PARTITIONS


@pytest.mark.parametrize("client", ["confluent", "aiokafka"])
def test_every_input_has_exactly_one_output_whoever_is_killed(
    start_server: Callable[..., ServerProcess], client: str
) -> None:
    server = start_server()
    _exactly_once(server, client, inputs=4000, batch=10, kills=4, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("client", ["confluent", "aiokafka"])
def test_exactly_once_holds_over_many_kills(
    start_server: Callable[..., ServerProcess], client: str, seed: int
) -> None:
    flags: tuple[Any, ...] = ("--fsync", "always") if seed % 2 else ()
    server = start_server(*flags)
    _exactly_once(server, client, inputs=20_000, batch=20, kills=20, seed=seed)
