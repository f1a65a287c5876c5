"""The sink on a standalone cluster, where Spark runs two attempts of a task at the same time."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyspark
import pytest

from support import speculating_job
from support.committed import committed
from support.server import start_server
from support.topic_writer import TopicWriter

__all__ = ["start_server"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

HOME = Path(pyspark.__file__).parent
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Spark does not run two attempts of a task on one host."""
WAIT_S = 120.0


def _environment(host):
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return os.environ | python | {"SPARK_LOCAL_IP": host, "SPARK_HOME": str(HOME)}


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.fixture
def master(tmp_path):
    """The address of a cluster of one master and two workers."""
    port = _free_port()
    address = f"spark://127.0.0.1:{port}"
    started = []

    def start(host, role, *arguments):
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{role}"]
        started.append(
            subprocess.Popen(
                [*command, "--host", host, "--webui-port", "0", *arguments],
                env=_environment(host),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )

    try:
        start("127.0.0.1", "master.Master", "--port", str(port))
        deadline = time.monotonic() + WAIT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        for host in HOSTS:
            size = ("--cores", "1", "--memory", "600m", "-d", str(tmp_path / host))
            start(host, "worker.Worker", *size, address)
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(30)


def test_of_two_attempts_at_the_same_time_one_counts(master, start_server, tmp_path):
    server = start_server()
    with TopicWriter(server.kafka_address) as writer:
        writer.create("target", 3)
    notes = tmp_path / "attempts"
    script = str(Path(speculating_job.__file__))
    job = subprocess.run(
        [sys.executable, script, master, server.kafka_address, "target", str(notes)],
        env=_environment("127.0.0.1"),
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert job.returncode == 0, job.stderr[-2000:]
    assert {"(0, 0)", "(0, 1)"} <= set(notes.read_text().split("\n"))
    found = Counter(int(each.value) for each in committed(server.kafka_address, "target"))
    assert found == Counter(range(1000))
