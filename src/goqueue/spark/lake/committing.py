"""What the driver does: make a table ready, commit a batch once, clean up after tasks."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.spark.lake.address import check_format
from goqueue.spark.lake.disk import locked, saying_where
from goqueue.spark.lake.shape import check_partitions, merged_schema
from goqueue.spark.lake.staging import STAGED_FOLDER, Staging
from goqueue.spark.lake.stores import Change, Columns, Store, lock_path, open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql.types import StructType

    from goqueue.spark.lake.address import LakeTable
    from goqueue.spark.lake.staging import DataFile


@dataclass(frozen=True, slots=True)
class Batch:
    """What a driver commits."""

    schema: StructType
    files: Sequence[DataFile]
    series: str | None = None
    """Who numbers the batches; None: this one cannot come again."""
    number: int = 0
    is_overwrite: bool = False


@contextlib.contextmanager
def opened(table: LakeTable) -> Iterator[Store]:
    """The table, for someone who changes it: nobody else does so at the same time."""
    with saying_where(table.path):
        check_format(table)  # before a folder of ours is made in what is not ours
        table.own_folder.mkdir(parents=True, exist_ok=True)
        (table.own_folder / STAGED_FOLDER).mkdir(exist_ok=True)
        with locked(lock_path(table)), contextlib.closing(open_store(table)) as store:
            store.recover()
            yield store


def prepare(
    table: LakeTable, schema: StructType, partition_by: Sequence[str] | None
) -> tuple[str, ...]:
    """Make sure that rows can be written, before any task writes one.

    Returns:
        The columns that the table is partitioned by.

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
        return columns.partition_by


def commit(table: LakeTable, batch: Batch) -> bool:
    """Make the files of a batch a part of the table, unless it has been committed before.

    Returns:
        Whether the batch is new.
    """
    with opened(table) as store:
        is_new = _is_new(store, batch)
        if is_new:
            _apply(table, store, batch)
        if batch.series is not None:
            staging = Staging(table)
            # Files of attempts that lost, of drivers that died, of this batch if it came again.
            left = staging.of_series(batch.series, batch.number)
            staging.sweep(left, lambda: live_paths(store))
        return is_new


def discard(table: LakeTable, files: Sequence[DataFile]) -> None:
    """Delete what tasks have written, except for what counts after all."""
    if not files:
        return
    with opened(table) as store:
        staging = Staging(table)
        staging.sweep(staging.of_names({each.name for each in files}), lambda: live_paths(store))


def live_paths(store: Store) -> set[str]:
    """The paths of a table's files."""
    return {each.path for each in store.files()}


def _is_new(store: Store, batch: Batch) -> bool:
    if batch.series is None:
        return True
    last = store.last_number(batch.series)
    return last is None or last < batch.number


def _apply(table: LakeTable, store: Store, batch: Batch) -> None:
    columns = store.columns()
    if columns is None:  # someone has deleted it under our feet
        columns = Columns(batch.schema, tuple(batch.files[0].partition if batch.files else ()))
        store.create(columns)
    if not batch.files and not batch.is_overwrite:
        return
    store.apply(
        Change(
            schema=merged_schema(columns.schema, batch.schema),
            adds=batch.files,
            removes=store.files() if batch.is_overwrite else (),
            series=batch.series,
            number=batch.number,
        )
    )
    Staging(table).settle(list(batch.files))
