"""A streaming query: Spark's questions in, the planner's answers out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from goqueue.spark.reading.batch_reader import RangesPartition
from goqueue.spark.reading.stream_offset import StreamOffset
from goqueue.spark.reading.stream_planner import StreamPlanner
from goqueue.spark.reading.task import read_ranges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from goqueue.spark.options.read_options import ReadOptions
    from goqueue.spark.reading.shape import Shape


class GoQueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives on the driver as long as its query; a copy of it reads in each task."""

    def __init__(self, options: ReadOptions, shape: Shape) -> None:
        self._options = options
        self._shape = shape
        self._made: StreamPlanner | None = None

    @property
    def _planner(self) -> StreamPlanner:
        if self._made is None:
            self._made = StreamPlanner(self._options)
        return self._made

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new query starts; a restarted one goes on from its checkpoint."""
        return self._planner.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """What the options say; of two limits Spark takes one, and `latestOffset` knows both."""
        limits = self._options.limits
        if limits.max_offsets is not None:
            return ReadMaxRows(limits.max_offsets)
        if limits.max_bytes is not None:
            return ReadMaxBytes(limits.max_bytes)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The end of the next micro-batch; waits a while when there is nothing new."""
        is_limited = not isinstance(limit, ReadAllAvailable)
        end = self._planner.latest(
            StreamOffset.from_json(start),
            max_offsets=limit.max_rows if isinstance(limit, ReadMaxRows) else None,
            max_bytes=self._options.limits.max_bytes if is_limited else None,
        )
        return end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """The end of the log as it was last seen, for `lastProgress`."""
        seen = self._planner.seen
        return None if seen is None else seen.to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Read what is there now, and then end."""
        self._planner.freeze()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a micro-batch."""
        pieces = self._planner.tasks(StreamOffset.from_json(start), StreamOffset.from_json(end))
        return [RangesPartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task, as Arrow."""
        assert isinstance(partition, RangesPartition)
        return read_ranges(partition.ranges, self._options, self._shape)

    def stop(self) -> None:
        """Hang up."""
        if self._made is not None:
            self._made.cluster.close()
