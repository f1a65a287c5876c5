"""The data source itself: `spark.read.format("goqueue")` and its kin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from goqueue.spark.errors import SparkSourceError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class GoQueueDataSource(DataSource):
    """Topics as tables.

    Spark makes one of these a query, in processes that come and go, and asks it for the rest. It
    imports this module whenever any source is looked up, so what is heavy waits until it is needed.
    """

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "goqueue"

    def schema(self) -> StructType | str:
        """The columns of a query that names none."""
        from goqueue.spark.options.read_options import parse_read_options  # noqa: PLC0415 - as said above
        from goqueue.spark.reading.shape import default_schema  # noqa: PLC0415 - as said above

        return default_schema(parse_read_options(self.options, "either"))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        from goqueue.spark.options.read_options import parse_read_options  # noqa: PLC0415 - as above
        from goqueue.spark.reading.batch_reader import GoQueueBatchReader  # noqa: PLC0415 - as above
        from goqueue.spark.reading.shape import shape_of  # noqa: PLC0415 - as above

        options = parse_read_options(self.options, "batch")
        return GoQueueBatchReader(options, shape_of(schema, options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """For `spark.readStream`."""
        from goqueue.spark.options.read_options import parse_read_options  # noqa: PLC0415 - as above
        from goqueue.spark.reading.shape import shape_of  # noqa: PLC0415 - as above
        from goqueue.spark.reading.stream_reader import GoQueueStreamReader  # noqa: PLC0415 - as above

        options = parse_read_options(self.options, "stream")
        return GoQueueStreamReader(options, shape_of(schema, options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's own
        """For `df.write`."""
        from goqueue.spark.options.write_options import parse_write_options  # noqa: PLC0415 - as above
        from goqueue.spark.writing.shape import write_columns  # noqa: PLC0415 - as above
        from goqueue.spark.writing.writers import GoQueueBatchWriter  # noqa: PLC0415 - as above

        if overwrite:
            raise SparkSourceError(
                "a topic is a log and cannot be overwritten: write with mode('append')"
            )
        options = parse_write_options(self.options, "batch")
        return GoQueueBatchWriter(options, write_columns(schema, options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802, FBT001 - Spark's own
        """For `df.writeStream`."""
        from goqueue.spark.options.write_options import parse_write_options  # noqa: PLC0415 - as above
        from goqueue.spark.writing.shape import write_columns  # noqa: PLC0415 - as above
        from goqueue.spark.writing.writers import GoQueueStreamWriter  # noqa: PLC0415 - as above

        if overwrite:
            raise SparkSourceError(
                "a topic is a log and cannot be overwritten: use the output mode append or update, "
                "not complete"
            )
        options = parse_write_options(self.options, "stream")
        return GoQueueStreamWriter(options, write_columns(schema, options))
