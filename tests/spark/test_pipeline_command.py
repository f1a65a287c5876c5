"""`goqueue pipeline run` as users have it: a process of its own, ended by Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from goqueue.testing import Broker

PIPELINE = """\
name: {name}
broker: {{servers: "{servers}", http: "{http}"}}
sources:
  orders: {{topic: {topic}, format: json, schema: "id bigint, amount double"}}
steps:
  valid: {{sql: SELECT * FROM orders WHERE amount > 0}}
sinks:
  good: {{from: valid, topic: {topic}.good, key: id, create: 1}}
"""
PATIENCE_S = 300


@pytest.mark.slow
@pytest.mark.timeout(PATIENCE_S + 150)
def test_ctrl_c_ends_a_run_after_its_micro_batch_and_shows_what_it_did(
    goqueue_broker: Broker, tmp_path: Path
) -> None:
    topic = goqueue_broker.create_topic(goqueue_broker.unique_name("orders"), partitions=1)
    for number in range(20):
        goqueue_broker.publish(topic, json.dumps({"id": number, "amount": number - 4.5}))
    name = goqueue_broker.unique_name("pipeline")
    file = tmp_path / "orders.yaml"
    servers, http = goqueue_broker.kafka_address, goqueue_broker.http_url
    file.write_text(PIPELINE.format(name=name, servers=servers, http=http, topic=topic))
    command = ["pipeline", "run", str(file), "--master", "local[1]", "-o", "json"]
    output, said = tmp_path / "output", tmp_path / "said"
    with output.open("w") as stdout, said.open("w") as stderr:
        running = subprocess.Popen(
            [sys.executable, "-m", "goqueue.cli", *command],
            stdout=stdout,
            stderr=stderr,
            cwd=tmp_path,
            env=os.environ | {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
            start_new_session=True,
        )
    try:
        _wait_for_rows(f"{http}/pipelines/{name}", running, 20)
        running.send_signal(signal.SIGINT)
        code = running.wait(timeout=120)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    assert code == 130, said.read_text()
    report = json.loads(output.read_text())
    assert report["state"] == "stopped"
    assert {each["name"]: each["rows"] for each in report["queries"]} == {"good": 20}
    assert len(goqueue_broker.messages(f"{topic}.good")) == 15
    told = said.read_text()
    assert "stopping after the current micro-batch" in told
    # Spark's own words are not among them, whose processes end with the command.
    assert all(line.startswith((name, "stopping after")) for line in told.splitlines()), told
    assert not list(tmp_path.glob("goqueue-spark-*"))


def _wait_for_rows(url: str, running: subprocess.Popen[bytes], rows: int) -> None:
    """Until the run has told the broker that all its queries together have read so many."""
    deadline = time.monotonic() + PATIENCE_S
    report: Any = None
    while time.monotonic() < deadline and running.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                report = json.load(answer)
        except urllib.error.HTTPError as error:
            error.close()  # it has not said anything yet
        if report and sum(each["rows"] or 0 for each in report["queries"]) >= rows:
            return
        time.sleep(0.5)
    pytest.fail(f"it did not get there: {report}")
