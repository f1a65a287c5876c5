"""A client in a process of its own, told what to do line by line.

A client that shared the benchmark's process would share its interpreter; one that is started for
each measurement would mostly be starting. So one lives through a benchmark and is asked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

from benchmarks._turns import expect
from benchmarks.harness import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class ClientProcess:
    """The benchmark's side; use it in a `with`."""

    def __init__(self, module: str) -> None:
        command = [sys.executable, "-m", f"benchmarks.{module}"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self, function: str, **arguments: Any) -> None:
        """Ask for something and do not wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([function, arguments]) + "\n")
        self._process.stdin.flush()

    def end(self) -> Any:
        """The answer to the oldest question."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        expect(line, "a client process has ended by itself")
        return json.loads(line)

    def call(self, function: str, **arguments: Any) -> Any:
        """Ask, and wait for the answer."""
        self.begin(function, **arguments)
        return self.end()


def serve_calls(functions: Mapping[str, Callable[..., Any]]) -> None:
    """The client's side: answer until the questions end."""
    for line in sys.stdin:
        function, arguments = json.loads(line)
        print(json.dumps(functions[function](**arguments)), flush=True)
