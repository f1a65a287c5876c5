"""`goqueue server`, as the help knows it; `goqueue.cli.main` starts a server without Typer."""

from __future__ import annotations

from typing import Final

import typer

from goqueue.cli import serve

_ANY_FLAG: Final = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}

app = typer.Typer()


@app.command("server", help=serve.SUMMARY, context_settings=_ANY_FLAG)
def run_server(context: typer.Context) -> None:
    """Run a broker with these flags."""
    serve.main(context.args)
