"""The examples of the pages on workers run: their tasks in a worker, their programs beside it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.waiting import eventually
from support.workers import address_of

if TYPE_CHECKING:
    from goqueue.testing import Broker

DOCS = Path(__file__).parents[3] / "docs"


def blocks(page: str, language: str = "python") -> list[str]:
    text = (DOCS / page).read_text(encoding="utf-8")
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return found


def run(folder: Path, broker: Broker, *command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", *command],
        cwd=folder,
        env={**os.environ, "GOQUEUE_ADDRESS": address_of(broker)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), f"{command}\n{done.stderr}"


def test_the_guide_does_what_it_says(goqueue_broker: Broker, tmp_path: Path) -> None:
    modules: dict[str, str] = {}
    programs = []
    for block in blocks("how-to/workers.md"):
        first = block.partition("\n")[0].removeprefix("# ")
        if first.endswith(".py"):
            modules[first] = modules.get(first, "") + block
        else:
            assert first == "in your program"
            programs.append(block)
    assert set(modules) == {"tasks.py", "accounts.py"}
    for name, text in modules.items():
        (tmp_path / name).write_text(text)
    assert len(programs) == 3
    for program in programs:
        run(tmp_path, goqueue_broker, "-c", program)
    more = "from tasks import monthly_report as m\nm.send(2026, 13)\nm.send(2026, 12)"
    run(tmp_path, goqueue_broker, "-c", more)
    _, curl = blocks("how-to/workers.md", "sh")
    (value,) = re.findall(r'"value": "(.*?)", "headers"', curl)
    goqueue_broker.publish("images", value.replace("\\", ""), headers={"goqueue-task": "resize"})
    expected = {
        "tasks:app": [
            "1.png is now 200 wide",
            "2.png is now 300 wide",
            "notify[",
            "reports.monthly[",
            "there is no month 13",
        ],
        "accounts:app": ["account-7 100\naccount-7 -30\naccount-7 5\n"],
    }
    for target, lines in expected.items():
        look(tmp_path, goqueue_broker, target, lines)


def look(folder: Path, broker: Broker, target: str, expected: list[str]) -> None:
    """Run a worker until it has printed and logged all of this."""
    printed, logged = folder / "out.txt", folder / "err.txt"

    def has(text: str) -> bool:
        return text in printed.read_text() + logged.read_text()

    with (
        printed.open("w") as out,
        logged.open("w") as err,
        subprocess.Popen(
            [sys.executable, "-m", "goqueue.cli", "worker", target],
            cwd=folder,
            env={**os.environ, "GOQUEUE_ADDRESS": address_of(broker), "PYTHONUNBUFFERED": "1"},
            stdout=out,
            stderr=err,
        ) as worker,
    ):
        try:
            for text in expected:
                eventually(partial(has, text), text)
        finally:
            worker.send_signal(signal.SIGTERM)
    assert worker.returncode == 0
    assert "Traceback" not in logged.read_text()


def test_the_comparison_does_what_it_says(goqueue_broker: Broker, tmp_path: Path) -> None:
    by_system: dict[str, list[str]] = {}
    for block in blocks("how-to/coming-from-celery-sqs.md"):
        by_system.setdefault(block.partition("\n")[0], []).append(block)
        compile(block, "a block", "exec")
    assert set(by_system) == {"# Celery", "# SQS", "# GoQueue"}
    ours = by_system["# GoQueue"]
    programs = [block for block in ours if "from tasks import" in block]
    (tmp_path / "tasks.py").write_text("".join(each for each in ours if each not in programs))
    assert len(programs) == 2
    for program in programs:
        run(tmp_path, goqueue_broker, "-c", program)
    assert b'"account-7"' in goqueue_broker.messages("accounts")[-1].value


@pytest.mark.parametrize("page", ["how-to/workers.md", "how-to/coming-from-celery-sqs.md"])
def test_the_commands_of_the_pages_exist(page: str, goqueue_broker: Broker, tmp_path: Path) -> None:
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    ours = [line.partition("#")[0].split() for line in lines if line.startswith("goqueue ")]
    assert ours
    for words in ours:
        flags = [word for word in words if word.startswith("--")]
        path = [word for word in words[1:4] if word.isalpha()]
        path = path[:3] if path[0] == "queue" else path[:1]
        done = subprocess.run(
            [sys.executable, "-m", "goqueue.cli", *path, "--help"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
        )
        assert [flag for flag in flags if flag not in done.stdout] == []
