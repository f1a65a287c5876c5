"""The root of all commands: each file of `goqueue.cli.commands` is one, found by its name.

`commands/topic.py` is `goqueue topic`: its `app` is a Typer with the commands of the group, or with
a single command of the file's own name. Files of one subject may stand in a folder of their own,
such as `commands/access/key.py`. A file with `_` in its name is a part of another. Only the
file of the command that is called is imported, and none for the list of commands: users feel
start-up on every call.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from goqueue.cli import commands
from goqueue.cli.calls import root_callback
from goqueue.cli.summaries import SUMMARIES

_FIRST: Final = ("server", "topic", "produce", "consume", "group", "queue", "worker")
"""What the help begins with; the others follow by name."""


def _modules() -> dict[str, str]:
    """The module of each command, by its name; folders are only names for some of them."""
    found: dict[str, str] = {}
    for each in pkgutil.iter_modules(commands.__path__):
        if each.ispkg:
            folder = [f"{path}/{each.name}" for path in commands.__path__]
            found |= {
                inner.name: f"{each.name}.{inner.name}" for inner in pkgutil.iter_modules(folder)
            }
        else:
            found[each.name] = each.name
    return {name: module for name, module in found.items() if "_" not in name}


class _CommandFiles(Mapping[str, Any]):
    """Every command by its name, imported when it is looked up."""

    def __init__(self) -> None:
        self._modules = _modules()
        self._names = [*_FIRST, *sorted(self._modules.keys() - set(_FIRST))]
        self._loaded: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            if name not in self._names:
                raise KeyError(name)
            self._loaded[name] = _command_of(name, self._modules[name])
        return self._loaded[name]


class _Root(TyperGroup):
    """The group of all commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _CommandFiles()  # type: ignore[assignment]  # Typer adds nothing to it
        self._is_listed = False

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as Typer calls it
        """The names, in the order of the help."""
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; of a list, only what the list says of it."""
        if self._is_listed and cmd_name in SUMMARIES:
            return TyperCommand(cmd_name, help=SUMMARIES[cmd_name])
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, for which no command is imported."""
        self._is_listed = True
        try:
            with _unused_modules("rich.markdown", "rich.traceback"):
                super().format_help(ctx, formatter)
        finally:
            self._is_listed = False


@contextmanager
def _unused_modules(*names: str) -> Iterator[None]:
    """Keep modules out that Typer's help imports for what it does not do here.

    Markdown is another markup mode than ours, tracebacks are not pretty here; both together are
    half of the time that a page of help takes.
    """
    empty = {name: ModuleType(name) for name in names if name not in sys.modules}
    for name, module in empty.items():
        last = name.rpartition(".")[2]
        setattr(module, last.capitalize(), type(last, (), {}))
    sys.modules.update(empty)
    try:
        yield
    finally:
        for name in empty:
            del sys.modules[name]


def _command_of(name: str, module: str) -> Any:
    group: typer.Typer = import_module(f"{commands.__name__}.{module}").app
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
