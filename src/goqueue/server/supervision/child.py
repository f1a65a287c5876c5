"""A process that dies with its supervisor."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SET_DEATH_SIGNAL: Final = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


class Child:
    """One process at a time, started as often as it takes."""

    def __init__(self, name: str, *, keeps_errors: bool) -> None:
        """Make a child that does not run.

        Args:
            name: what it is called.
            keeps_errors: its standard error comes to the supervisor, by `errors`; otherwise the
                child shares the supervisor's own.
        """
        self.name = name
        self._keeps_errors = keeps_errors
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that runs, or that ended and was not taken yet."""
        return None if self._process is None else self._process.pid

    @property
    def errors(self) -> IO[bytes] | None:
        """The end of a pipe, if the child's standard error comes here."""
        return None if self._process is None else self._process.stderr

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the process.

        It is not of the terminal's foreground group: Ctrl-C goes to the supervisor alone, which
        stops its children in order.

        Raises:
            OSError: the program cannot be run.
        """
        # The supervisor has one thread, so that a function between fork and exec is safe.
        self._process = subprocess.Popen(  # noqa: S603 - the program that the settings name
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE if self._keeps_errors else None,
            process_group=0,
            preexec_fn=_dying_with(os.getpid()),  # noqa: PLW1509 - as above
        )
        if self._process.stderr is not None:
            os.set_blocking(self._process.stderr.fileno(), False)

    def ended(self) -> int | None:
        """The exit code of a process that has ended (a signal's is negative); told once."""
        if self._process is None:
            return None
        code = self._process.poll()
        if code is not None:
            if self._process.stderr is not None:
                self._process.stderr.close()
            self._process = None
        return code

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, if there is one."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)


def _dying_with(parent: int) -> Callable[[], None] | None:
    """What a new process does first: ask the kernel to be killed when its parent is gone."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)

    def ask() -> None:
        libc.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # it was gone before it was asked for
            os._exit(1)

    return ask
