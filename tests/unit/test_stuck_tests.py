"""A test that hangs ends, is named, and leaves the rest of the run and no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.waiting import eventually

TESTS = Path(__file__).parents[1]

CONFTEST = """
import support.stuck
support.stuck.GRACE_S = 1.0
from support.scheduling import pytest_xdist_make_scheduler
from support.stuck import pytest_configure
"""
HANGS = {
    "hypothesis": """
import time
from hypothesis import given, strategies as st
@given(st.integers())
def test_hangs(n):
    while True:
        time.sleep(0.05)
""",
    "event_loop": """
import asyncio
def spin(loop):
    end = loop.time() + 0.05
    while loop.time() < end:
        pass
    loop.call_soon(spin, loop)
def test_hangs():
    async def main():
        loop = asyncio.get_running_loop()
        loop.call_soon(spin, loop)
        await loop.create_future()
    asyncio.run(main())
""",
    "teardown": """
import pytest, threading
@pytest.fixture
def door():
    yield
    threading.Event().wait()
def test_hangs(door):
    assert False
""",
    "child": """
import subprocess
def test_hangs():
    child = subprocess.Popen(["sh", "-c", "sleep 987 & sleep 987; true"])
    print(child.pid)
    while True:
        try:
            child.wait()
        except BaseException:
            pass
""",
}


def command(folder, *arguments):
    """How pytest is run there."""
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return {
        "args": [sys.executable, "-m", "pytest", "-p", "no:goqueue", *arguments],
        "cwd": folder,
        "env": {**os.environ, "PYTHONPATH": paths, "PYTEST_ADDOPTS": ""},
        "text": True,
    }


def run(folder, *arguments):
    asked = command(folder, "--timeout", "1", *arguments)
    return subprocess.run(**asked, capture_output=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def hung(tmp_path_factory):
    """A run of all of them at once, beside tests that pass."""
    folder = tmp_path_factory.mktemp("stuck")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in HANGS.items():
        after = "\ndef test_comes_after():\n    pass\n"
        (folder / f"test_{name}.py").write_text(text + after)
    return folder, run(folder, "--numprocesses", "2", "--dist", "loadfile")


@pytest.mark.parametrize("name", HANGS)
def test_a_test_that_hangs_is_ended_and_named(hung, name):
    _, ran = hung
    assert f"STUCK test_{name}.py::test_hangs" in ran.stderr, ran.stdout + ran.stderr
    assert f"while running 'test_{name}.py::test_hangs'" in ran.stdout


def test_the_tests_after_one_that_hangs_are_run(hung):
    _, ran = hung
    assert f"{len(HANGS)} passed" in ran.stdout, ran.stdout


def test_where_it_hung_is_told(hung):
    _, ran = hung
    assert 'test_child.py", line' in ran.stderr


def test_processes_of_a_test_that_hangs_are_killed(hung):
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 987" not in listed.stdout


def test_a_test_that_hangs_is_among_those_to_run_again(hung):
    folder, _ = hung
    listed = run(folder, "--last-failed", "--collect-only", "-q")
    for name in HANGS:
        assert f"test_{name}.py::test_hangs" in listed.stdout, listed.stdout
    assert "test_comes_after" not in listed.stdout


def test_a_run_says_where_it_is_when_asked(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    started = tmp_path / "started"
    test = "import pathlib, time\ndef test_waits():\n"
    test += f"    pathlib.Path({str(started)!r}).touch()\n    time.sleep(60)\n"
    (tmp_path / "test_long.py").write_text(test)
    asked = command(tmp_path, "--timeout", "60", "--numprocesses", "1", "--dist", "loadfile")
    told = tmp_path / "stderr"
    with told.open("w") as stderr:
        ran = subprocess.Popen(
            **asked, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True
        )
        try:
            eventually(started.exists)
            os.killpg(ran.pid, signal.SIGUSR1)
            eventually(lambda: "STILL RUNNING test_long.py::test_waits" in told.read_text())
            eventually(lambda: "in test_waits" in told.read_text())
        finally:
            os.killpg(ran.pid, signal.SIGKILL)
            ran.wait()
