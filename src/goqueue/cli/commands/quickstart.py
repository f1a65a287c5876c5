"""`goqueue quickstart`: a tour of two minutes, with a broker of its own."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer

from goqueue.cli.calls import Call, command
from goqueue.cli.output import print_text
from goqueue.cli.own_broker import own_broker
from goqueue.cli.tour.player import Player
from goqueue.cli.tour.script import steps

_PAUSE_S: Final = 2.0

app = typer.Typer()


@command(app, "quickstart")
def quickstart(
    call: Call,  # noqa: ARG001 - as all commands
    *,
    fast: Annotated[
        bool, typer.Option("--fast", help="Without pauses, and without waiting at the end.")
    ] = False,
) -> None:
    """Take a tour of two minutes: log, queue, retries, dead letters, delay, priority, replay.

    It starts a broker of its own on free ports in a temporary folder, prints each command that it
    runs and what came of it, and removes everything at the end.
    """
    with tempfile.TemporaryDirectory(prefix="goqueue-quickstart-") as name:
        folder = Path(name)
        with own_broker(folder, "the tour") as broker:
            print_text(
                f"A broker runs on free ports, with its data in {folder}.\n"
                f"Kafka clients connect to {broker.servers}; the console is at "
                f"{broker.url}/console"
            )
            player = Player(folder, broker, 0.0 if fast else _PAUSE_S)
            for number, step in enumerate(steps("5s" if fast else "15s"), 1):
                player.play(number, step)
            print_text(f"The console shows all of it: {broker.url}/console")
            if not fast and sys.stdin.isatty():
                print_text("Press Enter to stop the broker and remove its folder.")
                sys.stdin.readline()
    print_text("Next: `goqueue server` runs a broker that stays, `goqueue --help` lists commands.")
