"""A supervisor as a process, over stand-ins for the broker and for etcd.

    python -m support.supervised FOLDER BROKER ETCD

Each stand-in is Python source. What it appends to FOLDER/told is what tests look at.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Final

from goqueue.model.errors import GoQueueError
from goqueue.server.supervision.etcd_folder import EtcdFolder
from goqueue.server.supervision.supervisor import Supervisor

PRELUDE: Final = """
import os, signal, sys, time
def tell(what):
    with open("told", "a") as file:
        file.write(f"{NAME} {what} {os.getpid()}\\n")
def stop(number, frame):
    tell("stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
tell("started")
"""
RUN: Final = "while True: signal.pause()"
"""A stand-in that runs until it is stopped."""


class StandInEtcd:
    """What a supervisor asks of `EtcdChild`."""

    def __init__(self, command: list[str], error: str | None) -> None:
        self.command = command
        self.environment = dict(os.environ)
        self.folder = EtcdFolder(Path.cwd())
        self._error = error
        self.forming = SimpleNamespace(listener=None)

    def starting(self) -> None:
        pass

    def hand_over(self) -> None:
        pass

    def why_ended(self, code: int, errors: str) -> str | None:
        return f"{self._error} {errors.strip()}" if self._error and code > 0 else None


def command(name: str, source: str) -> list[str]:
    return [sys.executable, "-S", "-E", "-c", f"NAME = {name!r}\n{PRELUDE}\n{source}"]


def main(broker: str, etcd: str) -> None:
    logging.basicConfig(level=logging.INFO)
    stand_in = StandInEtcd(command("etcd", etcd), "the disk is full:")
    try:
        Supervisor(command("broker", broker), stand_in, 60, lambda _: None).run()  # type: ignore[arg-type]
    except GoQueueError as error:
        sys.stderr.write(f"goqueue: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    main(*sys.argv[2:])
