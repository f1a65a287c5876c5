"""Where a table is and what it is, without opening it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import unquote, urlparse

from goqueue.spark.errors import LakeError, OptionsError

if TYPE_CHECKING:
    from collections.abc import Mapping

TableFormat = Literal["parquet", "delta", "iceberg"]
FORMATS: Final[dict[str, TableFormat]] = {
    "parquet": "parquet",
    "delta": "delta",
    "iceberg": "iceberg",
}

OWN_FOLDER: Final = "_goqueue"
"""In a table's folder. Readers of Parquet leave out what starts with an underscore."""
STATE_FILE: Final = "table.json"
INTENT_FILE: Final = "intent.json"
DEFAULT_NAMESPACE: Final = "default"
CATALOG_PREFIX: Final = "catalog."
_SCHEME: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:")


@dataclass(frozen=True, slots=True)
class LakeTable:
    """The address of a table; `lake_table` makes it."""

    format: TableFormat
    path: Path
    """The folder, absolute. Driver and executors must see the same one."""
    table: str | None = None
    """Iceberg: the name in the catalogue."""
    catalog: Mapping[str, str] = field(default_factory=dict)
    """Iceberg: what pyiceberg is told about the catalogue; nothing: SQLite beside the table."""

    @property
    def identifier(self) -> str:
        """The name in the catalogue, with its namespace."""
        name = self.table or self.path.name.replace(".", "_")
        return name if "." in name else f"{DEFAULT_NAMESPACE}.{name}"

    @property
    def own_folder(self) -> Path:
        """Where we keep what is not data: a journal, a lock, staged files."""
        return self.path / OWN_FOLDER

    def options(self) -> dict[str, str]:
        """What `format("goqueue_lake").options(**...)` takes to write to it."""
        said = {"tableFormat": self.format, "path": str(self.path)}
        if self.table is not None:
            said["table"] = self.table
        return said | {f"{CATALOG_PREFIX}{name}": value for name, value in self.catalog.items()}

    def __str__(self) -> str:
        return f"the {self.format} table at {self.path}"


def lake_table(
    table_format: str,
    path: str | Path,
    *,
    table: str | None = None,
    catalog: Mapping[str, str] | None = None,
) -> LakeTable:
    """The address of a table, whether there is one yet or not.

    Args:
        table_format: `parquet`, `delta` or `iceberg`.
        path: Its folder.
        table: Iceberg: its name in the catalogue; by default the last part of the path.
        catalog: Iceberg: properties of the catalogue, as pyiceberg calls them (`type`, `uri`, ...);
            by default SQLite, in `catalog.db` beside the table's folder.

    Raises:
        OptionsError: it makes no sense.
    """
    problems = []
    known = FORMATS.get(str(table_format).lower())
    if known is None:
        problems.append(f"tableFormat: expected {' or '.join(FORMATS)}, not {str(table_format)!r}")
    if known != "iceberg" and (table is not None or catalog):
        problems.append("table and catalog.*: only Iceberg tables have a name and a catalogue")
    try:
        folder = local_folder(str(path))
    except ValueError as error:
        problems.append(f"path: {error}")
    if problems or known is None:
        raise OptionsError(problems)
    return LakeTable(known, folder, table, dict(catalog or {}))


def local_folder(text: str) -> Path:
    """The folder that a path or a `file:` address names; `ValueError` if it is elsewhere."""
    if not text.strip():
        raise ValueError("the folder of the table is missing")
    if text.lower().startswith("file:"):
        text = unquote(urlparse(text).path)
    elif _SCHEME.match(text):
        raise ValueError(
            f"expected a folder that the driver and all executors share, not {text!r}: "
            "object stores are not written to"
        )
    return Path(text).absolute()


def found_format(folder: Path) -> str | None:
    """What is in a folder already: one of our formats, `spark`, `other`, or None for nothing."""
    if not folder.is_dir():
        return None
    if (folder / "_delta_log").is_dir():
        return "delta"
    if any((folder / "metadata").glob("*.metadata.json")):
        return "iceberg"
    if (folder / OWN_FOLDER / STATE_FILE).is_file():
        return "parquet"
    if (folder / "_spark_metadata").is_dir():
        return "spark"
    is_empty = all(each.name == OWN_FOLDER for each in folder.iterdir())
    return None if is_empty else "other"


_OTHERS: Final = {
    "spark": "files of Spark's own file sink, which only its _spark_metadata knows to be whole",
    "other": "files that are no table of goqueue_lake",
}


def check_format(table: LakeTable) -> None:
    """Say what is there if it is another table.

    Raises:
        LakeError: something else is.
    """
    found = found_format(table.path)
    if found in {None, table.format}:
        return
    if found in FORMATS:
        raise LakeError(
            f"{table.path} holds a table of the format {found}: write to it with "
            f"tableFormat={found}, or choose another folder"
        )
    raise LakeError(f"{table.path} holds {_OTHERS[found or 'other']}: choose another folder")
