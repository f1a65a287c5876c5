"""Tables on disk that Spark writes exactly once: Parquet, Delta and Iceberg, without a jar.

Tasks write Parquet files that nobody sees, and the driver makes those of the winners a part of the
table, all at once. What is here, for pipelines, jobs and users:

    LakeDataSource                      `format("goqueue_lake")`, for `write` and `writeStream`

    lake_table(table_format, path, *, table=None, catalog=None) -> LakeTable
    read_table(spark, table) -> DataFrame
    describe_table(table) -> TableState | None
    last_number(table, app_id) -> int | None
    merge_small_files(table, target_bytes=128 MiB, progress=None) -> MergeReport
    vacuum(table, older_than_s=86400.0) -> VacuumReport

Importing this package costs nothing; what needs pyspark, pyarrow, deltalake or pyiceberg is
imported when it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.spark.lazy_names import lazy_names

if TYPE_CHECKING:
    from goqueue.spark.errors import LakeError
    from goqueue.spark.lake.address import LakeTable, lake_table
    from goqueue.spark.lake.maintenance import (
        MergeReport,
        VacuumReport,
        merge_small_files,
        vacuum,
    )
    from goqueue.spark.lake.reading import TableState, describe_table, last_number, read_table
    from goqueue.spark.lake.source import LakeDataSource

_HOMES = {
    "LakeDataSource": ".source",
    "LakeTable": ".address",
    "MergeReport": ".maintenance",
    "TableState": ".reading",
    "VacuumReport": ".maintenance",
    "describe_table": ".reading",
    "lake_table": ".address",
    "last_number": ".reading",
    "merge_small_files": ".maintenance",
    "read_table": ".reading",
    "vacuum": ".maintenance",
    "LakeError": "goqueue.spark.errors",
}

__all__ = [
    "LakeDataSource",
    "LakeError",
    "LakeTable",
    "MergeReport",
    "TableState",
    "VacuumReport",
    "describe_table",
    "lake_table",
    "last_number",
    "merge_small_files",
    "read_table",
    "vacuum",
]

__getattr__ = lazy_names(__name__, _HOMES)
