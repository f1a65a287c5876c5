"""The data source itself: `spark.read.format("goqueue")` and its kin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from goqueue.spark.options import parse_read_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class GoQueueDataSource(DataSource):
    """Topics as tables.

    Spark makes one of these a query, in processes that come and go, and asks it for the rest. What
    is heavy is imported when it is asked for.
    """

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "goqueue"

    def schema(self) -> StructType | str:
        """The columns of a query that names none."""
        from goqueue.spark.shape import default_schema  # noqa: PLC0415 - needs pyarrow

        return default_schema(parse_read_options(self.options, "either"))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        from goqueue.spark.batch_reader import GoQueueBatchReader  # noqa: PLC0415 - as above
        from goqueue.spark.shape import shape_of  # noqa: PLC0415 - as above

        options = parse_read_options(self.options, "batch")
        return GoQueueBatchReader(options, shape_of(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """For `spark.readStream`."""
        from goqueue.spark.shape import shape_of  # noqa: PLC0415 - as above
        from goqueue.spark.stream_reader import GoQueueStreamReader  # noqa: PLC0415 - as above

        options = parse_read_options(self.options, "stream")
        return GoQueueStreamReader(options, shape_of(schema, options))
