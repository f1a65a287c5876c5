"""What the shell offers after Tab: names from the live server, when it answers at once."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import typer  # noqa: TC002 - Typer looks up what these functions take

from goqueue.cli import contexts
from goqueue.cli.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PATIENCE_S: Final = 1.0
"""Longer than this nobody waits for a Tab."""


def context_names() -> list[str]:
    """Every context of the file."""
    try:
        return list(contexts.load(contexts.file_path()).by_name)
    except CliError:
        return []


def topic_names(context: typer.Context, incomplete: str) -> list[str]:
    """Topics that begin like that."""
    return _names(context, incomplete, "topics")


def group_names(context: typer.Context, incomplete: str) -> list[str]:
    """Groups that begin like that."""
    return _names(context, incomplete, "groups")


def subject_names(context: typer.Context, incomplete: str) -> list[str]:
    """Subjects that begin like that."""
    return _names(context, incomplete, "subjects")


def _names(context: typer.Context, incomplete: str, kind: str) -> list[str]:
    """The names of one kind that begin like that."""
    from goqueue.cli import listing  # noqa: PLC0415 - completing options needs no server
    from goqueue.cli.api import Api  # noqa: PLC0415 - as above

    lists: dict[str, Callable[[Api], list[str]]] = {
        "topics": listing.topics,
        "groups": listing.groups,
        "subjects": listing.subjects,
    }
    try:
        target = contexts.resolve(
            contexts.load(contexts.file_path()),
            os.environ,
            server=_given(context, "server"),
            context=_given(context, "context"),
        )
        with Api(replace(target, timeout_s=_PATIENCE_S)) as api:
            names = lists[kind](api)
    except CliError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def _given(context: typer.Context, option: str) -> str | None:
    """An option that stands before the word being completed, in this command or before it."""
    at: Any = context
    while at is not None:
        if (value := at.params.get(option)) is not None:
            return str(value)
        at = at.parent
    return None
