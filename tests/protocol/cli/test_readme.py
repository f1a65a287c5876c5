"""The README's quick start does what it says, on other ports."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from goqueue.testing import Broker

README = Path(__file__).parents[3] / "README.md"


def blocks(language: str) -> list[str]:
    section = README.read_text().partition("## Five minutes")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


def interrupted(worker: str, environment: dict[str, str]) -> tuple[int, str]:
    """How the README's worker ends when Ctrl-C is pressed while it waits for more."""
    waiting = worker.replace('b"wake up"', 'b"nothing like it"')
    with subprocess.Popen(
        [sys.executable, "-uc", waiting],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "b'wake up' 1\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=200)
        return process.returncode, errors


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_what_curl_publishes_a_kafka_client_consumes_and_top_shows(
    goqueue_broker: Broker, tmp_path: Path
) -> None:
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "GOQUEUE_SERVER": goqueue_broker.http_url,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=200
        )
        return done.stdout

    install, publish, queues, look, demo = blocks("sh")
    consume, work = blocks("python")
    assert "goqueue server" in install
    assert "goqueue pipeline demo" in demo
    published = run("sh", "-ec", publish.replace("http://localhost:8080", goqueue_broker.http_url))
    assert '"offset":0' in published
    kafka = consume.replace("127.0.0.1:9092", goqueue_broker.kafka_address)
    kafka = kafka.replace("poll(10)", "poll(90)")
    assert run(sys.executable, "-c", kafka) == "b'hello'\n"
    worker = work.replace("AsyncClient()", f"AsyncClient({goqueue_broker.kafka_address!r})")
    worker = worker.replace("delay=5", "delay=3")  # it stops at the delayed one
    assert run(sys.executable, "-c", worker) == "b'hello' 1\nb'wake up' 1\n"
    listed, dead = (line.partition("#")[0].split() for line in queues.splitlines())
    assert "workers" in run(*listed)
    run(*dead)
    top, follow = (line.partition("#")[0].split() for line in look.splitlines())
    assert "greetings" in run(*top, "--once", "--interval", "10ms")
    assert "key=world  hello" in run(*follow, "-n", "2")
    assert interrupted(worker, environment) == (0, "")
    goqueue_broker.delete_topic("greetings")
