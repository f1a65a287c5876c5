"""Every command, registered. Nothing heavy is imported here: users feel start-up on every call."""

from __future__ import annotations

import typer

from goqueue.cli import bench, server, version

_ANY_FLAG = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def _server(context: typer.Context) -> None:
    server.main(context.args)


app = typer.Typer(
    name="goqueue",
    help="A durable log and a work queue over the same stored bytes.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.command("server", help=server.SUMMARY, context_settings=_ANY_FLAG)(_server)
app.command("version")(version.show_version)
app.command("bench")(bench.run_benchmarks)


@app.callback()
def _root() -> None:
    """Make `goqueue` a group of commands also on the day that it has only one."""
