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
from support.node_hooks.mistakes import MISTAKES
from support.stuck import kill_descendants

TESTS = Path(__file__).parents[1]


def judged(folder, *asked):
    """Run `cluster.chaos`, which judges what its clients saw: its exit code, and what it told."""
    need_etcd()
    # A process of its own: foreign clients leave threads and sockets behind.
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "cluster.chaos", "--folder", str(folder)),
            *asked,
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
    names = ",".join(each.__name__ for each in faults)
    asked = ("--seed", str(seed), "--workloads", workloads, "--faults", names)
    code, told = judged(folder, *asked)
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


@pytest.mark.slow
@pytest.mark.timeout(480)
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.name)
def test_a_mistake_that_brokers_make_is_found_by_its_run(tmp_path, mistake):
    code, told = judged(tmp_path, "--mistake", mistake.name)
    found = {line.partition(":")[0] for line in told.splitlines()}
    assert code == 1, told
    assert found & mistake.kinds, told
