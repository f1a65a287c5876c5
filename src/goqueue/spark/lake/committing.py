"""What the driver does: make a table ready, commit a batch once, clean up after tasks."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.spark.errors import LakeError
from goqueue.spark.lake.address import LakeTable, check_format
from goqueue.spark.lake.disk import locked, saying_where
from goqueue.spark.lake.shape import check_partitions, merged_schema
from goqueue.spark.lake.staging import STAGED_FOLDER, DataFile
from goqueue.spark.lake.stores import Change, Columns, Store, lock_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Batch:
    """What a driver commits."""

    schema: StructType
    files: Sequence[DataFile]
    series: str | None = None
    """What the files are named by; None: no task had anything to do."""
    number: int = 0
    is_numbered: bool = True
    """The same number of a series may be repeated, and must not count then."""
    is_overwrite: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table wants its files."""

    partition_by: tuple[str, ...]
    data_folder: str
    keeps_partition_columns: bool


def open_store(table: LakeTable) -> Store:
    """The table at an address.

    Raises:
        LakeError: another one is there, or a library is missing.
    """
    check_format(table)
    if table.format == "delta":
        from goqueue.spark.lake.delta_store import DeltaStore  # noqa: PLC0415 - heavy

        return DeltaStore(table)
    if table.format == "iceberg":
        from goqueue.spark.lake.iceberg_store import IcebergStore  # noqa: PLC0415 - heavy

        return IcebergStore(table)
    from goqueue.spark.lake.parquet_store import ParquetStore  # noqa: PLC0415 - as its siblings

    return ParquetStore(table)


@contextlib.contextmanager
def opened(table: LakeTable) -> Iterator[Store]:
    """The table, for someone who changes it: nobody else does so at the same time."""
    with saying_where(table.path):
        check_format(table)  # before a folder of ours is made in what is not ours
        (table.own_folder / STAGED_FOLDER).mkdir(parents=True, exist_ok=True)
        with locked(lock_path(table)), contextlib.closing(open_store(table)) as store:
            store.recover()
            yield store


def prepare(table: LakeTable, schema: StructType, partition_by: Sequence[str] | None) -> Layout:
    """Make sure that rows can be written, before any task writes one; the table is made if need be.

    Raises:
        LakeError: the folder is not ours to write to, or another table is there.
        ColumnsError: the rows do not fit.
    """
    with opened(table) as store:
        columns = store.columns()
        if columns is None:
            columns = Columns(schema, tuple(partition_by or ()))
            store.create(columns)
        check_partitions(columns.partition_by, partition_by)
        merged_schema(columns.schema, schema)
        return Layout(columns.partition_by, store.data_folder, store.keeps_partition_columns)


def commit(table: LakeTable, batch: Batch) -> bool:
    """Make the files of a batch a part of the table, unless it has been committed before.

    Returns:
        Whether the batch is new.
    """
    with opened(table) as store:
        return commit_to(store, batch)


def commit_to(store: Store, batch: Batch) -> bool:
    """The same, by someone who holds the table."""
    is_new = _is_new(store, batch)
    if is_new:
        _apply(store, batch)
    if batch.series is not None:
        # Files of attempts that lost, of drivers that died, of this batch if it came again.
        left = store.staging.of_series(batch.series, batch.number)
        store.staging.sweep(left, lambda: live_paths(store))
    return is_new


def discard(table: LakeTable, files: Sequence[DataFile]) -> None:
    """Delete what tasks have written, except for what counts after all."""
    if not files:
        return
    with opened(table) as store:
        these = store.staging.of_names({each.name for each in files})
        store.staging.sweep(these, lambda: live_paths(store))


def live_paths(store: Store) -> set[str]:
    """The paths of a table's files."""
    return {each.path for each in store.files()}


def _is_new(store: Store, batch: Batch) -> bool:
    if batch.series is None or not batch.is_numbered:
        return True
    last = store.last_number(batch.series)
    return last is None or last < batch.number


def _apply(store: Store, batch: Batch) -> None:
    columns = store.columns()
    if columns is None:
        raise LakeError("the table was deleted while it was written to: nothing is committed")
    if not batch.files and not batch.is_overwrite:
        return
    store.staging.sync(batch.files)
    store.apply(
        Change(
            schema=merged_schema(columns.schema, batch.schema),
            adds=batch.files,
            removes=store.files() if batch.is_overwrite else (),
            series=batch.series if batch.is_numbered else None,
            number=batch.number,
        )
    )
    store.staging.settle(batch.files)
