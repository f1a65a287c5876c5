"""A folder of Parquet files, changed through a journal.

Files cannot appear in a folder all at once, so a commit is first written down, in one file that
says everything: which staged files move where, which files go, what the table knows afterwards.
From then on it counts. Whoever opens the table next and finds it half done does the rest; every
step may be done again. Files that go do so before others come: nobody ever sees a row twice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructType

from goqueue.spark.errors import LakeError
from goqueue.spark.lake.address import INTENT_FILE, STATE_FILE, LakeTable
from goqueue.spark.lake.disk import Disk
from goqueue.spark.lake.partitions import values_of
from goqueue.spark.lake.staging import Staging
from goqueue.spark.lake.stores import Change, Columns, LiveFile, Store

if TYPE_CHECKING:
    from pathlib import Path


SERIES_KEPT: Final = 10_000
"""Queries whose last batch a table remembers; beyond that, those that wrote longest ago go."""
_LAYOUT: Final = 1


@dataclass(frozen=True, slots=True)
class State:
    """What a table knows of itself."""

    version: int
    """How many commits there were. Moves by one with each."""
    columns: Columns
    series: dict[str, int] = field(default_factory=dict)
    """The last batch of each query that counts, the latest writer last."""

    def after(self, change: Change) -> State:
        """Once a change is done."""
        series = dict(self.series)
        if change.series is not None:
            series.pop(change.series, None)
            series[change.series] = change.number
        kept = list(series.items())[-SERIES_KEPT:]
        columns = Columns(change.schema, self.columns.partition_by)
        return State(self.version + 1, columns, dict(kept))

    def to_json(self) -> dict[str, Any]:
        """As it is stored."""
        return {
            "layout": _LAYOUT,
            "version": self.version,
            "schema": self.columns.schema.jsonValue(),
            "partition_by": list(self.columns.partition_by),
            "series": self.series,
        }

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> State:
        """As it was stored."""
        if said["layout"] > _LAYOUT:
            raise LakeError("the table was written by a newer GoQueue: update this one")
        columns = Columns(StructType.fromJson(said["schema"]), tuple(said["partition_by"]))
        return cls(said["version"], columns, dict(said["series"]))


class ParquetStore(Store):
    """A table that is a folder."""

    data_folder = ""
    keeps_partition_columns = False

    def __init__(self, table: LakeTable, disk: Disk | None = None) -> None:
        self._table: Final = table
        self._disk: Final = disk or Disk()
        self.staging: Staging = Staging(table, disk)
        self._state_path: Final = table.own_folder / STATE_FILE
        self._intent_path: Final = table.own_folder / INTENT_FILE

    def columns(self) -> Columns | None:
        state = self._state()
        return None if state is None else state.columns

    def create(self, columns: Columns) -> None:
        self._table.own_folder.mkdir(parents=True, exist_ok=True)
        self._save(State(0, columns))

    def last_number(self, series: str) -> int | None:
        state = self._state()
        return None if state is None else state.series.get(series)

    def files(self) -> list[LiveFile]:
        """Sizes are the file system's; rows are not counted here."""
        return [
            LiveFile(path, (self._table.path / path).stat().st_size, -1, _values(path))
            for path in sorted(self._paths())
        ]

    def apply(self, change: Change) -> None:
        state = self._state()
        if state is None:
            raise LakeError(f"{self._table} is gone")
        intent = {
            "state": state.after(change).to_json(),
            "adds": [{"name": each.name, "path": each.path} for each in change.adds],
            "removes": [each.path for each in change.removes],
        }
        # This line decides: once the intent is on disk, the change counts.
        self._disk.replace(self._intent_path, json.dumps(intent).encode())
        self._carry_out(intent)

    def recover(self) -> None:
        said = self._disk.read(self._intent_path)
        if said is None:
            return
        intent = json.loads(said)
        state = self._state()
        if state is None or state.version < intent["state"]["version"]:
            self._carry_out(intent)
        else:
            self._disk.remove(self._intent_path)

    def _carry_out(self, intent: dict[str, Any]) -> None:
        """Every step is harmless when it was done before."""
        root = self._table.path
        touched: set[Path] = set()
        for path in intent["removes"]:
            self._disk.remove(root / path)
            touched.add((root / path).parent)
        for each in intent["adds"]:
            staged, place = self.staging.entry(each["name"]), root / each["path"]
            if staged.exists():
                self._disk.move(staged, place)
            elif not place.exists():
                raise LakeError(
                    f"{place} belongs to a commit, and is missing: restore it, or delete "
                    f"{self._intent_path} to give up the rest of that commit"
                )
            touched |= {place.parent, *_above(place.parent, root)}
        for folder in sorted(touched):
            if folder.is_dir():
                self._disk.sync_folder(folder)
        self._save(State.from_json(intent["state"]))
        self._disk.remove(self._intent_path)

    def _state(self) -> State | None:
        said = self._disk.read(self._state_path)
        return None if said is None else State.from_json(json.loads(said))

    def _save(self, state: State) -> None:
        self._disk.replace(self._state_path, json.dumps(state.to_json()).encode())

    def _paths(self) -> list[str]:
        root = self._table.path
        found = (each.relative_to(root) for each in root.rglob("*.parquet"))
        return [str(each) for each in found if not any(map(_is_hidden, each.parts))]


def _values(path: str) -> dict[str, str | None]:
    folder, _, _ = path.rpartition("/")
    return values_of(folder)


def _is_hidden(name: str) -> bool:
    """By Spark's rule; columns may begin with an underscore."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _above(folder: Path, root: Path) -> list[Path]:
    """The folders between a folder and the table's, which may be as new."""
    return [each for each in folder.parents if each.is_relative_to(root)]
