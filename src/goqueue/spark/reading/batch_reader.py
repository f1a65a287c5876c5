"""A batch query: ranges planned on the driver, read by tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSourceReader, InputPartition

from goqueue.spark.kafka.sharing import shared_cluster
from goqueue.spark.options.read_options import ReadOptions, default_parallelism
from goqueue.spark.reading.resolving import batch_ranges
from goqueue.spark.reading.splits import LARGE_TASK_OFFSETS, cut, task_count
from goqueue.spark.reading.task import read_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from goqueue.spark.kafka.ranges import OffsetRange
    from goqueue.spark.reading.shape import Shape


class RangesPartition(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: tuple[OffsetRange, ...]) -> None:
        super().__init__(tuple(map(str, ranges)))
        self.ranges: Final = ranges


class GoQueueBatchReader(DataSourceReader):
    """Reads what was there when the query was planned.

    There is no `pushFilters` on purpose: Spark 4.3 keeps the filtered plan with the data frame, so
    that another query on the same data frame silently loses rows. Ranges are narrowed by options.
    """

    def __init__(self, options: ReadOptions, shape: Shape) -> None:
        self._options = options
        self._shape = shape

    def partitions(self) -> Sequence[InputPartition]:
        """Even pieces of all that is to be read."""
        options = self._options
        ranges = batch_ranges(shared_cluster(options.link), options)
        count = task_count(
            sum(each.size for each in ranges),
            cores=default_parallelism(),
            min_partitions=options.min_partitions,
            max_records=options.max_records_per_partition or LARGE_TASK_OFFSETS,
        )
        return [RangesPartition(piece) for piece in cut(ranges, count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one piece, as Arrow. Spark makes a piece up where we had none to give."""
        if not isinstance(partition, RangesPartition):
            return iter(())
        return read_ranges(partition.ranges, self._options, self._shape)
