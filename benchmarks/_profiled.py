"""`goqueue server` that notes what it is doing, and tells at its end.

    python -m benchmarks._profiled RESULT server --data-dir ...

A signal comes every few milliseconds of processor time, so what waits does not count, and what
runs is hardly slowed. Python takes the signal when the C function at work has returned: its time
is its caller's. What the event loop does before it calls us is told apart by the place, the very
first line of a callback. Profiling starts with SIGUSR1 and the counts are written at SIGUSR2.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import FrameType

    from benchmarks._brokers import BrokerProcess
    from benchmarks.harness import Run

EVENT_LOOP: Final = "event loop: poll, receive, timers"
_INTERVAL_S: Final = 0.001
_SHOWN: Final = 8
_GIVE_UP_S: Final = 10.0
_POLL_S: Final = 0.02
_CALLBACKS: Final = frozenset({"data_received", "_next_turn", "_finished", "run"})


class Profile:
    """Counts of where the process was found, by the function itself and by all that led there."""

    def __init__(self, result: Path) -> None:
        self._result = result
        self._itself: Counter[str] = Counter()
        self._within: Counter[str] = Counter()
        self._count = 0

    def start(self, *_signal: object) -> None:
        """Count from here on."""
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, _INTERVAL_S, _INTERVAL_S)

    def write(self, *_signal: object) -> None:
        """Stop, and write down what was found."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        found: dict[str, object] = {
            "count": self._count,
            "itself": self._itself,
            "within": self._within,
        }
        unfinished = self._result.with_suffix(".part")
        unfinished.write_text(json.dumps(found))
        unfinished.replace(self._result)
        self._itself.clear()
        self._within.clear()
        self._count = 0

    def _sample(self, _signal: int, frame: FrameType | None) -> None:
        self._count += 1
        if frame is None or _is_first_line(frame):
            self._itself[EVENT_LOOP] += 1
            return
        self._itself[_name(frame)] += 1
        names = set()
        while frame is not None:
            names.add(_name(frame))
            frame = frame.f_back
        self._within.update(names)


def _is_first_line(frame: FrameType) -> bool:
    code = frame.f_code
    is_callback = code.co_name in _CALLBACKS
    return is_callback and (frame.f_lineno == code.co_firstlineno or code.co_name == "run")


def _name(frame: FrameType) -> str:
    module = str(frame.f_globals.get("__name__", "?"))
    return f"{module.removeprefix('goqueue.')}.{frame.f_code.co_qualname}"


# --- The benchmark's side ----------------------------------------------------------------------


def start_profiling(server: BrokerProcess) -> None:
    """Count from here on."""
    os.kill(server.pid, signal.SIGUSR1)


def report_profile(run: Run, server: BrokerProcess, result: Path, label: str) -> None:
    """Stop counting; the functions that most of the time went into, as shares of all of it."""
    os.kill(server.pid, signal.SIGUSR2)
    give_up = time.monotonic() + _GIVE_UP_S
    while not result.exists() and time.monotonic() < give_up:
        time.sleep(_POLL_S)
    found = json.loads(result.read_text())
    result.unlink()
    for name, count in Counter(found["itself"]).most_common(_SHOWN):
        run.row(f"{label}: {name}", 100 * count / found["count"], "%")
    run.note(f"{label}: {found['count']} samples of processor time")


def _main() -> None:
    profile = Profile(Path(sys.argv[1]))
    signal.signal(signal.SIGUSR1, profile.start)
    signal.signal(signal.SIGUSR2, profile.write)
    sys.argv[1:] = sys.argv[2:]
    from goqueue.cli import main  # noqa: PLC0415 - signals are set up first

    main()


if __name__ == "__main__":
    _main()
