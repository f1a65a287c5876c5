"""Workers that transform one topic into another, and a judge of what came out of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka

from support import transform_worker
from support.oracles.transactions import Output, Stored, Transformed, judge
from support.transform_worker import DONE, GROUP, NEVER, SOURCE, TARGET, TRANSACTION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.history import Finding

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

    def __init__(
        self, client: str, bootstrap: str, names: Names, *, batch: int, partitions: range
    ) -> None:
        self._said = {
            "client": client,
            "bootstrap": bootstrap,
            "source": names.source,
            "target": names.target,
            "group": names.group,
            "name": f"{names.prefix}worker-{partitions.start}",
            "partitions": list(partitions),
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
    shares = [range(number, PARTITIONS, WORKERS) for number in range(WORKERS)]
    workers = [Worker(client, bootstrap, names, batch=batch, partitions=each) for each in shares]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.kill()


def publish(bootstrap: str, count: int, names: Names) -> set[str]:
    """So many inputs, each of them its own."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    )
    values = [str(number) for number in range(count)]
    for number, value in enumerate(values):
        producer.produce(names.source, value, partition=number % PARTITIONS)
    assert producer.flush(WAIT_S) == 0
    return set(values)


def output_of(message: confluent_kafka.Message) -> Output:
    """What an output says of itself."""
    value = message.value() or b""
    named = bytes(dict(message.headers() or [])[TRANSACTION])  # type: ignore[arg-type]  # bytes
    transaction, _, size = named.decode().rpartition(":")
    return Output(
        message.partition(),
        message.offset(),
        value.removeprefix(DONE).removeprefix(NEVER).decode(),
        transaction,
        int(size),
        is_aborted=value.startswith(NEVER),
    )


class Reader:
    """Reads what is committed, as a consumer that knows nothing of the workers."""

    def __init__(self, bootstrap: str, names: Names) -> None:
        self._consumer = _reading(bootstrap, names.target)
        self.seen: list[Output] = []

    def look(self, for_s: float) -> None:
        deadline = time.monotonic() + for_s
        while (left_s := deadline - time.monotonic()) > 0:
            for message in self._consumer.consume(500, min(left_s, 0.1)):
                if message.error() is None:
                    self.seen.append(output_of(message))

    def close(self) -> None:
        self._consumer.close()


def _reading(bootstrap: str, topic: str) -> confluent_kafka.Consumer:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "socket.timeout.ms": 6000,
            "log_level": 0,
            "reconnect.backoff.max.ms": 100,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
    return consumer


def read_all(bootstrap: str, topic: str) -> list[confluent_kafka.Message]:
    """Everything in a topic that is committed."""
    consumer = _reading(bootstrap, topic)
    found: list[confluent_kafka.Message] = []
    left = set(range(PARTITIONS))
    deadline = time.monotonic() + WAIT_S
    try:
        while left:
            assert time.monotonic() < deadline, f"the end of {topic} {left} is not reached"
            for message in consumer.consume(500, 0.1):
                if message.error() is None:
                    found.append(message)
                elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
    finally:
        consumer.close()
    return found


def judged(bootstrap: str, names: Names, acked: set[str], seen: list[Output]) -> list[Finding]:
    """What is wrong, once the workers are done and nothing comes any more."""
    source = [
        Stored(each.partition(), each.offset(), each.value().decode())
        for each in read_all(bootstrap, names.source)
    ]
    target = [output_of(each) for each in read_all(bootstrap, names.target)]
    offsets = dict(enumerate(committed(bootstrap, names)))
    return judge(Transformed(acked, source, target, seen, offsets))


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
