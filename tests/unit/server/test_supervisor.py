"""A supervisor with two real children, which stand in for etcd and the broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from goqueue.server.errors import STORE_AWAY
from support.supervised import RUN
from support.waiting import WAIT_S, eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Start = Callable[..., subprocess.Popen[str]]
    Told = Callable[[str], list[int]]

IGNORE = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + RUN


TESTS = Path(__file__).parents[2]
"""Where the stand-ins are found."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start(broker: str = RUN, etcd: str = RUN) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.supervised", str(tmp_path), broker, etcd],
            stderr=subprocess.PIPE,
            text=True,
            cwd=TESTS,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """The process ids of children that have told something, in order."""

    def told(what: str) -> list[int]:
        file = tmp_path / "told"
        lines = file.read_text().splitlines() if file.exists() else []
        return [int(line.split()[2]) for line in lines if line.startswith(what)]

    return told


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def both(told: Told) -> tuple[int, int]:
    (broker,) = eventually(lambda: told("broker started"), "the broker has started")
    (etcd,) = eventually(lambda: told("etcd started"), "etcd has started")
    return broker, etcd


def test_a_broker_that_is_killed_is_started_again_and_etcd_is_left_alone(
    start: Start, told: Told
) -> None:
    start()
    broker, etcd = both(told)
    os.kill(broker, signal.SIGKILL)
    eventually(lambda: len(told("broker started")) == 2, "another broker")
    assert told("etcd started") == [etcd]
    assert is_running(etcd)


def test_an_etcd_that_is_killed_is_started_again_and_the_broker_is_left_alone(
    start: Start, told: Told
) -> None:
    start()
    broker, etcd = both(told)
    os.kill(etcd, signal.SIGKILL)
    eventually(lambda: len(told("etcd started")) == 2, "another etcd")
    os.kill(told("etcd started")[1], signal.SIGKILL)
    eventually(lambda: len(told("etcd started")) == 3, "a third etcd")
    assert told("broker started") == [broker]


def test_children_die_with_a_supervisor_that_is_killed(start: Start, told: Told) -> None:
    supervisor = start()
    children = both(told)
    supervisor.kill()
    supervisor.wait()
    eventually(lambda: not any(map(is_running, children)), "both have died")
    assert told("broker stopped") == told("etcd stopped") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_broker_first_and_etcd_when_it_is_gone(
    start: Start, told: Told, tmp_path: Path, number: signal.Signals
) -> None:
    supervisor = start()
    both(told)
    supervisor.send_signal(number)
    assert supervisor.wait(WAIT_S) == 0
    lines = [line.rsplit(" ", 1)[0] for line in (tmp_path / "told").read_text().splitlines()]
    assert lines[2:] == ["broker stopped", "etcd stopped"]


def test_a_second_signal_ends_everything_at_once(start: Start, told: Told) -> None:
    supervisor = start(broker=f"{IGNORE}\n")
    children = both(told)
    supervisor.terminate()
    assert supervisor.stderr is not None
    for line in supervisor.stderr:
        if "broker: stopping" in line:
            break
    supervisor.terminate()
    assert supervisor.wait(WAIT_S) == 128 + signal.SIGTERM
    assert not any(map(is_running, children))


def test_a_broker_that_cannot_start_as_it_was_told_stops_the_node(start: Start, told: Told) -> None:
    supervisor = start(broker="print('why', file=sys.stderr); sys.exit(2)")
    assert supervisor.wait(WAIT_S) == 2
    assert len(told("broker started")) == 1
    assert len(told("etcd stopped")) <= 1


def test_a_broker_whose_metadata_store_did_not_answer_is_started_again(
    start: Start, told: Told
) -> None:
    start(broker=f"sys.exit({STORE_AWAY})")
    eventually(lambda: len(told("broker started")) >= 3, "a third broker")
    assert len(told("etcd started")) == 1


def test_an_etcd_with_the_same_error_twice_stops_the_node_and_says_it(
    start: Start, told: Told
) -> None:
    supervisor = start(etcd="print('really', file=sys.stderr); sys.exit(1)")
    _, said = supervisor.communicate(timeout=WAIT_S)
    assert supervisor.returncode == 2
    assert said.splitlines()[-1] == "goqueue: the disk is full: really"
    assert len(told("etcd started")) == 2
    assert len(told("broker stopped")) == 1
