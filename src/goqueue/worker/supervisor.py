"""The parent of the processes of a worker: starts them, replaces those that die, stops them all."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from goqueue.worker.settings import WorkerSettings

logger = logging.getLogger("goqueue.worker.supervisor")

CANNOT_START: Final = 78
"""The exit code of a process that would fail again: no such app, or a group that refuses."""
_USAGE: Final = 2
"""That of the worker then, as of every command whose arguments make no sense."""
REPLACE_ME: Final = 75
"""The exit code of a process with a task that does not end."""

_FIRST_BACKOFF_S: Final = 1.0
_LONGEST_BACKOFF_S: Final = 30.0
_STABLE_S: Final = 60.0
"""A process that ran for so long has not failed at its start."""
_KILL_AFTER_S: Final = 5.0
"""A process that has not ended so long after it should have is killed."""
_FORMAT: Final = "%(asctime)s %(levelname)-7s [%(process)d] %(name)s: %(message)s"
_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Restarts:
    """When a process that has ended is started again: later each time that it fails at once."""

    def __init__(self) -> None:
        self._failures = 0

    def after(self, code: int, ran_s: float) -> float | None:
        """The delay before the next start; None: it makes no sense to start it again."""
        if code == CANNOT_START:
            return None
        if ran_s >= _STABLE_S:
            self._failures = 0
        if code == REPLACE_ME:
            return 0.0
        self._failures += 1
        delay_s: float = min(_FIRST_BACKOFF_S * 2 ** (self._failures - 1), _LONGEST_BACKOFF_S)
        return delay_s


class Supervisor:
    """`goqueue worker`: so many processes of one worker."""

    def __init__(self, settings: WorkerSettings, processes: int) -> None:
        self._settings = settings
        self._count = processes
        self._processes: set[asyncio.subprocess.Process] = set()
        self._stopping = asyncio.Event()
        self._exit_code = 0

    async def run(self) -> int:
        """Until a signal asks for the end, or the worker cannot start; returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        async with asyncio.TaskGroup() as group:
            for index in range(1, self._count + 1):
                group.create_task(self._keep_running(index))
        return self._exit_code

    def _on_signal(self, number: signal.Signals) -> None:
        if self._stopping.is_set():
            logger.warning("%s received again: stopping at once", number.name)
            self._signal_all(signal.SIGQUIT)
            self._kill_after(_KILL_AFTER_S)
        else:
            logger.info("%s: stopping, running tasks may finish", number.name)
            self._stop()

    def _stop(self) -> None:
        self._stopping.set()
        self._signal_all(signal.SIGTERM)
        self._kill_after(self._settings.stop_timeout_s + _KILL_AFTER_S)

    def _kill_after(self, delay_s: float) -> None:
        """End what does not react by then: a task may block the event loop of its process."""
        asyncio.get_running_loop().call_later(delay_s, self._signal_all, signal.SIGKILL)

    def _signal_all(self, number: signal.Signals) -> None:
        for process in self._processes:
            if process.returncode is None:
                process.send_signal(number)

    async def _keep_running(self, index: int) -> None:
        restarts = Restarts()
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            started_s = loop.time()
            code = await self._one_process(index)
            if self._stopping.is_set():
                return
            delay_s = restarts.after(code, loop.time() - started_s)
            if delay_s is None:
                self._exit_code = _USAGE
                self._stop()
                return
            logger.warning("process %d ended with %d, restart in %g s", index, code, delay_s)
            await self._pause(delay_s)

    async def _one_process(self, index: int) -> int:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "goqueue.worker.process"),
            msgspec.json.encode(self._settings).decode(),
            stdin=asyncio.subprocess.PIPE,  # its end tells the process that its supervisor is gone
        )
        logger.info("process %d started, pid %d", index, process.pid)
        self._processes.add(process)
        if self._stopping.is_set():
            self._signal_all(signal.SIGTERM)  # the one for all came before there was this one
        try:
            return await process.wait()
        finally:
            self._processes.discard(process)

    async def _pause(self, delay_s: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), delay_s)
        except TimeoutError:
            return


def set_up_logging(level: str) -> None:
    """Write to standard error, unless somebody has set up something else."""
    logging.basicConfig(level=logging.WARNING, format=_FORMAT)
    logging.getLogger("goqueue").setLevel(level.upper())


def supervise(settings: WorkerSettings, processes: int) -> int:
    """Run a worker until it is told to stop; returns the exit code."""
    set_up_logging(settings.log_level)
    return asyncio.run(_supervised(settings, processes))


async def _supervised(settings: WorkerSettings, processes: int) -> int:
    return await Supervisor(settings, processes).run()
