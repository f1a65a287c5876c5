"""The command line: one file a command group, each importing what it needs when it is called."""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of the `goqueue` command.

    `goqueue server` goes past Typer, which takes a quarter of the time that a server has to start:
    its flags belong to the configuration, which reads them together with the environment.
    """
    if sys.argv[1:2] == ["server"]:
        from goqueue.cli.serve import main as serve  # noqa: PLC0415 - only the command in use

        serve(sys.argv[2:])
    else:
        from goqueue.cli.root import app  # noqa: PLC0415 - only the command in use

        app()
