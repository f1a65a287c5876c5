from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

TOY = """
from benchmarks.harness import Run, benchmark


@benchmark("copy", "Copy some bytes")
def copy(run: Run) -> None:
    (run.scratch / "file").write_bytes(b"x" * 10)
    run.row("plain", 200.0, "B/s")
    run.row("ours", 150.0, "B/s", ratio=0.75, against="plain")
    run.note("a [note] in brackets")


@benchmark("toy.idle", "Do nothing")
def idle(run: Run) -> None:
    run.row("idle", 0, "s")
"""

AGAINST_KAFKA = """
import os
from benchmarks.harness import Run, Skipped, benchmark


@benchmark("jars", "Look for jars")
def jars(run: Run) -> None:
    folder = os.environ.get("GOQUEUE_BENCH_KAFKA")
    if folder is None:
        raise Skipped("there are no jars")
    run.note(folder)
"""

BROKEN = "raise KeyError('this group needs a library that is not here')\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A source tree of its own, with groups of benchmarks, one of which cannot be imported."""
    benchmarks = tmp_path / "benchmarks"
    benchmarks.mkdir()
    (tmp_path / "src" / "goqueue").mkdir(parents=True)
    for name in ("__init__.py", "_session.py", "harness.py", "kafka-pom.xml"):
        shutil.copy(ROOT / "benchmarks" / name, benchmarks / name)
    (benchmarks / "toy.py").write_text(TOY)
    (benchmarks / "against_kafka.py").write_text(AGAINST_KAFKA)
    (benchmarks / "broken.py").write_text(BROKEN)
    (benchmarks / "_helper.py").write_text(BROKEN)
    return tmp_path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of its own, and nothing of GoQueue in the environment."""
    for name in [name for name in os.environ if name.startswith("GOQUEUE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path
