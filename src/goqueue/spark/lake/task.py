"""What one attempt of a task does: Arrow batches in, files that nobody sees out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.spark.lake.disk import saying_where
from goqueue.spark.lake.parquet_files import PartitionedWriter
from goqueue.spark.lake.shape import arrow_schema, fitted
from goqueue.spark.lake.staging import DataFile, Staging

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from goqueue.spark.lake.address import LakeTable
    from goqueue.spark.lake.committing import Layout
    from goqueue.spark.writing.task_identity import Attempt


@dataclass(frozen=True, slots=True)
class Plan:
    """What the driver tells every task."""

    table: LakeTable
    schema: StructType
    """The columns of the rows, as the table has them."""
    layout: Layout
    target_bytes: int
    compression: str
    is_overwrite: bool = False


def write_files(batches: Iterable[pa.RecordBatch], plan: Plan, attempt: Attempt) -> list[DataFile]:
    """Write all rows; if that fails, nothing stays behind."""
    schema = arrow_schema(plan.schema)
    writer = PartitionedWriter(
        Staging(plan.table),
        attempt,
        schema,
        partition_by=plan.layout.partition_by,
        keeps_partition_columns=plan.layout.keeps_partition_columns,
        below=plan.layout.data_folder,
        target_bytes=plan.target_bytes,
        compression=plan.compression,
    )
    try:
        for batch in batches:  # its errors are not ours to explain
            if batch.num_rows:
                rows = fitted(batch, schema)
                with saying_where(plan.table.path):
                    writer.add(rows)
        with saying_where(plan.table.path):
            return writer.finish()
    except BaseException:
        writer.discard()
        raise
