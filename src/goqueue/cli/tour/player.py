"""Plays the tour: prints each command, runs it, and stops where one fails."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from goqueue.cli.api import Api
from goqueue.cli.contexts import SERVER_VARIABLE, Target
from goqueue.cli.errors import CliError
from goqueue.cli.output import print_text
from goqueue.cli.tour.script import Waiting

if TYPE_CHECKING:
    from goqueue.cli.own_broker import OwnBroker
    from goqueue.cli.tour.script import Step

_WAIT_S: Final = 60.0
_LOOK_S: Final = 0.05
_COMMAND_S: Final = 120
"""A command that takes longer is ended, and the tour with it."""


class Player:
    """Runs the commands of steps in a folder, against a broker."""

    def __init__(self, folder: Path, broker: OwnBroker, pause_s: float) -> None:
        self._folder = folder
        self._broker = broker
        self._pause_s = pause_s
        mine = {name: each for name, each in os.environ.items() if not name.startswith("GOQUEUE_")}
        self._environment = {**mine, SERVER_VARIABLE: broker.url, "PYTHONUNBUFFERED": "1"}
        shutil.copy(Path(__file__).with_name("worker.py"), folder)

    def play(self, number: int, step: Step) -> None:
        """Print a step and do it.

        Raises:
            CliError: a command failed.
        """
        print_text(f"\n{number}. {step.title}\n\n{step.text}\n")
        for each in step.commands:
            if isinstance(each, Waiting):
                self._wait(each)
                continue
            line = each.format(servers=self._broker.servers) if "{servers}" in each else each
            print_text(f"$ {line}")
            self._run(line)
            time.sleep(self._pause_s)

    def _run(self, line: str) -> None:
        program, *words = shlex.split(line)
        command = [sys.executable, *(["-m", "goqueue.cli"] if program == "goqueue" else []), *words]
        try:
            done = subprocess.run(  # noqa: S603 - the script's own commands
                command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_COMMAND_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise CliError(f"the tour stopped: {line} took more than {_COMMAND_S} s") from error
        print_text(done.stdout.decode(errors="replace"))
        if done.returncode:
            raise CliError(f"the tour stopped: {line} ended with {done.returncode}")

    def _wait(self, waiting: Waiting) -> None:
        deadline = time.monotonic() + _WAIT_S
        with Api(Target(self._broker.url, "the tour's broker")) as api:
            while api.get(dict[str, Any], waiting.path)[waiting.field] < waiting.at_least:
                if time.monotonic() > deadline:
                    raise CliError(f"the tour stopped: {waiting.path} has no {waiting.field}")
                time.sleep(_LOOK_S)
