"""What commands print: a table for people, JSON or YAML for programs.

Results go to standard output and everything else to standard error, so that `-o json` can be piped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, NoReturn, TypeAlias

import typer

Fields: TypeAlias = Mapping[str, object]


class Format(StrEnum):
    """The forms a result can take."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


FormatOption: TypeAlias = Annotated[Format, typer.Option("--output", "-o", help="How to print.")]


def emit(data: Fields | Sequence[Fields], output: Format) -> None:
    """Print one thing (its fields) or a list of things (a row each) in the form asked for."""
    if output is Format.JSON:
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
    elif output is Format.YAML:
        import yaml  # noqa: PLC0415 - start-up stays light

        typer.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)
    else:
        _print_table(data)


def fail(message: str, exit_code: int = 1) -> NoReturn:
    """Say on standard error what is wrong and what to do, and end the command."""
    typer.echo(f"goqueue: {message}", err=True)
    raise typer.Exit(exit_code)


def _print_table(data: Fields | Sequence[Fields]) -> None:
    from rich import box  # noqa: PLC0415 - start-up stays light
    from rich.console import Console  # noqa: PLC0415 - start-up stays light
    from rich.table import Table  # noqa: PLC0415 - start-up stays light

    if isinstance(data, Mapping):
        table = Table(box=None, show_header=False, pad_edge=False)
        for name, value in data.items():
            table.add_row(name, str(value))
    else:
        table = Table(*(data[0] if data else ()), box=box.SIMPLE_HEAD, pad_edge=False)
        for fields in data:
            table.add_row(*map(str, fields.values()))
    Console(markup=False, highlight=False).print(table)
