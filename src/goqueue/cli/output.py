"""What commands print: a table for people, JSON or YAML for programs.

Results go to standard output and everything else to standard error, so that `-o json` can be piped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from goqueue.cli.people import for_people

if TYPE_CHECKING:
    import msgspec

Fields: TypeAlias = Mapping[str, object]
Shown: TypeAlias = "Fields | Sequence[Fields] | msgspec.Struct | Sequence[msgspec.Struct]"
"""What can be printed: one thing or several, as fields or as the API declares them."""


class Format(StrEnum):
    """The forms a result can take."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def emit(data: Shown, output: Format) -> None:
    """Print one thing (its fields) or a list of things (a row each) in the form asked for.

    In a table, a field that is itself a list of things becomes a table below the other fields.
    """
    shown = plain(data)
    if output is Format.JSON:
        print_text(json.dumps(shown, indent=2, ensure_ascii=False))
    elif output is Format.YAML:
        print_text(as_yaml(shown), end="")
    elif isinstance(shown, Mapping):
        _print_fields(shown)
    else:
        _print_rows(shown)


def plain(data: Shown) -> Any:
    """The same without the types of the API: fields as an answer has them."""
    import msgspec  # noqa: PLC0415 - start-up stays light

    return msgspec.to_builtins(data, str_keys=True, enc_hook=str)


def emit_line(data: Fields | msgspec.Struct, output: Format) -> None:
    """Print one thing of many that come one by one: a line of JSON, or a YAML document."""
    data = plain(data)
    if output is Format.YAML:
        print_text("---\n" + as_yaml(data), end="")
    else:
        print_text(json.dumps(data, ensure_ascii=False))


def as_yaml(data: Any) -> str:
    """YAML in the order of the fields."""
    import yaml  # noqa: PLC0415 - start-up stays light

    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return text


def print_text(text: str, end: str = "\n") -> None:
    """As `typer.echo`, which is not imported for a line of text."""
    sys.stdout.write(text + end)
    sys.stdout.flush()


def fail(message: str, exit_code: int = 1) -> NoReturn:
    """Say on standard error what is wrong and what to do, and end the command."""
    import typer  # noqa: PLC0415 - which runs this command

    note(f"goqueue: {message}")
    raise typer.Exit(exit_code)


def note(message: str) -> None:
    """Say something on standard error and go on."""
    sys.stderr.write(f"{printable(message)}\n")
    sys.stderr.flush()


def printable(text: str) -> str:
    """A text that cannot move the cursor, change colours or ring the bell.

    What a producer wrote into a message is shown to whoever looks at it: a terminal must not act
    on it. Line breaks and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in "\n\t" else each.encode("unicode_escape").decode()
        for each in text
    )


def figure(value: object) -> str:
    """A cell of a table that is drawn: numbers with separators, `-` for nothing."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def shortened(text: str | None, width: int) -> str:
    """The beginning of a text that is too long for a table."""
    text = text or ""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _print_fields(data: Fields) -> None:
    data = for_people(data)
    nested = {name: value for name, value in data.items() if _is_rows(value)}
    plain = {name: value for name, value in data.items() if name not in nested}
    width = max(map(len, plain), default=0)
    for name, value in plain.items():
        print_text(f"{name:<{width}}  {_cell(value) or '-'}")
    for name, rows in nested.items():
        print_text(f"\n{name}:")
        assert isinstance(rows, list)
        _print_rows(rows)


def _is_rows(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _print_rows(rows: Sequence[Fields]) -> None:
    """Columns as wide as their widest cell; numbers to the right.

    A terminal's width cuts nothing, so that a name can be copied and a column be cut out.
    """
    if not rows:
        return
    right = [all(_is_number(row[name]) for row in rows) for name in rows[0]]
    rows = [for_people(row) for row in rows]
    names = list(rows[0])
    cells = [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(len(name), *(len(row[at]) for row in cells)) for at, name in enumerate(names)]
    for row in [names, *cells]:
        line = "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        print_text(line.rstrip())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(_cell, value)) or "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_cell(each)}" for name, each in value.items()) or "-"
    return printable(str(value)).replace("\n", " ")
