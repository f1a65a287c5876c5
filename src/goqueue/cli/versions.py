"""What is installed here and what runs there, for `goqueue version`.

Without options the command comes straight here: Typer would take longer than everything else.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import goqueue
from goqueue.cli import contexts
from goqueue.cli.errors import CliError
from goqueue.cli.output import Format, emit, note, plain, print_text
from goqueue.runtime.build_info import build_info

if TYPE_CHECKING:
    from goqueue.cli.contexts import Target

_PATIENCE_S: Final = 2.0
"""Longer than this nobody waits for a version number."""

CLIENT_ONLY: Final = "--client"


def main(*, client_only: bool) -> None:
    """Print the versions as a table; ends the process where it cannot be told whom to ask."""
    try:
        target = None
        if not client_only:
            target = contexts.resolve(contexts.load(contexts.file_path()), os.environ)
        _, table = versions(target)
        emit(table, Format.TABLE)
    except CliError as error:
        note(f"goqueue: {error}")
        sys.exit(error.exit_code)


def show_line() -> None:
    """Print the version, the commit and when it was built, in one line."""
    build = build_info()
    print_text(f"goqueue {goqueue.__version__} (commit {build.commit[:12]}, built {build.built})")


def versions(target: Target | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Here and at a server, as data and as the lines of a table."""
    from goqueue.records import IMPLEMENTATION  # noqa: PLC0415 - start-up stays light

    build = build_info()
    client = {
        "version": goqueue.__version__,
        "commit": build.commit,
        "built": build.built,
        "record_codec": IMPLEMENTATION,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
    }
    if target is None:
        return {"client": client}, _lines("client", client)
    server, trouble = _ask(target)
    table = _lines("client", client) | (_lines("server", server) if server else {"server": trouble})
    return {"client": client, "server": server}, table


def _ask(target: Target) -> tuple[dict[str, Any] | None, str]:
    """What runs there, or why that cannot be said: no reason to fail."""
    from goqueue.cli.api import Api  # noqa: PLC0415 - only with a server to ask
    from goqueue.protocols.http.operations.operation_shapes import Version  # noqa: PLC0415 - so too

    with Api(replace(target, timeout_s=min(target.timeout_s, _PATIENCE_S))) as api:
        try:
            return {"url": target.server, **plain(api.get(Version, "/version"))}, ""
        except CliError:
            return None, f"no answer from {target.server}"


def _lines(where: str, facts: dict[str, Any]) -> dict[str, Any]:
    return {f"{where} {name.replace('_', ' ')}": value for name, value in facts.items()}
