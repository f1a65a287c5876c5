"""Three nodes, clients at work, six faults: nothing is lost, doubled, reordered or forgotten."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.etcd import need_etcd
from support.faults import ORDINARY
from support.stuck import kill_descendants

TESTS = Path(__file__).parents[1]


@pytest.mark.timeout(500)
def test_clients_go_on_through_six_faults_and_nothing_is_wrong_at_the_end(tmp_path):
    need_etcd()
    faults = ",".join(each.__name__ for each in ORDINARY)
    # A process of its own: foreign clients leave threads and sockets behind.
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "cluster.chaos", "--seed", "1"),
            *("--faults", faults, "--folder", str(tmp_path)),
        ],
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
