"""Backup and restore on three nodes: each writes what it leads; offsets and transactions follow."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from goqueue.testing import Broker, Cluster
from support.backups import BackupApi
from support.etcd import need_etcd

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COUNT = 300
PARTITIONS = 3
WAIT_S = 120


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_etcd()
    with Cluster(3) as cluster:
        yield cluster


def _values(address: str, topic: str, **settings: Any) -> dict[tuple[int, int], bytes]:
    """Everything that can be read of a topic, by partition and offset."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            **settings,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
    found: dict[tuple[int, int], bytes] = {}
    ended: set[int] = set()
    deadline = time.monotonic() + WAIT_S
    while len(ended) < PARTITIONS and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error() is None:
            found[message.partition(), message.offset()] = message.value()
        elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    return found


def _fill(address: str, topic: str) -> set[tuple[int, int]]:
    """Messages, a group that has read some of them, a transaction committed and one open."""
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "acks": "all"})
    for number in range(COUNT):
        producer.produce(topic, str(number).encode(), key=str(number).encode())
    assert producer.flush(WAIT_S) == 0
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    read: set[tuple[int, int]] = set()
    deadline = time.monotonic() + WAIT_S
    while len(read) < COUNT // 3 and time.monotonic() < deadline:
        for message in consumer.consume(100, 1.0):
            if message.error() is None:
                read.add((message.partition(), message.offset()))
    consumer.commit(asynchronous=False)
    consumer.close()
    for name, commits in (("t1", True), ("t2", False)):
        writer = confluent_kafka.Producer({"bootstrap.servers": address, "transactional.id": name})
        writer.init_transactions(WAIT_S)
        writer.begin_transaction()
        for number in range(PARTITIONS):
            writer.produce(topic, name.encode(), partition=number)
        writer.flush()
        if commits:
            writer.commit_transaction(WAIT_S)
    return read


def _check(
    address: str, api: BackupApi, stored: dict[tuple[int, int], bytes], read: set[tuple[int, int]]
) -> None:
    """Everything is there, what was open is aborted, and the group goes on where it was."""
    assert _values(address, "orders", **{"isolation.level": "read_uncommitted"}) == stored
    committed = _values(address, "orders", **{"isolation.level": "read_committed"})
    assert committed == {place: value for place, value in stored.items() if value != b"t2"}
    offsets = api.api.ask("GET", "/groups/billing/offsets").json["offsets"]["orders"]
    assert sum(each or 0 for each in offsets.values()) == len(read)
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "transactional.id": "t2"})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("orders", b"after", partition=0)
    producer.commit_transaction(WAIT_S)


def test_one_node_is_restored_into_three_and_three_into_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    with Broker() as alone:
        made = BackupApi(alone.http_url, str(tmp_path / "first"))
        alone.create_topic("orders", partitions=PARTITIONS)
        read = _fill(alone.kafka_address, "orders")
        stored = _values(alone.kafka_address, "orders", **{"isolation.level": "read_uncommitted"})
        made.done(made.create())
        made.close()
    three = BackupApi(cluster.http_url(2), str(tmp_path / "first"))
    three.done(three.restore())
    _check(cluster.bootstrap, three, stored, read)
    three.close()

    with_after = _values(cluster.bootstrap, "orders", **{"isolation.level": "read_committed"})
    made = BackupApi(cluster.http_url(3), str(tmp_path / "second"))
    made.done(made.create())
    assert made.done(made.create())["copied_bytes"] < 10_000
    made.done(made.verify())
    made.done(made.restore(topics=["orders"], rename={"orders": "again"}))
    assert len(_values(cluster.bootstrap, "again")) == len(with_after)
    made.close()
    with Broker() as alone:
        restored = BackupApi(alone.http_url, str(tmp_path / "second"))
        restored.done(restored.restore())
        values = _values(alone.kafka_address, "orders", **{"isolation.level": "read_committed"})
        assert values == with_after
        offsets = restored.api.ask("GET", "/groups/billing/offsets").json["offsets"]["orders"]
        assert sum(each or 0 for each in offsets.values()) == len(read)
        restored.close()
