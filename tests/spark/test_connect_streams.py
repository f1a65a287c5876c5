"""Reading, streaming, both sinks, a pipeline and a job through a Spark Connect server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from support import elsewhere_job
from support.committed import committed
from support.server import free_port, start_server
from support.spark_elsewhere import WAIT_S, connect_address, environment
from support.topic_writer import TopicWriter

__all__ = ["connect_address", "start_server"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

deltalake = pytest.importorskip("deltalake")

ROWS = 6000
PIPELINE = """\
name: numbers
broker: "{servers}"
spark: {{master: "{master}"}}
sources:
  numbers: {{topic: numbers, columns: [offset]}}
steps:
  read: {{sql: "SELECT CAST(CAST(value AS STRING) AS BIGINT) AS n, offset FROM numbers"}}
  even:
    from: read
    rules: [{{name: even, expect: n % 2 = 0, otherwise: dead-letter}}]
  halved: {{from: even, python: "steps.py:halved"}}
sinks:
  good: {{from: halved, topic: even, key: n, create: 3}}
  table: {{from: halved, delta: ./pipeline-table}}
"""
STEPS = """\
from pyspark.sql import functions as F

times = 2

def halved(even):
    half = F.udf(lambda n: n // times, "bigint")
    return even.select("*", half("n").alias("half"))
"""
UPDATES = """\
name: updates
broker: "{servers}"
sources: {{numbers: {{topic: numbers, columns: [timestamp]}}}}
steps:
  counts: {{from: numbers, window: {{on: timestamp, size: 1 hour, select: {{n: count(*)}}}}}}
sinks:
  counts: {{from: counts, topic: counts, create: 1, mode: update}}
"""


@pytest.fixture
def server(start_server):
    server = start_server()
    with TopicWriter(server.kafka_address) as writer:
        for topic in ("numbers", "copy"):
            writer.create(topic, 3)
        for first in range(0, ROWS, 500):
            writer.numbers("numbers", first // 500 % 3, first, 500)
    return server


def run(folder, *command):
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment(HOME=str(folder)),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )


def goqueue(folder, *arguments):
    """What a command prints as JSON."""
    done = run(folder, "-m", "goqueue.cli", *arguments, "-o", "json")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_a_topic_is_read_and_copied_to_a_topic_and_a_table_through_connect(
    connect_address, server, tmp_path
):
    said = {
        "remote": connect_address,
        "address": server.kafka_address,
        "source": "numbers",
        "target": "copy",
        "folder": str(tmp_path),
        "rows": ROWS // 2,
        "answer": str(tmp_path / "answer"),
        "is_slow": False,
        "group": "spark-copies",
    }
    done = run(tmp_path, str(Path(elsewhere_job.__file__)), json.dumps(said))
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads((tmp_path / "answer").read_text())
    print(answer)  # noqa: T201 - how long it took, for whoever looks
    assert answer["read"] == [ROWS, ROWS * (ROWS - 1) // 2]
    source = committed(server.kafka_address, "numbers")
    copies = committed(server.kafka_address, "copy")
    kept = Counter((each.partition, each.key, each.value) for each in source)
    assert Counter((each.partition, each.key, each.value) for each in copies) == kept
    table = deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_table()
    assert Counter(table["n"].to_pylist()) == Counter(range(ROWS))
    group = goqueue(tmp_path, "--server", server.http_url, "group", "describe", "spark-copies")
    ends = {str(number): ROWS // 3 for number in range(3)}
    assert (group["offsets"], group["total_lag"]) == ({"numbers": ends}, 0)


def test_a_pipeline_runs_through_a_connect_server(connect_address, server, tmp_path):
    text = PIPELINE.format(servers=server.kafka_address, master=connect_address)
    (tmp_path / "numbers.yaml").write_text(text)
    (tmp_path / "steps.py").write_text(STEPS)
    report = goqueue(tmp_path, "pipeline", "run", "numbers.yaml", "--available-now")
    assert (report["state"], report["master"]) == ("finished", connect_address)
    assert {each["name"]: each["rows"] for each in report["queries"]} == dict.fromkeys(
        ("good", "table", "even-dead-letters"), ROWS
    )
    wanted = Counter((n, n // 2) for n in range(0, ROWS, 2))
    good = [json.loads(each.value) for each in committed(server.kafka_address, "even")]
    assert Counter((each["n"], each["half"]) for each in good) == wanted
    table = deltalake.DeltaTable(str(tmp_path / "pipeline-table")).to_pyarrow_table()
    columns = (table[name].to_pylist() for name in ("n", "half"))
    assert Counter(zip(*columns, strict=True)) == wanted
    letters = committed(server.kafka_address, "numbers.dlq")
    assert Counter(json.loads(each.value)["n"] for each in letters) == Counter(range(1, ROWS, 2))


def test_jobs_run_through_connect(connect_address, server, tmp_path):
    to = ["archive", "numbers", str(tmp_path / "archive"), "--format", "delta"]
    where = ["-b", server.kafka_address, "--master", connect_address]
    archived = goqueue(tmp_path, "pipeline", "job", *to, *where)
    assert archived["lag"] == 0
    table = deltalake.DeltaTable(str(tmp_path / "archive")).to_pyarrow_table()
    assert Counter(map(int, table["value"].to_pylist())) == Counter(range(ROWS))
    with TopicWriter(server.kafka_address) as writer:
        writer.create("copy.dlq", 2)
        for number in range(2):
            writer.numbers("copy.dlq", number, number * 50, 50)
    redrive = ["dlq-redrive", "copy", "--force", "-s", server.http_url]
    assert goqueue(tmp_path, "pipeline", "job", *redrive, *where)["sent"] == 100
    found = committed(server, "copy")
    assert sorted(int(each.value) for each in found) == [*range(100)]


def test_what_does_not_work_through_connect_says_so(connect_address, server, tmp_path):
    (tmp_path / "updates.yaml").write_text(UPDATES.format(servers=server.kafka_address))
    command = ("-m", "goqueue.cli", "pipeline", "run", "updates.yaml", "--available-now")
    done = run(tmp_path, *command, "--master", connect_address)
    assert done.returncode == 1
    assert "mode update to a topic does not work over Spark Connect" in done.stderr
    nobody = f"sc://127.0.0.1:{free_port()}"
    done = run(tmp_path, *command, "--master", nobody)
    assert done.returncode == 1
    assert f"no Spark Connect server answers at {nobody}" in done.stderr
