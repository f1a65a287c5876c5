"""`goqueue version`: what exactly is installed here, and what runs there."""

from __future__ import annotations

import platform
from dataclasses import replace
from typing import Annotated, Any, Final

import typer

import goqueue
from goqueue.cli.calls import Call, command
from goqueue.cli.errors import CliError
from goqueue.cli.output import plain
from goqueue.protocols.http.operations.operation_shapes import Version

_PATIENCE_S: Final = 2.0
"""Longer than this nobody waits for a version number."""


app = typer.Typer()


@command(app, "version")
def show_version(
    call: Call,
    client_only: Annotated[
        bool, typer.Option("--client", help="Do not connect to the server.")
    ] = False,
) -> None:
    """Show the version, the record codec, Python and the platform, here and on the server."""
    from goqueue.records import IMPLEMENTATION  # noqa: PLC0415 - start-up stays light

    client = {
        "version": goqueue.__version__,
        "record_codec": IMPLEMENTATION,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    if client_only:
        call.show({"client": client}, _lines("client", client))
        return
    server, trouble = _ask(call)
    table = _lines("client", client) | (_lines("server", server) if server else {"server": trouble})
    call.show({"client": client, "server": server}, table)


def _ask(call: Call) -> tuple[dict[str, Any] | None, str]:
    """What runs there, or why that cannot be said: no reason to fail."""
    from goqueue.cli.api import Api  # noqa: PLC0415 - only with a server to ask

    target = call.target()
    with Api(replace(target, timeout_s=min(target.timeout_s, _PATIENCE_S))) as api:
        try:
            return {"url": target.server, **plain(api.get(Version, "/version"))}, ""
        except CliError:
            return None, f"no answer from {target.server}"


def _lines(where: str, facts: dict[str, Any]) -> dict[str, Any]:
    return {f"{where} {name.replace('_', ' ')}": value for name, value in facts.items()}
