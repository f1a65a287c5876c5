"""What the shell offers after Tab: names from the live server, when it answers at once."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import typer  # noqa: TC002 - Typer looks up what these functions take

from goqueue.cli import contexts
from goqueue.cli.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE_S: Final = 1.0
"""Longer than this nobody waits for a Tab."""


def context_names() -> list[str]:
    """Every context of the file."""
    try:
        return list(contexts.load(contexts.file_path()).by_name)
    except CliError:
        return []


def _completer(kind: str) -> Callable[[typer.Context, str], list[str]]:
    """Completes a name with those of one kind that the server has; `kind` is one of `listing`."""

    def names(context: typer.Context, incomplete: str) -> list[str]:
        from goqueue.cli import listing  # noqa: PLC0415 - completing options needs no server
        from goqueue.cli.api import Api  # noqa: PLC0415 - as above

        try:
            target = contexts.resolve(
                contexts.load(contexts.file_path()),
                os.environ,
                server=_given(context, "server"),
                context=_given(context, "context"),
            )
            with Api(replace(target, timeout_s=_PATIENCE_S)) as api:
                found: list[str] = getattr(listing, kind)(api)
        except CliError:
            return []
        return [name for name in found if name.startswith(incomplete)]

    return names


topic_names: Final = _completer("topics")
group_names: Final = _completer("groups")
subject_names: Final = _completer("subjects")


def _given(context: typer.Context, option: str) -> str | None:
    """An option that stands before the word being completed, in this command or before it."""
    at: Any = context
    while at is not None:
        if (value := at.params.get(option)) is not None:
            return str(value)
        at = at.parent
    return None
