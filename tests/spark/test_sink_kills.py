"""Drivers, tasks and the broker are killed under a writing Spark: every row is there once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from support import sink_job
from support.committed import committed
from support.process_sessions import kill_session
from support.server import start_server
from support.topic_writer import TopicWriter

__all__ = ["start_server"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CONFIGURATION = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
ROWS = 12_000
PER_BATCH = 4000
PARTITIONS = 3
WAIT_S = 240.0


class Job:
    """A driver in a session of its own, so that all of its processes can be found and killed."""

    def __init__(self, said):
        environment = dict(os.environ)
        environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
        self.process = subprocess.Popen(
            [sys.executable, str(Path(sink_job.__file__)), json.dumps(said)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def kill(self):
        """`kill -9` for the driver, its JVM and its workers."""
        kill_session(self.process.pid)
        self.process.wait(30)

    def wait_for(self, condition, what):
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert self.process.poll() is None, f"the job ended before {what}"
            assert time.monotonic() < deadline, what
            time.sleep(0.05)

    def finish(self):
        assert self.process.wait(WAIT_S) == 0


@pytest.fixture
def server(start_server):
    return start_server()


@pytest.fixture
def start(server, tmp_path):
    """`start(fault)`: fill a topic, and start a job that copies it."""
    with TopicWriter(server.kafka_address) as writer:
        for topic in ("source", "target"):
            writer.create(topic, PARTITIONS, retention_ms=-1)
        for first in range(0, ROWS, 500):
            writer.numbers("source", first // 500 % PARTITIONS, first, 500)
    jobs = []

    def start_job(fault="none"):
        said = {
            "address": server.kafka_address,
            "source": "source",
            "target": "target",
            "checkpoint": str(tmp_path / "checkpoint"),
            "rows": str(PER_BATCH),
            "marker": str(tmp_path / "marker"),
            "fault": fault,
            "configuration": CONFIGURATION | {"spark.local.dir": str(tmp_path / "local")},
        }
        jobs.append(Job(said))
        return jobs[-1]

    yield start_job
    for job in jobs:
        job.kill()


def judge(server):
    """The oracle: every row of the source is in the target once, in the partition of its key."""
    wanted = Counter(each.value for each in committed(server.kafka_address, "source"))
    found = committed(server.kafka_address, "target")
    assert Counter(each.value for each in found) == wanted
    assert wanted.total() == ROWS
    assert len({(each.key, each.partition) for each in found}) == len({e.key for e in found})


@pytest.mark.parametrize(("fault", "batches"), [("before-commit", 1), ("after-commit", 2)])
def test_a_driver_that_is_killed_around_its_commit_doubles_and_loses_nothing(
    start, server, tmp_path, fault, batches
):
    job = start(fault)
    job.wait_for((tmp_path / "marker").exists, fault)
    assert len(committed(server.kafka_address, "target")) == batches * PER_BATCH
    job.kill()
    start().finish()
    judge(server)


def test_a_task_that_is_killed_after_its_last_row_is_run_again(start, server, tmp_path):
    start("task").finish()
    assert (tmp_path / "marker").exists()
    judge(server)


def test_a_broker_that_is_killed_between_write_and_commit_and_the_driver_with_it(
    start, server, tmp_path
):
    job = start("before-commit")
    job.wait_for((tmp_path / "marker").exists, "the commit")
    server.kill()
    job.kill()
    server.start()
    job = start()
    commits = tmp_path / "checkpoint" / "commits" / "1"
    job.wait_for(commits.exists, "the second batch")
    server.kill()
    server.start()
    job.finish()
    judge(server)
