"""Drivers, tasks and the broker are killed under a writing Spark: every row is there once."""

from __future__ import annotations

from collections import Counter

import pytest

from support import sink_job
from support.committed import committed
from support.server import start_server
from support.spark_driver import CONFIGURATION, Driver
from support.topic_writer import TopicWriter

__all__ = ["start_server"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROWS = 12_000
PER_BATCH = 4000
PARTITIONS = 3


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
        jobs.append(Driver(sink_job, said))
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
