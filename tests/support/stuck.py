"""Ends a test that runs on after its time, whatever it does, and says which one it was.

`timeout` of pytest-timeout raises in the main thread, once. That is the gentle way: the test fails,
its fixtures are torn down and the worker goes on. It does not end everything: an event loop keeps
what is raised in one of its callbacks to itself, Hypothesis takes it for a failing example and runs
that again, and a teardown that hangs comes after it. `GRACE_S` later the process of the test ends
here: it names the test, dumps every stack, kills its descendants and exits. pytest-xdist reports
the test as failed and starts another worker for the rest.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

GRACE_S = 60.0
"""After the time of a test is over: for the test to fail, and its fixtures to end."""
HELD_S = 30.0
"""After that: for a process that holds the interpreter's lock, where no thread of ours can run."""
WHERE = signal.SIGUSR1
"""Asks a run where it is: every process dumps its stacks, and the first one names its tests."""


class Watchdog:
    """One for each process that runs tests, or hands them out."""

    def __init__(self, stderr: int) -> None:
        self._stderr = stderr
        """The real one: what a test writes is captured."""
        self._running: dict[str, None] = {}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        limit_s = _limit_s(item)
        if not limit_s:
            return (yield)
        timer = threading.Timer(limit_s + GRACE_S, self.end, (item.nodeid, limit_s))
        timer.daemon = True
        timer.start()
        faulthandler.dump_traceback_later(limit_s + GRACE_S + HELD_S, exit=True, file=self._stderr)
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()
            timer.cancel()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._running[nodeid] = None

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)

    def end(self, nodeid: str, limit_s: float) -> None:
        """The test did not end by itself."""
        self._say(f"STUCK {nodeid}: not over {GRACE_S:g} s after its {limit_s:g} s; stacks follow")
        faulthandler.dump_traceback(self._stderr, all_threads=True)
        kill_descendants(os.getpid())
        os._exit(1)

    def tell(self, *_: Any) -> None:
        """Which tests are under way."""
        for nodeid in list(self._running):
            self._say(f"STILL RUNNING {nodeid}")

    def _say(self, line: str) -> None:
        os.write(self._stderr, f"\n{line}\n".encode())


def pytest_configure(config: pytest.Config) -> None:
    watchdog = Watchdog(os.dup(sys.__stderr__.fileno()))
    config.pluginmanager.register(watchdog, "stuck")
    if threading.current_thread() is threading.main_thread():
        signal.signal(WHERE, watchdog.tell)
        faulthandler.register(WHERE, watchdog._stderr, all_threads=True, chain=True)


def _limit_s(item: pytest.Item) -> float:
    """The time of a test, as pytest-timeout has it."""
    marker = item.get_closest_marker("timeout")
    if marker is not None:
        told = marker.args[0] if marker.args else marker.kwargs.get("timeout")
        if told is not None:
            return float(told)
    told = getattr(item.config, "_env_timeout", None)
    return float(told or 0)


def kill_descendants(pid: int) -> None:
    """Every process that a process has started, and theirs."""
    children: dict[int, list[int]] = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            after_name = each.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(after_name[1]), []).append(int(each.parent.name))
    doomed = list(children.get(pid, ()))
    for child in doomed:
        doomed += children.get(child, ())
    for child in doomed:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
