"""Partition values in the names of folders, as Hive writes them and everyone reads them."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Mapping

NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(32)}


def value_text(value: Any) -> str | None:
    """A partition value as text. No folder can be called nothing, so no text is null, too."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def folder_of(values: Mapping[str, str | None]) -> str:
    """The folder of these values, below the table's; empty if it is not partitioned."""
    return "/".join(f"{_escaped(name)}={_folder(value)}" for name, value in values.items())


def values_of(folder: str) -> dict[str, str | None]:
    """The values that a folder below the table's stands for."""
    found: dict[str, str | None] = {}
    for part in folder.split("/"):
        name, equals, value = part.partition("=")
        if equals:
            found[unquote(name)] = None if value == NULL_FOLDER else unquote(value)
    return found


def _folder(value: str | None) -> str:
    return NULL_FOLDER if value is None else _escaped(value)


def _escaped(text: str) -> str:
    return "".join(f"%{ord(each):02X}" if each in _ESCAPED else each for each in text)
