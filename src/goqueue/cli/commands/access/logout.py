"""`goqueue logout`: forget the key of a context."""

from __future__ import annotations

from typing import Annotated

import typer

from goqueue.cli import contexts
from goqueue.cli.calls import Call, command
from goqueue.cli.completion import context_names

app = typer.Typer()


@command(app, "logout")
def log_out(
    call: Call,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="CONTEXT",
            help="The context. (default: the current one)",
            autocompletion=context_names,
        ),
    ] = None,
) -> None:
    """Remove the key of a context from the file or the keyring. The server does not revoke it."""
    path = contexts.file_path()
    found = contexts.load(path)
    chosen = name or call.given.context or found.current
    context = contexts.with_key(found.named(chosen), chosen, None)
    contexts.save(path, found.with_context(chosen, context))
    call.show({"context": chosen, "server": context.server, "key": None})
