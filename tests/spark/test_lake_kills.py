"""Drivers and tasks are killed under a stream into a table: every row is there once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from goqueue.spark.lake import describe_table, lake_table
from support import lake_job
from support.lake import ids_by_others, leftovers, visible_files
from support.process_sessions import kill_session

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CONFIGURATION = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
}
PER_BATCH = 1000
BATCHES = 3
WAIT_S = 240.0


class Job:
    """A driver in a session of its own, so that all of its processes can be found and killed."""

    def __init__(self, said, folder):
        environment = dict(os.environ)
        environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
        self.process = subprocess.Popen(
            [sys.executable, str(Path(lake_job.__file__)), json.dumps(said)],
            env=environment,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def kill(self):
        """`kill -9` for the driver, its JVM and its workers."""
        kill_session(self.process.pid)
        self.process.wait(30)

    def wait_for(self, marker):
        deadline = time.monotonic() + WAIT_S
        while not marker.exists():
            assert self.process.poll() is None, "the job ended before its mishap"
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def start(tmp_path):
    """`start(table, fault)`: a job that writes three batches to a table."""
    feed = tmp_path / "feed"
    feed.mkdir()
    for batch in range(BATCHES):
        numbers = range(batch * PER_BATCH, (batch + 1) * PER_BATCH)
        lines = [json.dumps({"id": each, "part": each % 3}) for each in numbers]
        (feed / f"{batch}.json").write_text("\n".join(lines))
    jobs = []

    def start_job(table, fault="none"):
        said = {
            "feed": str(feed),
            "options": table.options(),
            "checkpoint": str(tmp_path / "checkpoint"),
            "marker": str(tmp_path / "marker"),
            "fault": fault,
            "configuration": CONFIGURATION | {"spark.local.dir": str(tmp_path / "local")},
        }
        jobs.append(Job(said, tmp_path))
        return jobs[-1]

    yield start_job
    for job in jobs:
        job.kill()


def judge(table, batches=BATCHES):
    """The oracle: every row is there once, as a reader that nobody here wrote counts them."""
    assert ids_by_others(table) == Counter(range(batches * PER_BATCH))


@pytest.mark.parametrize(
    ("table_format", "fault"),
    [
        ("parquet", "before-commit"),
        ("parquet", "half-way"),
        ("delta", "before-commit"),
        ("iceberg", "before-commit"),
        ("iceberg", "after-commit"),
    ],
)
def test_a_driver_that_is_killed_around_its_commit_doubles_and_loses_nothing(
    start, tmp_path, table_format, fault
):
    table = lake_table(table_format, tmp_path / "lake" / "orders")
    job = start(table, fault)
    job.wait_for(tmp_path / "marker")
    job.kill()
    if fault == "half-way":
        assert (table.own_folder / "intent.json").exists()
        judge(table, 2)  # all files are in their places already; nobody has noted it
    else:
        judge(table, 1 if fault == "before-commit" else 2)
    assert bool(leftovers(table)) is (fault == "before-commit")
    assert start(table).process.wait(WAIT_S) == 0
    judge(table)
    assert not leftovers(table)
    assert len(visible_files(table.path)) == describe_table(table).file_count


def test_a_task_that_is_killed_after_its_last_row_is_run_again(start, tmp_path):
    table = lake_table("delta", tmp_path / "lake" / "orders")
    assert start(table, "task").process.wait(WAIT_S) == 0
    assert (tmp_path / "marker").exists()
    judge(table)
    assert not leftovers(table)
    assert len(visible_files(table.path)) == describe_table(table).file_count
