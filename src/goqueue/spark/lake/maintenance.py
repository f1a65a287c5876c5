"""Maintenance of a table: small files become large ones, and what nobody will commit is deleted."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from goqueue.spark.errors import LakeError
from goqueue.spark.lake.committing import discard, live_paths, opened
from goqueue.spark.lake.disk import saying_where
from goqueue.spark.lake.merging import plan_groups, rows_of
from goqueue.spark.lake.options import DEFAULT_TARGET_BYTES
from goqueue.spark.lake.parquet_files import PartitionedWriter
from goqueue.spark.lake.reading import reading, row_count
from goqueue.spark.lake.shape import arrow_schema, without
from goqueue.spark.lake.staging import DataFile, Staging
from goqueue.spark.lake.stores import Change, Columns, LiveFile
from goqueue.spark.writing.task_identity import Attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goqueue.spark.lake.address import LakeTable

DAY_S: Final = 86400.0


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What merging did to a table."""

    files_before: int = 0
    files_after: int = 0
    merged_files: int = 0
    """Small ones that are gone."""
    written_files: int = 0
    """Large ones that took their place."""
    rows: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


@dataclass(frozen=True, slots=True)
class VacuumReport:
    """What was deleted."""

    files: int
    size_bytes: int


def merge_small_files(
    table: LakeTable,
    target_bytes: int = DEFAULT_TARGET_BYTES,
    progress: Callable[[int, int], None] | None = None,
) -> MergeReport:
    """Make few large files of many small ones, while others read and write.

    Each large file is a commit of its own, of which all is seen or nothing. It may be stopped at
    any moment, and be called again.

    Args:
        table: The table.
        target_bytes: About how large files should be.
        progress: Told the bytes that are done, and all there are to do.

    Raises:
        LakeError: there is no table, or it cannot be changed.
    """
    tell = progress or (lambda _done, _all: None)
    columns, files = _small_first(table)
    groups = plan_groups(files, target_bytes)
    todo = sum(each.size_bytes for group in groups for each in group)
    done, merged, written, rows = 0, 0, 0, 0
    bytes_read, bytes_written = 0, 0
    tell(0, todo)
    for group in groups:
        made = _merge(table, columns, group, target_bytes)
        group_bytes = sum(each.size_bytes for each in group)
        done += group_bytes
        if made is not None:
            merged += len(group)
            written += len(made)
            rows += sum(each.rows for each in made)
            bytes_read += group_bytes
            bytes_written += sum(each.size_bytes for each in made)
        tell(done, todo)
    return MergeReport(
        len(files), len(files) - merged + written, merged, written, rows, bytes_read, bytes_written
    )


def vacuum(table: LakeTable, older_than_s: float = DAY_S) -> VacuumReport:
    """Delete what tasks have written, and no driver has committed for so long.

    Files that a table's own log has let go (after merging, after overwriting) are not looked at:
    Delta and Iceberg keep them for those who read older versions.
    """
    with opened(table) as store:
        old = store.staging.older_than(older_than_s)
        swept = store.staging.sweep(old, lambda: live_paths(store))
    return VacuumReport(swept.files, swept.size_bytes)


def _small_first(table: LakeTable) -> tuple[Columns, list[LiveFile]]:
    """The table's columns, and its files by age: that is how rows of a topic have come."""
    if not table.path.is_dir():
        raise LakeError(f"there is no {table.format} table at {table.path}")
    with reading(table) as store:
        columns = store.columns()
        if columns is None:
            raise LakeError(f"there is no {table.format} table at {table.path}")
        places = [(table.path / each.path, each) for each in store.files()]
        aged = [(place.stat().st_mtime_ns, each.path, each) for place, each in places]
    return columns, [each for _, _, each in sorted(aged, key=lambda it: it[:2])]


def _merge(
    table: LakeTable, columns: Columns, group: Sequence[LiveFile], target_bytes: int
) -> list[DataFile] | None:
    """The files that took the place of these; None if someone else was faster."""
    with saying_where(table.path):
        try:
            made = _rewrite(table, columns, group, target_bytes)
        except FileNotFoundError:
            if all((table.path / each.path).exists() for each in group):
                raise
            return None  # overwritten in the meantime
    is_done = False
    try:
        _check_rows(table, group, made)
        is_done = _swap(table, group, made)
    finally:
        if not is_done:
            discard(table, made)
    return made if is_done else None


def _rewrite(
    table: LakeTable, columns: Columns, group: Sequence[LiveFile], target_bytes: int
) -> list[DataFile]:
    is_iceberg = table.format == "iceberg"
    schema = columns.schema if is_iceberg else without(columns.schema, columns.partition_by)
    fields = arrow_schema(schema)
    writer = PartitionedWriter(
        Staging(table),
        Attempt(f"merge-{uuid.uuid4()}", 0, 0, 0),
        fields,
        values=group[0].partition,
        below="data" if is_iceberg else "",
        target_bytes=2 * target_bytes,
        compression="zstd",
    )
    try:
        for batch in rows_of([table.path / each.path for each in group], fields):
            writer.add(batch)
        return writer.finish()
    except BaseException:
        writer.discard()
        raise


def _check_rows(table: LakeTable, group: Sequence[LiveFile], made: Sequence[DataFile]) -> None:
    wanted = sum(row_count(table, each) for each in group)
    found = sum(each.rows for each in made)
    if found != wanted:
        raise LakeError(
            f"{table}: {wanted} rows were to be merged, {found} are; nothing is changed"
        )


def _swap(table: LakeTable, group: Sequence[LiveFile], made: Sequence[DataFile]) -> bool:
    with opened(table) as store:
        live = {each.path: each for each in store.files()}
        columns = store.columns()
        if columns is None or not all(each.path in live for each in group):
            return False
        removes = [live[each.path] for each in group]
        store.staging.sync(made)
        store.apply(Change(columns.schema, made, removes, is_rearranged=True))
        store.staging.settle(made)
    return True
