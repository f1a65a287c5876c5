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

from goqueue.records import Record
from goqueue.spark.lake import lake_table, read_table
from support.committed import committed
from support.copied_topics import by_key, fill
from support.process_sessions import kill_session
from support.server import start_server
from support.topic_writer import TopicWriter

__all__ = ["start_server"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROWS = 3000
WAIT_S = 500.0


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


def killed_when(is_time, server, *arguments):
    """Run a job until something is so, and kill it in that moment."""
    process = start(server, *arguments)
    try:
        deadline = time.monotonic() + WAIT_S
        while not is_time():
            assert process.poll() is None, "the job ended too soon"
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        kill(process)


def killed_in_the_middle(server, ledger, *arguments):
    killed_when(
        lambda: ledger.exists() and json.loads(ledger.read_text())["next_number"] >= 2,
        server,
        *arguments,
    )
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


# --- Dead letters --------------------------------------------------------------------------------


@pytest.fixture
def letters(server):
    """Dead letters in three partitions, in an order that each key keeps."""
    rows = []
    with TopicWriter(server.kafka_address) as writer:
        writer.create("work", 3)
        writer.create("work.dlq", 3)
        for number in range(3):
            for at in range(0, ROWS // 3, 100):
                ours = range(number * ROWS + at, number * ROWS + at + 100)
                said = (("goqueue-dlq-topic", b"work"), ("goqueue-dlq-partition", b"%d" % number))
                writer.append(
                    "work.dlq",
                    number,
                    [Record(n - ours[0], n, b"k%d" % number, b"%d" % n, said) for n in ours],
                )
                rows += ours
    return rows


def test_a_redrive_that_is_killed_sends_each_letter_once(server, letters):
    command = ("dlq-redrive", "work", "--rate", 100, "--force", "-s", server.http_url)
    killed_when(lambda: committed(server, "work"), server, *command)
    # The broker finishes what it was asked for, while the next job asks for the rest.
    assert len(committed(server, "work")) < ROWS
    report = finished(server, *command[:2], *command[4:])
    found = committed(server, "work")
    assert Counter(int(each.value) for each in found) == Counter(letters)
    assert 0 < report["sent"] < ROWS
    assert report["refused"] == report["stayed"] == 0
    for number in range(3):
        ours = sorted((e for e in found if e.partition == number), key=lambda e: e.offset)
        assert [int(e.value) for e in ours] == [n for n in letters if n // ROWS == number]
        _, told = server.get(f"/topics/work/redriven/{number}?from_offset=0")
        assert sum(end - first for first, end in told["ranges"]) == ROWS // 3
