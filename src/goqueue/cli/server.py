"""`goqueue server`: run a broker until it is told to stop."""

from __future__ import annotations

import sys
from typing import Final

import typer

from goqueue.cli.output import fail

CANNOT_START: Final = 2
"""The exit code of a server that could not start as it was told to."""

ANY_FLAG: Final = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}
"""Flags are read by the configuration, which also knows the file and the environment."""


def run_server(context: typer.Context) -> None:
    """Run a broker. SIGTERM or Ctrl-C stops it in order, a second one at once.

    Every setting is a flag, an environment variable and a key of the file that --config names.
    """
    if {"--help", "-h"} & set(context.args):
        _show_help(context)
    from goqueue.model.errors import GoQueueError  # noqa: PLC0415 - start-up stays light
    from goqueue.server.config_load import load_config  # noqa: PLC0415 - as above

    try:
        config = load_config(context.args)
        from goqueue.server.logs import set_up_logging  # noqa: PLC0415 - only once it is needed
        from goqueue.server.process import serve  # noqa: PLC0415 - the heaviest of all

        set_up_logging(config.logging)
        serve(config)
    except GoQueueError as error:
        fail(str(error), CANNOT_START)


def _show_help(context: typer.Context) -> None:
    from goqueue.server.config_docs import flag_help  # noqa: PLC0415 - for the help alone

    typer.echo(f"Usage: {context.command_path} [FLAGS]\n\n{context.command.help}\n\nFlags:")
    typer.echo(flag_help())
    sys.exit()
