"""What `make test-again` says of tests that failed among others and pass alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.flaky import SUMMARY

TESTS = Path(__file__).parents[2]
SCENARIO = """
import os, pytest

def test_good(): pass
def test_bad(): assert False
@pytest.mark.parametrize("way", ["a", "b"])
def test_hurried(way): assert "ALONE" in os.environ
"""


def play(folder: Path, *options: str, **more: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "support.flaky", *options]
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment | more, capture_output=True, text=True, check=False
    )
    return done.stdout


def test_a_test_that_passes_alone_is_named_and_counted(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_scenario.py").write_text(SCENARIO)
    summary = tmp_path / "summary.md"
    assert "flaky" not in play(tmp_path)
    said = play(tmp_path, "--last-failed", ALONE="1", **{SUMMARY: str(summary)})
    assert "2 flaky: failed among all tests, passed alone" in said
    named = [line.split()[1] for line in said.splitlines() if line.startswith("FLAKY")]
    wanted = [f"test_scenario.py::test_hurried[{way}]" for way in "ab"]
    assert named == wanted
    assert summary.read_text().splitlines()[2:] == [f"- `{name}`" for name in wanted]
    assert "0 flaky" in play(tmp_path, "--last-failed")
