"""A Delta table: files count once the log names them, and the log keeps queries' batches, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa

from goqueue.spark import clock
from goqueue.spark.errors import LakeError
from goqueue.spark.lake.partitions import value_text
from goqueue.spark.lake.shape import arrow_schema, from_arrow
from goqueue.spark.lake.staging import Staging
from goqueue.spark.lake.stores import Change, Columns, LiveFile, Store, check_there

try:
    import deltalake
    from deltalake.exceptions import DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction
except ImportError as error:
    raise LakeError(
        "Delta tables need the package deltalake: pip install 'goqueue[lake]', for the Python of "
        "the driver"
    ) from error

if TYPE_CHECKING:
    from goqueue.spark.lake.address import LakeTable

_READER_FEATURES: Final = frozenset({"timestampNtz"})
"""What a table may ask of those who read its files one by one, as we do."""
_OF_COLUMNS: Final = frozenset(
    {"delta.generationExpression", "delta.identity.start", "delta.invariants"}
)
"""What a column may ask of those who write its values."""


class DeltaStore(Store):
    """A table with a log in `_delta_log`."""

    data_folder = ""
    keeps_partition_columns = False

    def __init__(self, table: LakeTable) -> None:
        self._table: Final = table
        self.staging: Staging = Staging(table)

    def columns(self) -> Columns | None:
        table = self._load()
        if table is None:
            return None
        exported: Any = table.schema().to_arrow()
        schema = pa.schema(exported)
        return Columns(from_arrow(schema, "delta"), tuple(table.metadata().partition_columns))

    def create(self, columns: Columns) -> None:
        deltalake.DeltaTable.create(
            str(self._table.path),
            deltalake.Schema.from_arrow(arrow_schema(columns.schema)),
            mode="ignore",
            partition_by=list(columns.partition_by),
        )

    def last_number(self, series: str) -> int | None:
        table = self._load()
        return None if table is None else table.transaction_version(series)

    def files(self) -> list[LiveFile]:
        table = self._load()
        return [] if table is None else self._live(table)

    def _live(self, table: deltalake.DeltaTable) -> list[LiveFile]:
        self._check_features(table)
        found: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=False)).to_pylist()
        return [
            LiveFile(
                unquote(each["path"]),
                each["size_bytes"],
                -1 if each["num_records"] is None else each["num_records"],
                {name: value_text(it) for name, it in (each.get("partition") or {}).items()},
            )
            for each in found
        ]

    def apply(self, change: Change) -> None:
        table = self._load()
        if table is None:
            raise LakeError(f"{self._table} is gone")
        self._check_writable(table, change)
        if change.removes:
            check_there(self._table, change, self._live(table))
        try:
            self._widen(table, change)
            table.create_write_transaction(
                [*self._removals(change), *self._additions(change)],
                mode="append",
                schema=deltalake.Schema.from_arrow(arrow_schema(change.schema)),
                partition_by=list(table.metadata().partition_columns),
                commit_properties=_properties(change),
            )
        except DeltaError as error:
            raise LakeError(f"{self._table} refuses the commit: {error}") from error

    def _widen(self, table: deltalake.DeltaTable, change: Change) -> None:
        """New columns come in a commit of their own: without rows, they harm nobody."""
        wanted = deltalake.Schema.from_arrow(arrow_schema(change.schema))
        known = {each.name for each in table.schema().fields}
        new = [each for each in wanted.fields if each.name not in known]
        if new:
            table.alter.add_columns(new)

    def _additions(self, change: Change) -> list[AddAction]:
        return [
            AddAction(
                each.path,
                each.size_bytes,
                each.partition,
                (self._table.path / each.path).stat().st_mtime_ns // 1_000_000,
                not change.is_rearranged,
                each.stats,
            )
            for each in change.adds
        ]

    def _removals(self, change: Change) -> list[RemoveAction]:
        now_ms = clock.now_ms()
        return [
            RemoveAction(
                each.path, not change.is_rearranged, now_ms, each.size_bytes, each.partition
            )
            for each in change.removes
        ]

    def _load(self) -> deltalake.DeltaTable | None:
        try:
            return deltalake.DeltaTable(str(self._table.path))
        except TableNotFoundError:
            return None
        except DeltaError as error:
            raise LakeError(f"{self._table} cannot be opened: {error}") from error

    def _check_writable(self, table: deltalake.DeltaTable, change: Change) -> None:
        """Refuse tables whose files are not simply their rows, or whose rows are checked."""
        said = table.metadata().configuration
        found = {name for name in said if name.startswith("delta.constraints.")}
        found |= {
            name for each in table.schema().fields for name in each.metadata if name in _OF_COLUMNS
        }
        if _maps_columns(table):
            found.add("columnMapping")
        removes_rows = bool(change.removes) and not change.is_rearranged
        if removes_rows and said.get("delta.appendOnly", "false") == "true":
            found.add("delta.appendOnly")
        if found:
            raise LakeError(
                f"{self._table} has {', '.join(sorted(found))}, which goqueue_lake does not "
                "support: nothing is committed"
            )

    def _check_features(self, table: deltalake.DeltaTable) -> None:
        unknown = set(table.protocol().reader_features or ()) - _READER_FEATURES
        if _maps_columns(table):
            unknown.add("columnMapping")
        if unknown:
            raise LakeError(
                f"{self._table} uses {', '.join(sorted(unknown))}, which goqueue_lake does not know"
            )


def _maps_columns(table: deltalake.DeltaTable) -> bool:
    return table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"


def _properties(change: Change) -> CommitProperties:
    if change.series is None:
        return CommitProperties()
    return CommitProperties(app_transactions=[Transaction(change.series, change.number)])
