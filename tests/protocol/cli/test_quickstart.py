"""`goqueue quickstart`, as a new user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow  # twenty commands, each in a process of its own
def test_the_tour_shows_what_it_says_and_leaves_nothing(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name[:8] != "GOQUEUE_"}
    environment |= {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "GOQUEUE_AUTH_ENABLED": "true"}
    done = subprocess.run(
        [sys.executable, "-m", "goqueue.cli", "quickstart", "--fast"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    out = done.stdout
    assert "\n$ goqueue topic create orders --partitions 3\nname      orders\n" in out
    assert 'bob: {"id": 2, "total": 75}\n' in out.partition("--filter")[2]
    worker = out.partition("$ python worker.py")[2]
    assert "order 3, delivery 1: failed, no total\n" in worker
    assert "order 3, delivery 2: failed, no total\n" in worker
    assert "MAX_RETRIES_EXCEEDED  no total  billing" in worker
    fixed = worker.partition("--fixed")[2]
    assert "order 3, delivery 1: acknowledged\n" in fixed
    listed, _, urgent = fixed.partition("$ goqueue delayed list")[2].partition("$ python worker.py")
    assert "pending" in listed
    assert urgent.index("order 6, delivery 1") < urgent.index("order 5, delivery 1")
    assert "order 4, delivery 1: acknowledged\n" in urgent
    replayed = urgent.partition("$ goqueue consume orders --group readers")[2]
    assert [f'"id": {number}' in replayed for number in range(1, 7)] == [True] * 6
    assert out.count("/console") >= 2
    assert not list(tmp_path.glob("goqueue-quickstart-*"))
