"""Reading a table: the files that count now, handed to Spark's own Parquet reader."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.spark.errors import LakeError
from goqueue.spark.lake.address import INTENT_FILE, LakeTable
from goqueue.spark.lake.committing import open_store, opened
from goqueue.spark.lake.disk import locked
from goqueue.spark.lake.partitions import values_of
from goqueue.spark.lake.stores import Columns, LiveFile, Store, lock_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class TableState:
    """A table, as it is now."""

    schema: StructType
    partition_by: tuple[str, ...]
    file_count: int
    row_count: int
    size_bytes: int


def read_table(spark: SparkSession, table: LakeTable) -> DataFrame:
    """The rows of a table, as it is now: what is committed later is not in the data frame.

    Raises:
        LakeError: there is no such table, or it cannot be read.
    """
    columns, files = _snapshot(table)
    if columns is None:
        raise LakeError(f"there is no {table.format} table at {table.path}")
    if not files:
        return spark.createDataFrame([], columns.schema)
    reader = spark.read.schema(columns.schema)
    if table.format != "iceberg":  # whose files have all columns in them
        _check_folders(table, files)
        reader = reader.option("basePath", f"file://{table.path}")
    frame = reader.parquet(*[f"file://{table.path / each.path}" for each in files])
    return frame.select(*[f"`{name}`" for name in columns.schema.names])


def describe_table(table: LakeTable) -> TableState | None:
    """What a table is and how much is in it; None if there is none yet."""
    columns, files = _snapshot(table)
    if columns is None:
        return None
    return TableState(
        columns.schema,
        columns.partition_by,
        len(files),
        sum(row_count(table, each) for each in files),
        sum(each.size_bytes for each in files),
    )


def last_number(table: LakeTable, app_id: str) -> int | None:
    """The last batch that a query (its id) or a `txnAppId` has committed to a table."""
    if not table.path.is_dir():
        return None
    with reading(table) as store:
        return store.last_number(app_id)


def row_count(table: LakeTable, file: LiveFile) -> int:
    """The rows of a file, from its footer where nothing else tells them."""
    if file.rows >= 0:
        return file.rows
    import pyarrow.parquet as pq  # noqa: PLC0415 - most tables tell

    return int(pq.read_metadata(table.path / file.path).num_rows)


def _check_folders(table: LakeTable, files: Sequence[LiveFile]) -> None:
    """Spark takes partition values from the names of folders: they must be right."""
    for each in files:
        folder, _, _ = each.path.rpartition("/")
        if values_of(folder) != each.partition:
            raise LakeError(
                f"{table} has partition values that the folder of {each.path} does not tell: "
                "read it with the engine that wrote it"
            )


def _snapshot(table: LakeTable) -> tuple[Columns | None, list[LiveFile]]:
    if not table.path.is_dir():
        return None, []
    with reading(table) as store:
        columns = store.columns()
        return columns, store.files() if columns is not None else []


@contextlib.contextmanager
def reading(table: LakeTable) -> Iterator[Store]:
    """The table between two commits of ours; what a dead writer left half done is finished."""
    while True:
        with locked(lock_path(table), shared=True):
            if not (table.own_folder / INTENT_FILE).exists():
                with contextlib.closing(open_store(table)) as store:
                    yield store
                return
        with opened(table):  # nobody holds the lock, so nobody else will finish it
            pass
