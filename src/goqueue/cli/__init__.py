"""The command line: one file a command group, each importing what it needs when it is called."""

from __future__ import annotations

import sys


def main() -> None:
    """The entry point of the `goqueue` command.

    `goqueue server` goes past Typer, which takes a quarter of the time that a server has to start:
    its flags belong to the configuration, which reads them together with the environment. So does
    `goqueue version` where it has no options but one, and `goqueue --version`.
    """
    match sys.argv[1:]:
        case ["server", *flags]:
            from goqueue.cli.serve import main as serve  # noqa: PLC0415 - only the command in use

            serve(flags)
        case ["version"] | ["version", "--client"]:
            from goqueue.cli.versions import main as show  # noqa: PLC0415 - only the command in use

            show(client_only=len(sys.argv) > 2)
        case ["--version"]:
            from goqueue.cli.versions import show_line  # noqa: PLC0415 - only the command in use

            show_line()
        case _:
            from goqueue.cli.root import app  # noqa: PLC0415 - only the command in use

            app()
