"""Pipelines in processes of their own, killed or elsewhere: every row is where it belongs, once."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.dataset
import pytest

from goqueue.records import Record
from support import pipeline_job
from support.committed import committed
from support.process_sessions import kill_session
from support.server import free_port, start_server
from support.topic_writer import TopicWriter

__all__ = ["start_server"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CONFIGURATION = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
ROWS = 12_000
PER_BATCH = 3000
PARTITIONS = 3
WAIT_S = 300.0


class Job:
    """A driver in a session of its own, so that all of its processes can be found and killed."""

    def __init__(self, said):
        self.said = json.dumps(said)
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, str(Path(pipeline_job.__file__)), self.said],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        return self

    def kill(self):
        """`kill -9` for the driver, its JVM and its workers."""
        kill_session(self.process.pid)
        self.process.stderr.close()
        self.process.wait(30)

    def wait_for(self, condition, what):
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert self.process.poll() is None, self.process.stderr.read()[-2000:]
            assert time.monotonic() < deadline, what
            time.sleep(0.05)

    def finish(self):
        _, said = self.process.communicate(timeout=WAIT_S)
        assert self.process.returncode == 0, said[-2000:]


@pytest.fixture
def server(start_server):
    server = start_server()
    with TopicWriter(server.kafka_address) as writer:
        writer.create("numbers", PARTITIONS)
        for first in range(0, ROWS, 500):
            records = [
                Record(
                    index, 1, b"k%d" % (first + index), json.dumps({"n": first + index}).encode()
                )
                for index in range(500)
            ]
            writer.append("numbers", first // 500 % PARTITIONS, records)
    return server


@pytest.fixture
def started(server, tmp_path):
    """`started(fault)`: a running pipeline."""
    jobs = []

    def start_job(fault="none", master=None):
        said = {
            "address": server.kafka_address,
            "source": "numbers",
            "checkpoints": str(tmp_path / "checkpoints"),
            "table": str(tmp_path / "table"),
            "rows": str(PER_BATCH),
            "marker": str(tmp_path / "marker"),
            "fault": fault,
            "master": master,
            "configuration": CONFIGURATION | {"spark.local.dir": str(tmp_path / "local")},
        }
        jobs.append(Job(said).start())
        return jobs[-1]

    yield start_job
    for job in jobs:
        job.kill()


def judge(server, tmp_path):
    """The oracle: even numbers are in topic and table, odd ones are dead letters, each once."""
    even, odd = Counter(range(0, ROWS, 2)), Counter(range(1, ROWS, 2))
    clean = committed(server.kafka_address, "numbers-clean")
    assert Counter(json.loads(each.value)["n"] for each in clean) == even
    letters = committed(server.kafka_address, "numbers.dlq")
    assert Counter(json.loads(each.value)["n"] for each in letters) == odd
    source = {each.value: each for each in committed(server.kafka_address, "numbers")}
    for each in letters:
        origin, headers = source[each.value], dict(each.headers)
        assert (each.key, each.partition) == (origin.key, origin.partition)
        assert int(headers["goqueue-dlq-offset"]) == origin.offset
    files = [str(path) for path in (tmp_path / "table").rglob("*.parquet")]
    table = pyarrow.dataset.dataset(files).to_table()
    assert Counter(table["n"].to_pylist()) == even


@pytest.mark.parametrize("fault", ["before-commit", "after-commit"])
def test_a_driver_that_is_killed_around_its_commit(started, server, tmp_path, fault):
    job = started(fault)
    job.wait_for((tmp_path / "marker").exists, fault)
    job.kill()
    started().finish()
    judge(server, tmp_path)


def test_a_broker_that_is_killed_and_comes_back(started, server, tmp_path):
    job = started()
    commits = tmp_path / "checkpoints" / "numbers" / "clean" / "commits"
    job.wait_for((commits / "0").exists, "the first batch")
    server.kill()
    time.sleep(2.0)
    server.start()
    job.wait_for((commits / "2").exists, "the third batch")
    server.kill()
    server.start()
    job.finish()
    judge(server, tmp_path)


def answers(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def connect_server(tmp_path):
    """A Spark Connect server, as on another machine."""
    port = free_port()
    configuration = CONFIGURATION | {
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.local.dir": str(tmp_path / "connect-local"),
    }
    given = [word for pair in configuration.items() for word in ("--conf", "=".join(pair))]
    kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    process = subprocess.Popen(
        [
            str(Path(sys.executable).with_name("spark-submit")),
            *("--master", "local[2]", "--class", kind, *given, "spark-internal"),
        ],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + WAIT_S
    while not answers(port):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.5)
    yield f"sc://127.0.0.1:{port}"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def test_a_pipeline_runs_through_spark_connect(started, connect_server, server, tmp_path):
    started(master=connect_server).finish()
    judge(server, tmp_path)
