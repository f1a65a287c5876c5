"""Workers that transform one topic into another, and a judge of what came out of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka

from support import transform_worker
from support.transform_worker import GROUP, SOURCE, TARGET, transformed

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTITIONS = 4
WORKERS = 2
WAIT_S = 60.0


class Names:
    """What a run reads, writes and commits its offsets for."""

    def __init__(self, prefix: str = "") -> None:
        self.source, self.target, self.group = prefix + SOURCE, prefix + TARGET, prefix + GROUP
        self.prefix = prefix


class Worker:
    """One worker process, started again whenever it has died."""

    def __init__(self, client: str, bootstrap: str, number: int, batch: int, names: Names) -> None:
        self._said = {
            "client": client,
            "bootstrap": bootstrap,
            "source": names.source,
            "target": names.target,
            "group": names.group,
            "name": f"{names.prefix}worker-{number}",
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
def running_workers(
    client: str, bootstrap: str, batch: int, names: Names
) -> Iterator[list[Worker]]:
    """Workers that share out the partitions; they are not started yet."""
    workers = [Worker(client, bootstrap, number, batch, names) for number in range(WORKERS)]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.kill()


def publish(bootstrap: str, count: int, names: Names) -> Counter[bytes]:
    """So many inputs, each of them its own; what must come out of them, once."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    )
    values = [b"%d" % number for number in range(count)]
    for number, value in enumerate(values):
        producer.produce(names.source, value, partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0
    return Counter(transformed(value) for value in values)


class Judge:
    """Reads what is committed, as a consumer that knows nothing of the workers."""

    def __init__(self, bootstrap: str, names: Names) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{names.prefix}judge",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
                "reconnect.backoff.max.ms": 100,
            }
        )
        self._consumer.assign(
            [confluent_kafka.TopicPartition(names.target, n, 0) for n in range(PARTITIONS)]
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


def committed(bootstrap: str, names: Names) -> list[int]:
    """How far the workers have committed each partition."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": names.group, "log_level": 0}
    )
    try:
        places = [confluent_kafka.TopicPartition(names.source, n) for n in range(PARTITIONS)]
        return [place.offset for place in consumer.committed(places, timeout=WAIT_S)]
    finally:
        consumer.close()
