"""What the shell offers after Tab: names from the live server, when it answers at once."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import typer  # noqa: TC002 - Typer looks up what these functions take

from goqueue.cli import contexts
from goqueue.cli.errors import CliError

if TYPE_CHECKING:
    from collections.abc import Sequence
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
    return _names(context, incomplete, "/topics", "topics")


def group_names(context: typer.Context, incomplete: str) -> list[str]:
    """Groups that begin like that."""
    return _names(context, incomplete, "/groups", "groups")


def subject_names(context: typer.Context, incomplete: str) -> list[str]:
    """Subjects that begin like that."""
    return _names(context, incomplete, "/subjects", None)


def names_of(listed: Sequence[Any]) -> list[str]:
    """The names in an answer that lists names, or things with names."""
    return [each if isinstance(each, str) else each["group"] for each in listed]


def _names(context: typer.Context, incomplete: str, path: str, kind: str | None) -> list[str]:
    """What an answer lists under this name, or is a list of."""
    from goqueue.cli.api import Api  # noqa: PLC0415 - completing options needs no server

    try:
        target = contexts.resolve(
            contexts.load(contexts.file_path()),
            os.environ,
            server=_given(context, "server"),
            context=_given(context, "context"),
        )
        with Api(replace(target, timeout_s=_PATIENCE_S)) as api:
            listed = api.get(path)
            names = names_of(listed if kind is None else listed[kind])
    except (CliError, KeyError, TypeError):
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
