"""A stream of Spark to a topic and to a table, while its driver and nodes of GoQueue are killed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from goqueue.spark.lake import lake_table
from goqueue.testing import Cluster
from support import sink_job
from support.committed import committed
from support.etcd import need_etcd
from support.lake import ids_by_others
from support.spark_driver import CONFIGURATION, Driver

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROWS = 12_000
PER_BATCH = 4000
PARTITIONS = 3


def fill(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    topics = [NewTopic(name, PARTITIONS, 3) for name in ("source", "target")]
    for made in admin.create_topics(topics).values():
        made.result(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(ROWS):
        partition = number // 500 % PARTITIONS
        producer.produce("source", b"%d" % number, b"%d" % partition, partition=partition)
    assert producer.flush(60) == 0


def test_a_stream_is_exactly_once_in_a_topic_and_a_table_when_driver_and_nodes_are_killed(
    tmp_path: Path,
) -> None:
    need_etcd()
    table = lake_table("delta", tmp_path / "lake" / "numbers")
    said: dict[str, Any] = {
        "source": "source",
        "target": "target",
        "checkpoint": str(tmp_path / "checkpoint"),
        "table": table.options(),
        "rows": str(PER_BATCH),
        "marker": str(tmp_path / "marker"),
        "configuration": CONFIGURATION | {"spark.local.dir": str(tmp_path / "local")},
    }
    with Cluster(3) as cluster:
        fill(cluster)
        said["address"] = cluster.bootstrap
        first = Driver(sink_job, said | {"fault": "before-commit"})
        try:
            first.wait_for((tmp_path / "marker").exists, "the second batch, not committed")
            cluster.kill(1)
        finally:
            first.kill()
        second = Driver(sink_job, said | {"fault": "none"})
        try:
            second.wait_for((tmp_path / "checkpoint/commits/1").exists, "the second batch")
            cluster.start(1)
            cluster.kill(2)
            second.finish()
        finally:
            second.kill()
        cluster.start(2)
        judge(cluster.bootstrap)
    assert ids_by_others(table) == Counter(range(ROWS))


def judge(address: str) -> None:
    """Every row of the source is in the target once, in the partition of its key."""
    found = committed(address, "target")
    assert Counter(int(each.value or b"") for each in found) == Counter(range(ROWS))
    assert len({(each.key, each.partition) for each in found}) == len({e.key for e in found})
