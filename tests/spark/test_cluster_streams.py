"""Reading, streaming and both sinks on a standalone cluster of a master and two workers."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import confluent_kafka
import pytest

from support import elsewhere_job
from support.committed import committed
from support.server import start_server
from support.spark_elsewhere import HOSTS, ON_A_CLUSTER, cluster, in_a_session, wait_until
from support.topic_writer import TopicWriter

__all__ = ["cluster", "start_server"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

deltalake = pytest.importorskip("deltalake")

ROWS = 9000
PARTITIONS = 3
KILLS = 2


@pytest.fixture
def server(start_server):
    server = start_server()
    with TopicWriter(server.kafka_address) as writer:
        for topic in ("numbers", "copy"):
            writer.create(topic, PARTITIONS)
        for first in range(0, ROWS, 500):
            writer.numbers("numbers", first // 500 % PARTITIONS, first, 500)
    return server


def job(cluster, server, folder, *, rows, is_slow=False):
    """What the job is told, and how it is started."""
    said = {
        "master": cluster.address,
        "configuration": ON_A_CLUSTER | {"spark.local.dir": str(folder / "local")},
        "address": server.kafka_address,
        "source": "numbers",
        "target": "copy",
        "folder": str(folder),
        "rows": rows,
        "answer": str(folder / "answer"),
        "is_slow": is_slow,
    }
    return [sys.executable, str(Path(elsewhere_job.__file__)), json.dumps(said)]


def judge(server, folder):
    """The oracle: both topics have the same messages, and the table has each of them once."""
    source = committed(server.kafka_address, "numbers")
    assert Counter(int(each.value) for each in source) == Counter(range(ROWS))
    kept = [(each.partition, each.key, each.value) for each in source]
    copies = committed(server.kafka_address, "copy")
    assert Counter((each.partition, each.key, each.value) for each in copies) == Counter(kept)
    table = deltalake.DeltaTable(str(folder / "table")).to_pyarrow_table()
    columns = (table[name].to_pylist() for name in ("partition", "offset", "n"))
    rows = Counter(zip(*columns, strict=True))
    assert rows == Counter((each.partition, each.offset, int(each.value)) for each in source)
    answer = json.loads((folder / "answer").read_text())
    assert answer["read"] == [ROWS, ROWS * (ROWS - 1) // 2]
    return table, answer


def end_of(process, folder):
    said = folder / "said"
    wait_until(lambda: process.poll() is not None, "the end of the job")
    assert process.returncode == 0, said.read_text()[-3000:]


def test_a_topic_is_read_and_copied_to_a_topic_and_a_table_by_both_workers(
    cluster, server, tmp_path
):
    command = job(cluster, server, tmp_path, rows=5000)
    with (
        (tmp_path / "said").open("wb") as said,
        in_a_session(command, tmp_path, said) as process,
    ):
        end_of(process, tmp_path)
    table, answer = judge(server, tmp_path)
    print(answer)  # noqa: T201 - how long it took, for whoever looks
    places = set(table["place"].to_pylist())
    assert {host for host in HOSTS for place in places if f"/{host}/" in place} == set(HOSTS)


def test_an_executor_that_is_killed_in_each_sink_changes_nothing(cluster, server, tmp_path):
    command = job(cluster, server, tmp_path, rows=ROWS, is_slow=True)
    with (
        (tmp_path / "said").open("wb") as said,
        in_a_session(command, tmp_path, said) as process,
    ):
        wait_until(lambda: min(stored(server)) or process.poll() is not None, "rows in the topic")
        kill_one(cluster)
        assert committed(server.kafka_address, "copy") == []
        under_way = tmp_path / "table-under-way"
        wait_until(lambda: under_way.exists() or process.poll() is not None, "rows in the table")
        kill_one(cluster, under_way.read_text())
        end_of(process, tmp_path)
    judge(server, tmp_path)
    assert (tmp_path / "said").read_text().count("ExecutorLostFailure") >= KILLS


def stored(server):
    """How far the log of each partition of the copy goes, also with what is not committed.

    Each task writes one partition and a half: when there is something in all, both are at it.
    """
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": server.kafka_address,
            "group.id": "size",
            "isolation.level": "read_uncommitted",
            "log_level": 0,
        }
    )
    try:
        places = [confluent_kafka.TopicPartition("copy", number) for number in range(PARTITIONS)]
        return [consumer.get_watermark_offsets(each, timeout=20)[1] for each in places]
    finally:
        consumer.close()


def kill_one(cluster, folder=""):
    """`kill -9` for an executor at work, or for the one that works in a folder."""
    places = {pid: str(Path(f"/proc/{pid}/cwd").readlink()) for pid in cluster.executors()}
    os.kill(next(pid for pid, place in places.items() if folder in place), signal.SIGKILL)
