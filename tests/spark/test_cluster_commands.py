"""`goqueue pipeline run`, a job and an archive of the package on a cluster with two workers."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from collections import Counter
from pathlib import Path

import pyspark
import pytest

import goqueue as package
from support.committed import committed
from support.server import start_server
from support.spark_elsewhere import (
    HOME,
    ON_A_CLUSTER,
    WAIT_S,
    as_flags,
    cluster,
    environment,
)
from support.topic_writer import TopicWriter

__all__ = ["cluster", "start_server"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

deltalake = pytest.importorskip("deltalake")

ROWS = 6000
PIPELINE = """\
name: numbers
broker: "{servers}"
sources:
  numbers:
    topic: numbers
    columns: [partition, offset]
    options: {{maxOffsetsPerTrigger: 4000, minPartitions: 2}}
steps:
  read: {{sql: "SELECT CAST(CAST(value AS STRING) AS BIGINT) AS n, partition, offset FROM numbers"}}
  even:
    from: read
    rules: [{{name: even, expect: n % 2 = 0, otherwise: dead-letter}}]
  doubled: {{from: even, python: "steps.py:doubled"}}
sinks:
  good: {{from: doubled, topic: even, key: n, create: 3}}
  table: {{from: doubled, delta: ./table}}
"""
STEPS = """\
from pyspark.sql import functions as F

@F.udf("bigint")
def twice(n):
    return times * n

times = 2

def doubled(even):
    return even.select("*", twice("n").alias("twice"))
"""


def goqueue(folder, *arguments):
    """What a command prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "goqueue.cli", *arguments, "-o", "json"],
        cwd=folder,
        env=environment(HOME=str(folder)),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_a_pipeline_and_a_job_run_on_a_cluster(cluster, start_server, tmp_path):
    server = start_server()
    with TopicWriter(server.kafka_address) as writer:
        writer.create("numbers", 3)
        for first in range(0, ROWS, 500):
            writer.numbers("numbers", first // 500 % 3, first, 500)
    (tmp_path / "numbers.yaml").write_text(PIPELINE.format(servers=server.kafka_address))
    (tmp_path / "steps.py").write_text(STEPS)
    flags = ["--master", cluster.address, *as_flags(ON_A_CLUSTER)]
    run = goqueue(tmp_path, "pipeline", "run", "numbers.yaml", "--available-now", *flags)
    assert (run["state"], run["master"]) == ("finished", cluster.address)
    assert {each["name"]: each["rows"] for each in run["queries"]} == dict.fromkeys(
        ("good", "table", "even-dead-letters"), ROWS
    )
    source = {int(each.value): each for each in committed(server.kafka_address, "numbers")}
    good = [json.loads(each.value) for each in committed(server.kafka_address, "even")]
    wanted = Counter((n, 2 * n, source[n].offset) for n in range(0, ROWS, 2))
    assert Counter((each["n"], each["twice"], each["offset"]) for each in good) == wanted
    table = deltalake.DeltaTable(str(tmp_path / "table")).to_pyarrow_table()
    columns = (table[name].to_pylist() for name in ("n", "twice", "offset"))
    assert Counter(zip(*columns, strict=True)) == wanted
    letters = committed(server.kafka_address, "numbers.dlq")
    assert len(letters) == ROWS // 2

    to = ["archive", "numbers", str(tmp_path / "archive"), "--format", "delta"]
    servers = ["-b", server.kafka_address]
    archived = goqueue(tmp_path, "pipeline", "job", *to, *servers, *flags)
    assert archived["lag"] == 0
    table = deltalake.DeltaTable(str(tmp_path / "archive")).to_pyarrow_table()
    assert Counter(map(int, table["value"].to_pylist())) == Counter(range(ROWS))


REGISTERED = """\
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
from goqueue.spark import GoQueueDataSource

assert ".zip" in sys.modules["goqueue"].__file__
spark.dataSource.register(GoQueueDataSource)
frame = (
    spark.read.format("goqueue")
    .option("bootstrap.servers", sys.argv[1])
    .option("subscribe", "numbers")
    .option("minPartitions", 2)
    .load()
)
print("ROWS", frame.selectExpr("sum(CAST(CAST(value AS STRING) AS BIGINT))").first()[0])
"""


def bare_python(folder):
    """A Python that has everything but this package."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(f"{Path(pyspark.__file__).parents[1]}\n")
    return str(folder / "bin" / "python")


def archive_of_the_package(file):
    root = Path(package.__file__).parent
    with zipfile.ZipFile(file, "w") as archive:
        for path in root.rglob("*"):
            if path.is_file() and path.suffix not in {".so", ".pyc"}:
                archive.write(path, path.relative_to(root.parent))
    return str(file)


def test_an_archive_with_the_package_needs_one_line(cluster, start_server, tmp_path):
    python = bare_python(tmp_path / "bare")
    known = subprocess.run([python, "-c", "import goqueue"], capture_output=True, check=False)
    if known.returncode == 0:
        pytest.skip("the package is installed beside Spark, where every Python finds it")
    server = start_server()
    with TopicWriter(server.kafka_address) as writer:
        writer.create("numbers", 2)
        for partition in range(2):
            writer.numbers("numbers", partition, 5000 * partition, 5000)
    (tmp_path / "job.py").write_text(REGISTERED)
    files = archive_of_the_package(tmp_path / "goqueue.zip")
    submit = [str(HOME / "bin" / "spark-submit"), "--master", cluster.address]
    submit += [*as_flags(ON_A_CLUSTER), "--py-files", files, "job.py"]
    done = subprocess.run(
        [*submit, server.kafka_address],
        cwd=tmp_path,
        env=environment(PYSPARK_PYTHON=python, PYSPARK_DRIVER_PYTHON=python),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert f"ROWS {sum(range(10_000))}\n" in done.stdout, done.stderr[-3000:]
