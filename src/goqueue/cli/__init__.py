"""The command line: one file a command group, each importing what it needs when it is called.

Start-up is what a user feels on every call, so nothing heavy is imported here.
"""

from __future__ import annotations

import typer

from goqueue.cli import bench, server, version

app = typer.Typer(
    name="goqueue",
    help="A durable log and a work queue over the same stored bytes.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.command("server", context_settings=server.ANY_FLAG)(server.run_server)
app.command("version")(version.show_version)
app.command("bench")(bench.run_benchmarks)


@app.callback()
def _root() -> None:
    """Make `goqueue` a group of commands also on the day that it has only one."""


def main() -> None:
    """The entry point of the `goqueue` command."""
    app()
