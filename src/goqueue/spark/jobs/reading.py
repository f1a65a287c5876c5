"""What a job reads: offsets that are settled once, so that every pass over a topic sees the same.

A job that looks at a topic twice, or that counts first and reads later, must not be confused by
what is published meanwhile. So ranges are looked up at the start, and every query names them.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from goqueue.model.topic_partition import TopicPartition
from goqueue.spark.errors import OptionsError, TopicMissingError
from goqueue.spark.jobs.link import Link, TopicRange, assigned, offsets_between
from goqueue.spark.kafka.ranges import OffsetRange
from goqueue.spark.options.read_options import parse_read_options
from goqueue.spark.reading.columns import SPARK_TYPES
from goqueue.spark.reading.shape import default_schema, shape_of
from goqueue.spark.reading.task import read_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


STRETCHES: Final = 8
"""A sample of a partition is so many pieces of it, evenly far apart."""

Ranges: TypeAlias = "Mapping[TopicPartition, tuple[int, int]]"
"""By topic and partition: the first offset, and the one behind the last."""


class Sampled(NamedTuple):
    """The pieces that are read, and what they are of."""

    pieces: Sequence[Ranges]
    offsets: int
    """In all that was asked for."""
    sampled: int
    """In the pieces."""

    @property
    def is_whole(self) -> bool:
        """Nothing is left out."""
        return self.sampled == self.offsets

    def warnings(self) -> list[str]:
        """What whoever reads the figures must know."""
        if self.is_whole:
            return []
        share = self.sampled / self.offsets
        said = f"a sample: {self.sampled} of {self.offsets} offsets were read ({share:.2%})"
        said += f", in up to {STRETCHES} stretches of each partition"
        return [f"{said}: counts are those of the sample, and shares are estimates"]


def resolve(
    link: Link,
    topics: Iterable[str],
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> dict[TopicPartition, tuple[int, int]]:
    """What there is of some topics between two moments; empty partitions are left out.

    Raises:
        TopicMissingError: there is no such topic; names all that are missing.
        SparkSourceError: the broker is unavailable, or refuses.
    """
    wanted = sorted(set(topics))
    with link.cluster() as cluster:
        found = cluster.topics(wanted)
        missing = [name for name in wanted if name not in found]
        if missing:
            raise TopicMissingError(f"there is no topic {', '.join(map(repr, missing))}")
        places = [
            TopicPartition(name, number) for name in wanted for number in found[name].partitions
        ]
        between = offsets_between(cluster, places, since_ms, until_ms)
    return {place: (first, end) for place, (first, end) in between.items() if first < end}


def size(ranges: Ranges) -> int:
    """How many offsets there are in all."""
    return sum(end - first for first, end in ranges.values())


def sample_of(ranges: Ranges, share: float | None, stretches: int = STRETCHES) -> Sampled:
    """Some pieces of each partition that make up a share of it; all of it for None or 1.

    Pieces are contiguous, since that is what a log reads well, and evenly spread, so that a change
    in the course of time is seen. Small partitions are taken whole.

    Raises:
        OptionsError: no share.
    """
    check_share(share)
    total = size(ranges)
    if share is None or share == 1:
        return Sampled([ranges] if ranges else [], total, total)
    pieces: list[dict[TopicPartition, tuple[int, int]]] = [{} for _ in range(stretches)]
    for place, (first, end) in ranges.items():
        for at, piece in enumerate(_stretches(first, end, share, stretches)):
            pieces[at][place] = piece
    kept = [each for each in pieces if each]
    return Sampled(kept, total, sum(map(size, kept)))


def check_share(share: float | None) -> None:
    """Refuse what is no share.

    Raises:
        OptionsError: it is neither None nor above 0 and up to 1.
    """
    if share is not None and not 0 < share <= 1:
        raise OptionsError([f"sample is {share}: expected a share, above 0 and up to 1"])


def _stretches(first: int, end: int, share: float, count: int) -> Iterator[tuple[int, int]]:
    length = end - first
    wanted = max(round(length * share), min(length, count))
    count = min(count, wanted)
    left_out = length - wanted
    for number in range(count):
        skipped = first + left_out * number // count
        yield skipped + wanted * number // count, skipped + wanted * (number + 1) // count


def load(
    spark: SparkSession,
    link: Link,
    pieces: Sequence[Ranges],
    columns: str,
    **options: str,
) -> DataFrame:
    """The messages of some ranges, with these columns of the data source."""
    schema = schema_of(columns)
    frames = [
        spark.read.format("goqueue")
        .options(**link.as_options(), **options, **assigned(ranges))
        .schema(schema)
        .load()
        for ranges in pieces
        if ranges
    ]
    return reduce(DataFrame.unionAll, frames) if frames else spark.createDataFrame([], schema)


def load_topic(
    spark: SparkSession,
    link: Link,
    topic: str,
    columns: str,
    ranges: Sequence[TopicRange],
    **options: str,
) -> DataFrame:
    """The messages of some ranges of one topic."""
    places = {TopicPartition(topic, each.partition): (each.start, each.end) for each in ranges}
    return load(spark, link, [places], columns, **options)


def read_here(
    link: Link, topic: str, columns: str, from_offset: int = 0
) -> Iterator[dict[str, Any]]:
    """The messages of a small topic, read by this process: Spark would take longer to begin.

    Raises:
        SparkSourceError: there is no such topic, or the broker is unavailable or refuses.
    """
    given = {**link.as_options(), "subscribe": topic, "columns": columns.replace(" ", ",")}
    options = parse_read_options({name.lower(): value for name, value in given.items()}, "batch")
    schema = default_schema(options)
    assert not isinstance(schema, str)
    with link.cluster() as cluster:
        topic_id = cluster.topics([topic])[topic].topic_id
    ranges = [
        OffsetRange(topic, topic_id, number, max(first, from_offset), end)
        for (_, number), (first, end) in sorted(resolve(link, [topic]).items())
        if from_offset < end
    ]
    for batch in read_ranges(ranges, options, shape_of(schema, options)):
        yield from batch.to_pylist()


def schema_of(columns: str) -> str:
    """The DDL of some columns of a message."""
    return ", ".join(f"{name} {SPARK_TYPES[name]}" for name in columns.split())
