"""`kill -9` on a process that appends: everything it acknowledged is there, under its offset."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

from goqueue.storage.log import Log
from support.appender import config, numbered
from support.oracle import readable

TESTS = Path(__file__).parents[1]
KILLS = 20


STAMPED = 17
"""The bytes of a batch that the log fills in; everything behind them is as it was sent."""


class Acknowledged(NamedTuple):
    first: int
    end: int
    number: int


def run_and_kill(folder: Path, first: int, count: int, after_s: float) -> list[Acknowledged]:
    """Let a process append until some time after so many acknowledgements, then kill it."""
    with subprocess.Popen(
        [sys.executable, "-m", "support.appender", str(folder), str(first)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    ) as child:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(count)]
        killer = threading.Timer(after_s, child.send_signal, [signal.SIGKILL])
        killer.start()
        lines += child.stdout.readlines()
        killer.join()
    assert child.returncode == -signal.SIGKILL
    whole = [line for line in lines if line.endswith(b"\n")]
    return [Acknowledged(*map(int, line.split())) for line in whole]


def test_twenty_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    rng = random.Random(20)
    acknowledged: dict[int, tuple[int, bytes]] = {}
    next_number = 0
    for kill in range(KILLS):
        told = run_and_kill(tmp_path, next_number, 1 + kill % 3 * 80, rng.uniform(0.0, 0.15))
        assert told, "the process was killed before it did anything"
        for one in told:
            assert one.first not in acknowledged, f"offset {one.first} was given out twice"
            acknowledged[one.first] = one.end, bytes(numbered(one.number)[STAMPED:])
        next_number = max(one.number for one in told) + 1000
        log = Log(tmp_path, config())
        stored = {item.first: (item.end, item.data[STAMPED:]) for item in readable(log)}
        missing = [first for first, item in acknowledged.items() if stored.get(first) != item]
        assert not missing
        assert sum(end - first for first, (end, _) in stored.items()) == log.end_offset
        assert not log.recovery.damage, "a killed process leaves no holes"
        log.check_invariants()
        if kill % 3 == 0:
            log.close()
    assert len(acknowledged) > KILLS * 64
