"""`goqueue worker` in processes of its own, with the tasks of `worker_app`, for tests."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from support.waiting import eventually

if TYPE_CHECKING:
    from types import ModuleType

    from goqueue.testing import Broker
    from support.server import ServerProcess

TESTS: Final = Path(__file__).parents[1]
STOP_S: Final = 90


def address_of(broker: Broker | ServerProcess) -> str:
    """Where the client, and so a worker, connects to."""
    return broker.kafka_address


class Tasks:
    """One app: its tasks to be sent from the test, and what workers wrote down."""

    def __init__(self, name: str, folder: Path, address: str, **environment: str) -> None:
        self.name = name
        self.out = folder / f"{name}.jsonl"
        self.address = address
        self.environment = {"WORKER_APP": name, "WORKER_OUT": str(self.out), **environment}
        self.worker: WorkerProcess
        """One that runs them, if a fixture has started it."""
        self.module = self._imported()
        self.module.app.connect_to(address)

    def _imported(self) -> ModuleType:
        """The module of its own that another name makes of the same file."""
        spec = importlib.util.spec_from_file_location("app", TESTS / "support" / "worker_app.py")
        module = importlib.util.module_from_spec(spec)
        before = dict(os.environ)
        os.environ.update(self.environment)
        try:
            spec.loader.exec_module(module)
        finally:
            os.environ.clear()
            os.environ.update(before)
        return module

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)

    def records(self, mark: str) -> list[dict[str, Any]]:
        if not self.out.exists():
            return []
        lines = [json.loads(line) for line in self.out.read_text().splitlines()]
        return [line for line in lines if line["mark"] == mark]

    def wait_for(self, mark: str, *what: str) -> list[dict[str, Any]]:
        """The records of a mark, once they say this."""
        said: list[dict[str, Any]] = eventually(
            lambda: (
                [each["what"] for each in self.records(mark)] == list(what) and self.records(mark)
            ),
            f"{mark}: {what}, not {self.records(mark)}",
        )
        return said

    def let(self, mark: str) -> None:
        """Let a task end that holds its message."""
        self.out.with_name(f"let-{mark}").touch()


class WorkerProcess:
    """`goqueue worker`, from the start of a `with` to its end."""

    def __init__(self, tasks: Tasks, *flags: str, target: str = "support.worker_app:app") -> None:
        self._command = [
            *(sys.executable, "-m", "goqueue.cli", "worker", target),
            *("--address", tasks.address),
            *flags,
        ]
        self._environment = {
            **{name: value for name, value in os.environ.items() if "GOQUEUE_" not in name},
            **tasks.environment,
        }
        self.log: list[str] = []

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stderr=subprocess.PIPE, env=self._environment, cwd=TESTS, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        if self._process.wait(STOP_S) < 0:  # killed, here or by the test: its processes may be left
            for pid in self.pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.wait()

    def _read(self) -> None:
        with self._process.stderr as lines:
            self.log.extend(line.rstrip("\n") for line in lines)

    def pids(self) -> list[int]:
        """Those of the processes that run tasks, in the order of their starts."""
        return [int(line.rpartition(" ")[2]) for line in list(self.log) if " started, pid " in line]

    def wait_for_line(self, part: str, times: int = 1) -> str:
        """The last of so many lines of the log with these words."""
        found: list[str] = eventually(
            lambda: (
                (lines := [line for line in list(self.log) if part in line])
                and len(lines) >= times
                and lines
            ),
            part,
        )
        return found[times - 1]

    def ready(self, processes: int = 1) -> Self:
        self.wait_for_line("ready: ", processes)
        return self

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit code, once it has ended."""
        code = self._process.wait(STOP_S)
        self._reader.join(STOP_S)
        return code

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()
