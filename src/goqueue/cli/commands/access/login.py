"""`goqueue login`: keep an API key or a token for a server, after the server has accepted it."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from goqueue.cli import contexts
from goqueue.cli.api import Api
from goqueue.cli.calls import Call, command
from goqueue.cli.completion import context_names
from goqueue.cli.errors import CliError, RefusedError
from goqueue.cli.secrets import ask_secret

app = typer.Typer()

_FORBIDDEN = 403


@command(app, "login")
def log_in(
    call: Call,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="CONTEXT",
            help="The context to keep it in. (default: the current one)",
            autocompletion=context_names,
        ),
    ] = None,
    *,
    keyring: Annotated[
        bool,
        typer.Option(
            "--keyring", help="Keep it in the keyring of the system; needs goqueue[keyring]."
        ),
    ] = False,
) -> None:
    """Keep an API key or a token for a server. It is asked for, or read from standard input."""
    path = contexts.file_path()
    found = contexts.load(path)
    chosen = name or call.given.context or found.current
    context = found.by_name.get(chosen, contexts.Context())
    if call.given.server is not None:
        context = replace(context, server=contexts.checked_url(call.given.server, "--server"))
    key = contexts.checked_key(ask_secret("API key or token"), "the API key")
    if key is None:
        raise CliError("nothing was stored: the key is empty")
    _check(contexts.Target(context.server, f"context {chosen}", key))
    context = contexts.with_key(context, chosen, key, in_keyring=keyring)
    contexts.save(path, replace(found.with_context(chosen, context), current=chosen))
    kept = {"keyring": chosen} if keyring else {"file": str(path)}
    call.show({"context": chosen, "server": context.server, **kept})


def _check(target: contexts.Target) -> None:
    """Ask the server for something; that it may not be seen is an answer, too."""
    with Api(target) as api:
        try:
            api.get(dict, "/topics")
        except RefusedError as error:
            if error.status != _FORBIDDEN:
                raise CliError(f"nothing was stored: {error}") from error
