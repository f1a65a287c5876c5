"""`kill -9` of a broker that is backed up under load: what was acknowledged is restored."""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import confluent_kafka

from goqueue.testing import Broker
from support.backups import BackupApi
from support.server import make_server

if TYPE_CHECKING:
    from pathlib import Path

KILLS = 3
PARTITIONS = 4
SIZE = 4000


class Load:
    """Publishes numbered messages, and notes which were acknowledged when."""

    def __init__(self, address: str) -> None:
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5}
        )
        self._stop = threading.Event()
        self.acknowledged: dict[bytes, float] = {}
        """By value: when its acknowledgement had come."""
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(60)

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            with suppress(BufferError):
                value = str(number).encode().ljust(SIZE, b".")
                self._producer.produce("orders", value, key=str(number), on_delivery=self._told)
                number += 1
            self._producer.poll(0.001)

    def _told(self, error: object, message: confluent_kafka.Message) -> None:
        value = message.value()
        if error is None and value is not None:
            self.acknowledged[bytes(value)] = time.time()


def test_a_backup_under_load_survives_kills_and_holds_what_was_acknowledged_before_it(
    tmp_path: Path,
) -> None:
    luck = random.Random(7)
    server = make_server(tmp_path / "data")
    server.start()
    made = BackupApi(server.http_url, str(tmp_path / "backups"))
    made.api.ask("POST", "/topics", {"name": "orders", "num_partitions": PARTITIONS})
    with Load(server.kafka_address) as load:
        time.sleep(1.0)
        for _ in range(KILLS):
            made.begin("/admin/backup", {"rate_bytes": 500_000})  # so that it takes a while
            time.sleep(luck.uniform(0.1, 0.8))
            server.kill()
            server.restart()
            made.close()
        assert made.list() == [], "a backup that was killed is none"
        job = made.create()
        time.sleep(0.3)
    made.done(job)
    (info,) = made.list()
    moment = info["created_at"] / 1000
    made.done(made.verify())
    made.close()
    server.close()
    expected = {value for value, when in load.acknowledged.items() if when < moment - 0.005}
    assert expected
    with Broker() as target:
        restored = BackupApi(target.http_url, str(tmp_path / "backups"))
        restored.done(restored.restore())
        restored.close()
        found = target.messages("orders")
    values = [message.value for message in found]
    assert len(values) == len(set(values)), "an idempotent producer's message is there once"
    assert expected <= set(values), f"{len(expected - set(values))} acknowledged ones are missing"
    for number in range(PARTITIONS):
        offsets = [message.offset for message in found if message.partition == number]
        assert offsets == list(range(len(offsets))), "there is no hole"


def test_a_restore_that_was_killed_leaves_topics_closed_and_the_next_one_begins_anew(
    tmp_path: Path,
) -> None:
    with Broker() as source:
        source.create_topic("orders", partitions=2)
        for number in range(400):
            source.publish("orders", str(number).ljust(5000), key=str(number))
        made = BackupApi(source.http_url, str(tmp_path / "backups"))
        made.done(made.create())
        made.close()
    server = make_server(tmp_path / "data")
    server.start()
    restored = BackupApi(server.http_url, str(tmp_path / "backups"))
    restored.begin("/admin/backup/latest/restore", {"rate_bytes": 100_000})
    deadline = time.monotonic() + 60
    while restored.api.ask("GET", "/topics/orders").status != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    refused = restored.api.ask("POST", "/topics/orders/messages", {"messages": [{"value": "x"}]})
    assert "topic_restoring" in str(refused.json), refused
    server.kill()
    server.restart()
    restored.close()
    refused = restored.api.ask("POST", "/topics/orders/messages", {"messages": [{"value": "x"}]})
    assert "topic_restoring" in str(refused.json), refused
    restored.done(restored.restore())
    answer = restored.api.ask("GET", "/topics/orders").json
    assert answer["total_messages"] == 400
    sent = restored.api.ask("POST", "/topics/orders/messages", {"messages": [{"value": "x"}]})
    assert sent.json["results"][0]["status"] == 200, sent
    restored.close()
    server.close()
