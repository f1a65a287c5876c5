"""Tables for tests, written as tasks and drivers do, and read by readers that nobody here wrote."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import LongType, StructField, StructType

from goqueue.spark.lake.committing import Batch, Layout, commit, prepare
from goqueue.spark.lake.shape import arrow_schema, table_schema
from goqueue.spark.lake.task import Plan, write_files
from goqueue.spark.writing.task_identity import Attempt

if TYPE_CHECKING:
    from goqueue.spark.lake.address import LakeTable
    from goqueue.spark.lake.staging import DataFile

NUMBERS = StructType([StructField("id", LongType())])


def staged(
    table: LakeTable,
    rows: list[dict[str, Any]],
    *,
    columns: StructType = NUMBERS,
    partition_by: tuple[str, ...] | None = None,
    series: str = "query",
    number: int = 0,
    task: int = 0,
    target_bytes: int = 1 << 20,
    layout: Layout | None = None,
) -> tuple[StructType, list[DataFile]]:
    """What one attempt of a task writes, in batches of a few rows."""
    schema = table_schema(columns, partition_by or (), table.format)
    plan = Plan(table, schema, layout or prepare(table, schema, partition_by), target_bytes, "zstd")
    fields = arrow_schema(schema)
    batches = [
        pa.RecordBatch.from_pylist(rows[at : at + 7], fields) for at in range(0, len(rows), 7)
    ]
    return schema, write_files(batches, plan, Attempt(series, number, task, 0))


def append(
    table: LakeTable, rows: list[dict[str, Any]], *, is_overwrite: bool = False, **said: Any
) -> bool:
    """Write and commit one batch; whether it was new."""
    schema, files = staged(table, rows, **said)
    batch = Batch(
        schema,
        files,
        said.get("series", "query"),
        said.get("number", 0),
        is_overwrite=is_overwrite,
    )
    return commit(table, batch)


def ids(numbers: Any) -> list[dict[str, int]]:
    """Rows with these numbers."""
    return [{"id": each} for each in numbers]


def visible_files(folder: Path) -> list[Path]:
    """What a reader of a plain folder finds: everything but what is hidden."""
    found = []
    for at, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if each[0] not in "._"]
        found += [Path(at) / each for each in names if each.endswith(".parquet") and each[0] != "."]
    return found


def visible_ids(folder: Path) -> Counter[int]:
    """The numbers that such a reader sees."""
    found: Counter[int] = Counter()
    for path in visible_files(folder):
        with pq.ParquetFile(path) as file:
            found.update(file.read(["id"])["id"].to_pylist())
    return found


def rows_by_others(table: LakeTable) -> list[dict[str, Any]]:
    """All rows, as the libraries of the formats read them."""
    if table.format == "delta":
        import deltalake  # noqa: PLC0415 - heavy

        return deltalake.DeltaTable(str(table.path)).to_pyarrow_table().to_pylist()
    if table.format == "iceberg":
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - heavy

        uri = f"sqlite:///{table.path.parent}/catalog.db"
        with closing(load_catalog("goqueue", type="sql", uri=uri)) as catalog:
            return catalog.load_table(table.identifier).scan().to_arrow().to_pylist()
    files = visible_files(table.path)
    return [row for path in files for row in pq.read_table(path, partitioning=None).to_pylist()]


def ids_by_others(table: LakeTable) -> Counter[int]:
    """The numbers in a table, as others count them."""
    return Counter(each["id"] for each in rows_by_others(table))


def leftovers(table: LakeTable) -> list[str]:
    """What is staged."""
    return sorted(each.name for each in (table.own_folder / "staged").iterdir())
