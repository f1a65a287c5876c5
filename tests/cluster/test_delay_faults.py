"""Delayed messages through every API while nodes die: once, not early, cancels kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.etcd import need_etcd
from support.stuck import kill_descendants

TESTS = Path(__file__).parents[1]


@pytest.mark.timeout(400)
def test_delayed_messages_come_once_and_not_early_through_the_deaths_of_nodes(tmp_path):
    need_etcd()
    process = subprocess.Popen(
        [*(sys.executable, "-m", "cluster.delay_faults"), *("--folder", str(tmp_path))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
        cwd=TESTS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        told, _ = process.communicate()
    finally:
        kill_descendants(process.pid)
        process.kill()
    assert process.returncode == 0, told
