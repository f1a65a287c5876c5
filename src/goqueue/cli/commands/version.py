"""`goqueue version`: what exactly is installed here, and what runs there."""

from __future__ import annotations

from typing import Annotated

import typer

from goqueue.cli import versions
from goqueue.cli.calls import Call, command

app = typer.Typer()


@command(app, "version")
def show_version(
    call: Call,
    client_only: Annotated[
        bool, typer.Option(versions.CLIENT_ONLY, help="Do not connect to the server.")
    ] = False,
) -> None:
    """Show the version, the record codec, Python and the platform, here and on the server."""
    call.show(*versions.versions(None if client_only else call.target()))
