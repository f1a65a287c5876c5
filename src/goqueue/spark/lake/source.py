"""The data source: `format("goqueue_lake")`, for `df.write` and `df.writeStream`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter

from goqueue.spark.errors import SparkSourceError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from goqueue.spark.lake.options import LakeOptions
    from goqueue.spark.lake.task import Plan


class LakeDataSource(DataSource):
    """Tables on disk.

    Spark makes one of these a query, in processes that come and go, and asks it for the rest. It
    imports this module whenever any source is looked up, so what is heavy waits until it is needed.
    """

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "goqueue_lake"

    def schema(self) -> StructType | str:
        """Reading is not done here: Spark's own Parquet reader is several times as fast."""
        raise SparkSourceError(
            "goqueue_lake only writes: read with "
            "goqueue.spark.lake.read_table(spark, lake_table(FORMAT, PATH))"
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's own
        """For `df.write`."""
        from goqueue.spark.lake.options import parse_lake_options  # noqa: PLC0415 - as said above
        from goqueue.spark.lake.writers import LakeBatchWriter  # noqa: PLC0415 - as said above

        options = parse_lake_options(self.options, "batch")
        plan = _plan(options, schema, is_overwrite=overwrite)
        return LakeBatchWriter(plan, options.application)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802, FBT001 - Spark's own
        """For `df.writeStream`; in complete mode each batch takes the place of the one before."""
        from goqueue.spark.lake.options import parse_lake_options  # noqa: PLC0415 - as above
        from goqueue.spark.lake.writers import LakeStreamWriter  # noqa: PLC0415 - as above

        options = parse_lake_options(self.options, "stream")
        return LakeStreamWriter(_plan(options, schema, is_overwrite=overwrite))


def _plan(options: LakeOptions, schema: StructType, *, is_overwrite: bool) -> Plan:
    from goqueue.spark.lake.committing import prepare  # noqa: PLC0415 - as above
    from goqueue.spark.lake.shape import table_schema  # noqa: PLC0415 - as above
    from goqueue.spark.lake.task import Plan  # noqa: PLC0415 - as above

    table = options.table
    fitted = table_schema(schema, options.partition_by or (), table.format)
    layout = prepare(table, fitted, options.partition_by)
    table_schema(schema, layout.partition_by, table.format)  # it may be partitioned unasked
    return Plan(
        table=table,
        schema=fitted,
        layout=layout,
        target_bytes=options.target_bytes,
        compression=options.compression,
        is_overwrite=is_overwrite,
    )
