"""Jobs from the command line, killed in the middle and run again: every message is there once.

pytest -m slow tests/spark/test_jobs_kills.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from test_jobs_copying import by_key, fill

from goqueue.spark.lake import lake_table, read_table
from support.committed import committed
from support.process_sessions import kill_session
from support.server import start_server
from support.topic_writer import TopicWriter

__all__ = ["start_server"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROWS = 3000
WAIT_S = 240.0


@pytest.fixture
def server(start_server):
    made = start_server()
    with TopicWriter(made.kafka_address) as writer:
        fill(writer, "orders", rows=ROWS)
    return made


def start(server, *arguments):
    """A job in a session of its own, so that all of its processes can be found and killed."""
    return subprocess.Popen(
        [
            sys.executable, "-m", "goqueue.cli", "pipeline", "job", *map(str, arguments),
            "-b", server.kafka_address, "--master", "local[2]", "-o", "json",
            "--conf", "spark.driver.memory=512m", "--conf", "spark.sql.shuffle.partitions=2",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip


def kill(process):
    """`kill -9` for the driver, its JVM and its workers."""
    kill_session(process.pid)
    process.wait(30)
    process.stdout.close()


def killed_in_the_middle(server, ledger, *arguments):
    process = start(server, *arguments)
    try:
        deadline = time.monotonic() + WAIT_S
        while not (ledger.exists() and json.loads(ledger.read_text())["next_number"] >= 2):
            assert process.poll() is None, "the job ended too soon"
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        kill(process)
    found = json.loads(ledger.read_text())
    assert found["rows"] < ROWS
    return found["rows"]


def finished(server, *arguments):
    out, _ = start(server, *arguments).communicate(timeout=WAIT_S)
    return json.loads(out)


def test_an_archive_that_is_killed_goes_on_and_holds_each_message_once(spark, server, tmp_path):
    table = tmp_path / "lake"
    command = ("archive", "orders", table, "--piece-rows", 300, "--no-merge")
    before = killed_in_the_middle(server, Path(f"{table}.checkpoint/orders/ledger.json"), *command)
    report = finished(server, *command)
    assert report["rows"] == ROWS - before
    found = read_table(spark, lake_table("parquet", table)).select("partition", "offset").collect()
    assert Counter((row[0], row[1]) for row in found) == Counter(
        (each.partition, each.offset) for each in committed(server, "orders")
    )


def test_a_replay_that_is_killed_goes_on_in_order_with_each_message_once(server, tmp_path):
    command = (
        "replay", "orders", "again", "--piece-rows", 300, "--rate", 900, "--partitions", 5,
        "--checkpoint", tmp_path / "checkpoint",
    )  # fmt: skip
    before = killed_in_the_middle(server, tmp_path / "checkpoint" / "ledger.json", *command)
    report = finished(server, *command)
    assert report["rows"] == ROWS - before
    assert by_key(committed(server, "again")) == by_key(committed(server, "orders"))
