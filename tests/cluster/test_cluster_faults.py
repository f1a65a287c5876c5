"""Three nodes, clients at work, faults: nothing is lost, doubled, reordered, early or forgotten."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.etcd import need_etcd
from support.faults import OF_COORDINATORS, ORDINARY, STORE_ANSWERED
from support.history import Fault, read
from support.stuck import kill_descendants

TESTS = Path(__file__).parents[1]


def judged(folder, seed, workloads, faults, *more):
    """Run `cluster.chaos`, which judges what its clients saw: its exit code, and what it told."""
    need_etcd()
    # A process of its own: foreign clients leave threads and sockets behind.
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "cluster.chaos", "--seed", str(seed)),
            *("--workloads", workloads, "--folder", str(folder)),
            *("--faults", ",".join(each.__name__ for each in faults)),
            *more,
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
    return process.returncode, told


def suffer(folder, seed, workloads, faults):
    """Nothing may be wrong."""
    code, told = judged(folder, seed, workloads, faults)
    assert code == 0, told


@pytest.mark.timeout(900)
def test_clients_go_on_through_ordinary_faults_and_nothing_is_wrong_at_the_end(tmp_path):
    suffer(tmp_path, 1, "logs", ORDINARY)
    told = [each.what for each in read(tmp_path / "1" / "history.jsonl") if isinstance(each, Fault)]
    assert f"another took over: True; {STORE_ANSWERED} Conflict" in told


@pytest.mark.timeout(900)
def test_coordinators_are_killed_paused_and_cut_off_and_keep_every_promise(tmp_path):
    suffer(tmp_path, 1, "queues,delays,schemas", OF_COORDINATORS)


@pytest.mark.slow
@pytest.mark.timeout(1700)
@pytest.mark.parametrize("workload", ["transactions", "queues", "delays", "schemas"])
def test_each_capability_keeps_its_promises_through_every_ordinary_fault(tmp_path, workload):
    suffer(tmp_path, 2, workload, (*ORDINARY, *OF_COORDINATORS))
