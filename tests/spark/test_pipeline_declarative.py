"""Source and sink in Spark's own declarative pipelines: the example, as a reader would run it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from goqueue.testing import Broker
from support.committed import committed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative"
RUN = Path(sys.executable).with_name("spark-pipelines")


def run(folder, broker):
    """`spark-pipelines run`, as the README says."""
    environment = dict(os.environ)
    environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    environment["GOQUEUE_SERVERS"] = broker.kafka_address
    environment["SPARK_CONF_DIR"] = "conf"
    done = subprocess.run(
        [str(RUN), "run"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def wanted(values):
    """What must be in the topic of large orders."""
    orders = [json.loads(each) for each in values]
    return Counter(each["id"] for each in orders if each["amount"] >= 100)


def found(broker):
    letters = committed(broker, "large-orders")
    assert all(each.key.decode() == json.loads(each.value)["customer"] for each in letters)
    return Counter(json.loads(each.value)["id"] for each in letters)


def test_the_example_reads_what_is_new_and_writes_it_once(tmp_path):
    folder = tmp_path / "declarative"
    shutil.copytree(EXAMPLE, folder)
    spec = folder / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/goqueue-declarative", str(tmp_path / "storage")))
    with (folder / "conf" / "spark-defaults.conf").open("a") as defaults:
        defaults.write(f"spark.driver.memory 768m\nspark.local.dir {tmp_path / 'local'}\n")
        defaults.write("spark.sql.shuffle.partitions 2\n")
    values = (EXAMPLE / "orders.jsonl").read_text().splitlines()
    with Broker() as broker:
        broker.create_topic("orders", partitions=2)
        broker.create_topic("large-orders", partitions=1)
        for value in values[:20]:
            broker.publish("orders", value)
        run(folder, broker)
        assert found(broker) == wanted(values[:20])
        for value in values[20:]:
            broker.publish("orders", value)
        run(folder, broker)
        assert found(broker) == wanted(values)
    assert wanted(values[20:])
