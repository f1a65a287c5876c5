"""The root of all commands: each file of `goqueue.cli.commands` is one, found by its name.

`commands/topic.py` is `goqueue topic`: its `app` is a Typer with the commands of the group, or with
a single command of the file's own name. A file with `_` in its name is a part of another. Only the
file of the command that is called is imported: users feel start-up on every call.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Final

import typer
import typer.main
from typer.core import TyperGroup

from goqueue.cli import commands
from goqueue.cli.calls import root_callback

_FIRST: Final = ("server", "topic", "produce", "consume", "group", "queue")
"""What the help begins with; the others follow by name."""


class _CommandFiles(Mapping[str, Any]):
    """Every command by its name, imported when it is looked up."""

    def __init__(self) -> None:
        found = {each.name for each in pkgutil.iter_modules(commands.__path__)}
        others = sorted(each for each in found - set(_FIRST) if "_" not in each)
        self._names = [*_FIRST, *others]
        self._loaded: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            if name not in self._names:
                raise KeyError(name)
            self._loaded[name] = _command_of(name)
        return self._loaded[name]


class _Root(TyperGroup):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _CommandFiles()  # type: ignore[assignment]  # Typer adds nothing to it


def _command_of(name: str) -> Any:
    group: typer.Typer = import_module(f"{commands.__name__}.{name}").app
    if [each.name for each in group.registered_commands] == [name]:
        return typer.main.get_command_from_info(
            group.registered_commands[0],
            pretty_exceptions_short=group.pretty_exceptions_short,
            rich_markup_mode=group.rich_markup_mode,
        )
    made = typer.main.get_group(group)
    made.name = name
    return made


app = typer.Typer(name="goqueue", cls=_Root, no_args_is_help=True, pretty_exceptions_enable=False)
app.callback()(root_callback)
