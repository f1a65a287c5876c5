"""What a task does: fetch its ranges and hand them to Spark as Arrow, a chunk at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.spark.kafka.fetching import RangeFetcher
from goqueue.spark.kafka.sharing import shared_cluster
from goqueue.spark.reading.columns import RowBuilder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from goqueue.spark.kafka.ranges import OffsetRange
    from goqueue.spark.options.read_options import ReadOptions
    from goqueue.spark.reading.shape import Shape


def read_ranges(
    ranges: Sequence[OffsetRange], options: ReadOptions, shape: Shape
) -> Iterator[pa.RecordBatch]:
    """The rows of some ranges. Holds two chunks at a time, whatever the ranges span."""
    builder = RowBuilder(
        shape.schema,
        shape.columns,
        shape.value_parser(options),
        fail_on_data_loss=options.fail_on_data_loss,
    )
    fetcher = RangeFetcher(
        shared_cluster(options.link),
        ranges,
        isolation=options.isolation,
        chunk_bytes=options.chunk_bytes,
        fail_on_data_loss=options.fail_on_data_loss,
    )
    for chunk in fetcher.chunks():
        yield from builder.batches(chunk)
