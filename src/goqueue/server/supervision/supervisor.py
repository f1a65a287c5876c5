"""The process of a node of a cluster: it runs etcd and the broker, and starts them again.

The children are apart, so that a broker that crashes leaves the quorum alone, and an etcd that is
slow or away stops no broker. They die with the supervisor. One thread, no event loop: it sleeps
until a signal or the next restart.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from goqueue.runtime.clock import SystemClock
from goqueue.server.errors import CANNOT_START, StartError
from goqueue.server.folder import MEMBER_FILE, METADATA_FILE, UMASK
from goqueue.server.supervision.child import Child
from goqueue.server.supervision.etcd_child import EtcdChild, is_member
from goqueue.server.supervision.node_lock import NodeLock, wait_until_free
from goqueue.server.supervision.restarts import Restarts
from goqueue.server.supervision.sole_node import check_sole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

    from goqueue.server.config import Config

logger = logging.getLogger(__name__)

_BROKER_MODULE: Final = "goqueue.server.supervision.broker_child"
_STOPPING: Final = (signal.SIGTERM, signal.SIGINT)
_HANDLED: Final = (*_STOPPING, signal.SIGCHLD, signal.SIGHUP)
_KEPT_ERRORS: Final = 16 * 1024
"""The end of what a child wrote to its standard error; what was before it is dropped."""
_BROKER_GRACE_S: Final = 120.0
"""What a broker may take to stop beyond three times `broker.stop_timeout`; then it is killed."""
_ETCD_GRACE_S: Final = 1.0
"""What an etcd may take to stop; then it is killed, which it is made for. It would wait for the
watches of all its clients."""
_STOP_CHECK_S: Final = 0.5


def supervise(config: Config, arguments: Sequence[str]) -> None:
    """Run a node of a cluster until a signal asks for its end.

    Raises:
        StartError: it cannot run as it was told to, and why.
    """
    os.umask(UMASK)
    folder = config.broker.data_dir
    lock = NodeLock(folder)
    lock.acquire()
    try:
        _check_folder(folder)
        wait_until_free(folder)
        etcd = None
        if is_member(config):
            etcd = EtcdChild(config)
            check_sole(config)
        if etcd is not None and etcd.binary.warning is not None:
            logger.warning("%s", etcd.binary.warning)
        patience_s = 3 * config.broker.stop_timeout_ms / 1000 + _BROKER_GRACE_S
        broker = [sys.executable, "-P", "-m", _BROKER_MODULE, *arguments]
        Supervisor(broker, etcd, patience_s, lock.note).run()
    finally:
        lock.release()


def _check_folder(folder: Path) -> None:
    """Refuse the folder of a server that ran on its own before anything is written into it."""
    if (folder / METADATA_FILE).exists() and not (folder / MEMBER_FILE).exists():
        raise StartError(
            f"the data folder {folder} belongs to a server that runs on its own: start the cluster "
            "with another --data-dir, and copy topics with `goqueue consume` and `goqueue produce`"
        )


class Supervisor:
    """Two children, started again when they end, until it is asked to stop."""

    def __init__(
        self,
        broker: Sequence[str],
        etcd: EtcdChild | None,
        patience_s: float,
        note: Callable[[Mapping[str, int]], None],
    ) -> None:
        self._clock = SystemClock()
        self._note = note
        """Hears which processes run, whenever one was started."""
        self._etcd = etcd
        self._runs = [_Run("broker", broker, dict(os.environ), keeps_errors=False)]
        if etcd is not None:
            self._runs.append(_Run("etcd", etcd.command, etcd.environment, keeps_errors=True))
        self._patience_s = {"broker": patience_s, "etcd": _ETCD_GRACE_S}
        self._signals = 0
        self._last_signal = signal.SIGTERM
        self._stop_at_s: float | None = None
        """When the child that is being stopped is killed; None while nothing is."""
        self._failure: StartError | None = None
        self._told_wait: str | None = None
        """What etcd waits for, as it was told last."""
        self._exit_code: int | None = None

    def run(self) -> None:
        """Run both until a signal or an error that another start would not change.

        Raises:
            StartError: such an error, when both have stopped.
            SystemExit: the broker could not start, and has said why.
        """
        wake, woken = socket.socketpair()
        for end in (wake, woken):
            end.settimeout(0)
        before = signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        handlers = {n: signal.signal(n, self._on_signal) for n in _HANDLED}
        try:
            while not self._is_done():
                self._start_due()
                self._wait(wake)
                self._collect()
                self._stop_in_order()
        finally:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for run in self._runs:
                run.child.send(signal.SIGKILL)
            wake.close()
            woken.close()
        if self._failure is not None:
            raise self._failure
        if self._exit_code is not None:
            sys.exit(self._exit_code)

    # --- Signals ---------------------------------------------------------------------------------

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number in _STOPPING:
            self._signals += 1
            self._last_signal = signal.Signals(number)
        elif number == signal.SIGHUP:  # certificates have changed: etcd looks by itself
            for run in self._runs:
                if run.child.name == "broker":
                    run.child.send(signal.SIGHUP)

    @property
    def _is_stopping(self) -> bool:
        return bool(self._signals) or self._failure is not None or self._exit_code is not None

    def _is_done(self) -> bool:
        return self._is_stopping and all(run.child.pid is None for run in self._runs)

    # --- Running ---------------------------------------------------------------------------------

    def _start_due(self) -> None:
        """Start what is to be started now, etcd before the broker that waits for it."""
        now_s = self._clock.monotonic_s()
        for run in reversed(self._runs):
            if self._is_stopping or run.child.pid is not None or run.due_s > now_s:
                continue
            if run.child.name == "etcd" and not self._may_start_etcd(run):
                continue
            run.errors = b""
            run.started_s = now_s
            try:
                run.child.start(run.command, run.environment)
            except OSError as error:
                text = f"{run.command[0]} cannot be run: {error.strerror}"
                self._failure = StartError(f"{text}: correct the installation")
                return
            logger.info("%s: started as process %d", run.child.name, run.child.pid)
            runs = [(each.child.name, each.child.pid) for each in self._runs]
            self._note({name: pid for name, pid in runs if pid is not None})

    def _may_start_etcd(self, run: _Run) -> bool:
        if self._etcd is None:
            return False
        try:
            waits_for = self._etcd.starting()
        except StartError as error:
            self._failure = error
            return False
        run.command = self._etcd.command
        if waits_for is None:
            self._told_wait = None
            return True
        if waits_for != self._told_wait:
            self._told_wait = waits_for
            logger.warning("%s", waits_for)
        run.due_s = self._clock.monotonic_s() + self._etcd.forming.retry_s
        return False

    def _wait(self, wake: socket.socket) -> None:
        """Sleep until a signal, a restart that is due, or the end of a child's patience."""
        pipes = [each.child.errors.fileno() for each in self._runs if each.child.errors is not None]
        due = [run.due_s for run in self._runs if run.child.pid is None]
        timeout_s = max(0.0, min(due) - self._clock.monotonic_s()) if due else None
        if self._is_stopping:
            timeout_s = _STOP_CHECK_S
        listener = None if self._etcd is None else self._etcd.forming.listener
        heard = [] if listener is None else [listener.fileno()]
        ready, _, _ = select.select([wake.fileno(), *pipes, *heard], [], [], timeout_s)
        if self._etcd is not None and set(heard) & set(ready):
            self._etcd.forming.answer()
        with suppress(BlockingIOError):
            wake.recv(4096)

    def _collect(self) -> None:
        for run in self._runs:
            run.read_errors()
            code = run.child.ended()
            if code is not None:
                self._ended(run, code)

    def _ended(self, run: _Run, code: int) -> None:
        now_s = self._clock.monotonic_s()
        self._stop_at_s = None
        if self._is_stopping:
            logger.info("%s: stopped", run.child.name)
            return
        if run.child.name == "broker" and code == CANNOT_START:
            self._exit_code = code  # it has said why itself
            return
        error = None
        if run.child.name == "etcd" and self._etcd is not None:
            error = self._etcd.why_ended(code, run.errors.decode("utf-8", "replace"))
        delay_s = run.restarts.delay_s(now_s, run.started_s, error)
        if delay_s is None:
            self._failure = StartError(str(error))
            return
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        logger.error(
            "%s: ended with %s%s; it is started again in %.1f s",
            run.child.name,
            how,
            "" if error is None else f": {error}",
            delay_s,
        )
        run.due_s = now_s + delay_s

    # --- Stopping --------------------------------------------------------------------------------

    def _stop_in_order(self) -> None:
        """The broker first, which hands over what it leads; then etcd, which does the same."""
        if not self._is_stopping:
            return
        if self._signals > 1:
            logger.warning("%s again: both children are killed", self._last_signal.name)
            for run in self._runs:
                run.child.send(signal.SIGKILL)
            self._exit_code = 128 + self._last_signal
            self._signals = 1
            return
        now_s = self._clock.monotonic_s()
        running = next((run for run in self._runs if run.child.pid is not None), None)
        if running is None:
            return
        name = running.child.name
        if self._stop_at_s is None:
            logger.info("%s: stopping", name)
            if name == "etcd" and self._etcd is not None:
                self._etcd.hand_over()
            running.child.send(signal.SIGTERM)
            self._stop_at_s = now_s + self._patience_s[name]
        elif now_s >= self._stop_at_s:
            level = logging.INFO if name == "etcd" else logging.WARNING
            logger.log(level, "%s did not stop in %.0f s: killed", name, self._patience_s[name])
            running.child.send(signal.SIGKILL)
            self._stop_at_s = now_s + self._patience_s[name]


class _Run:
    """One child with what it takes to start it again."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: dict[str, str],
        *,
        keeps_errors: bool,
    ) -> None:
        self.child = Child(name, keeps_errors=keeps_errors)
        self.command = command
        self.environment = environment
        self.restarts = Restarts()
        self.started_s = 0.0
        self.due_s = 0.0
        self.errors = b""

    def read_errors(self) -> None:
        """Take what the child has written to its standard error."""
        pipe = self.child.errors
        if pipe is not None:
            with suppress(BlockingIOError):
                while chunk := os.read(pipe.fileno(), 65536):
                    self.errors = (self.errors + chunk)[-_KEPT_ERRORS:]
