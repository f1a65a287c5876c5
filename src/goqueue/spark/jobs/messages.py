"""Messages to be written somewhere in the order that they had: from a topic, or from a table.

Order is kept by partition: one task has all rows of a partition that are in a piece, in the order
of their offsets. Since a key is in one partition, the rows of a key stay in order whatever
partition they are written to.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Final, Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import (
    DataFrame,
    functions as F,  # noqa: N812 - as everyone writes it
)

from goqueue.spark.jobs.link import Link, TopicRange, ranges_of
from goqueue.spark.jobs.reading import load_topic, schema_of
from goqueue.spark.options.read_options import default_parallelism

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, SparkSession


COLUMNS: Final = "key value partition offset timestamp headers"
"""All that a message has; its priority is one of its headers."""
_MAX_TASKS: Final = 16
"""Each task of an ordered read from a topic is planned on its own, which takes a moment."""
_MAX_UNEVENNESS: Final = 1.25
"""How much larger than the mean the largest share of a rate may be."""
_ALL_IN_ONE_TASK: Final = str(2**31 - 1)


@dataclass(frozen=True, slots=True)
class Filters:
    """Which messages of those that are there."""

    start_ms: int | None = None
    end_ms: int | None = None
    keys: tuple[bytes, ...] = ()
    where: str | None = None
    """A condition in SQL over the columns of a message."""

    def condition(self) -> Column | None:
        """All of them as one; None for everything."""
        found = []
        if self.start_ms is not None:
            found.append(F.col("timestamp") >= F.timestamp_millis(F.lit(self.start_ms)))
        if self.end_ms is not None:
            found.append(F.col("timestamp") < F.timestamp_millis(F.lit(self.end_ms)))
        if self.keys:
            found.append(F.col("key").isin(*(F.lit(bytearray(key)) for key in self.keys)))
        if self.where is not None:
            found.append(F.expr(self.where))
        return reduce(lambda one, other: one & other, found) if found else None

    def apply(self, frame: DataFrame) -> DataFrame:
        """The rows that are wanted."""
        condition = self.condition()
        return frame if condition is None else frame.where(condition)


def sql_problems(
    spark: SparkSession, name: str, text: str | None, *, is_condition: bool = False
) -> list[str]:
    """What Spark says of an expression over the columns of a message, if anything."""
    if text is None:
        return []
    try:
        # Beside a column: what is reckoned from several messages cannot be said of one.
        frame = spark.createDataFrame([], schema_of(COLUMNS)).select(
            "offset", F.expr(text).alias("found")
        )
        if is_condition:
            frame = frame.where("found")
        _ = frame.schema
    except AnalysisException as error:
        return [f"{name}: {str(error).strip().splitlines()[0]}"]
    return []


class Messages(Protocol):
    """Where messages come from."""

    def there(self) -> Sequence[TopicRange]:
        """What there is now."""

    def still_there(self, settled: Sequence[TopicRange]) -> Sequence[TopicRange]:
        """What there is now of what there was."""

    def ordered(
        self, ranges: Sequence[TopicRange], *, evenly: bool = False
    ) -> tuple[DataFrame, int]:
        """The messages of some ranges, a partition in one task and in order; how many tasks.

        Evenly, for a rate that all tasks share: none has far more than the others.
        """


@dataclass(frozen=True, slots=True)
class TopicMessages:
    """Messages of a topic."""

    spark: SparkSession
    link: Link
    topic: str
    filters: Filters = field(default_factory=Filters)
    fails_on_loss: bool = True
    """Whether it is an error that something to be read is gone."""

    def there(self) -> list[TopicRange]:
        """Up to the last that is committed, or of the time range."""
        with self.link.cluster() as cluster:
            return ranges_of(
                cluster, self.topic, start_ms=self.filters.start_ms, end_ms=self.filters.end_ms
            )

    def still_there(self, settled: Sequence[TopicRange]) -> list[TopicRange]:
        """Without what was deleted meanwhile."""
        with self.link.cluster() as cluster:
            firsts = {each.partition: each.start for each in ranges_of(cluster, self.topic)}
        return [
            replace(each, start=min(max(each.start, firsts.get(each.partition, 0)), each.end))
            for each in settled
        ]

    def ordered(
        self, ranges: Sequence[TopicRange], *, evenly: bool = False
    ) -> tuple[DataFrame, int]:
        """Without a shuffle: each task is told its partitions, and reads them one by one."""
        share = share_evenly if evenly else share_out
        groups = share(ranges, min(cores(self.spark), _MAX_TASKS))
        frames = [
            load_topic(
                self.spark,
                self.link,
                self.topic,
                COLUMNS,
                group,
                minPartitions="1",
                maxRecordsPerPartition=_ALL_IN_ONE_TASK,
                failOnDataLoss=str(self.fails_on_loss).lower(),
            )
            for group in groups
        ]
        return self.filters.apply(reduce(DataFrame.unionAll, frames)), len(groups)


@dataclass(frozen=True, slots=True)
class TableMessages:
    """Messages of a table that has their columns, such as an archive."""

    spark: SparkSession
    load: Callable[[], DataFrame]
    filters: Filters = field(default_factory=Filters)

    def there(self) -> list[TopicRange]:
        """By partition, the offsets of the messages that are wanted."""
        found = (
            self.filters.apply(self.load())
            .groupBy("partition")
            .agg(F.min("offset").alias("first"), F.max("offset").alias("last"))
            .collect()
        )
        return sorted(
            (TopicRange(row["partition"], row["first"], row["last"] + 1) for row in found),
            key=lambda each: each.partition,
        )

    def still_there(self, settled: Sequence[TopicRange]) -> Sequence[TopicRange]:
        """All of it: nothing is deleted from a table."""
        return settled

    def ordered(
        self, ranges: Sequence[TopicRange], *, evenly: bool = False
    ) -> tuple[DataFrame, int]:
        """A shuffle brings each partition together, and a sort puts it into order."""
        wanted = reduce(
            lambda one, other: one | other,
            (
                (F.col("partition") == each.partition)
                & (F.col("offset") >= each.start)
                & (F.col("offset") < each.end)
                for each in ranges
            ),
        )
        # Which partitions a shuffle puts together is a matter of luck.
        tasks = 1 if evenly else min(cores(self.spark), len(ranges))
        frame = self.filters.apply(self.load().where(wanted)).select(*COLUMNS.split())
        return frame.repartition(tasks, "partition").sortWithinPartitions(
            "partition", "offset"
        ), tasks


def share_out(ranges: Sequence[TopicRange], groups: int) -> list[list[TopicRange]]:
    """Ranges in groups of about the same size; the largest are given out first."""
    found: list[list[TopicRange]] = [[] for _ in range(min(groups, len(ranges)))]
    for each in sorted(ranges, key=lambda each: (-each.size, each.partition)):
        # Empty ranges make no group larger: the length sees to it that no group stays without one.
        least = min(found, key=lambda group: (sum(one.size for one in group), len(group)))
        least.append(each)
    return [sorted(group, key=lambda each: each.partition) for group in found]


def share_evenly(ranges: Sequence[TopicRange], groups: int) -> list[list[TopicRange]]:
    """The same in as many groups as there can be without one that is much larger than the mean.

    Each has the same share of a rate: one with most of the messages would take for ever, and what
    it has written would be given up by the broker before it is done.
    """
    for count in range(min(groups, len(ranges)), 1, -1):
        found = share_out(ranges, count)
        sizes = [sum(each.size for each in group) for group in found]
        if max(sizes) * count <= _MAX_UNEVENNESS * sum(sizes):
            return found
    return share_out(ranges, 1)


def cores(spark: SparkSession) -> int:
    """How many tasks run at the same time; over Spark Connect, a guess by this machine."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # noqa: BLE001 - which error it is has changed from version to version
        return default_parallelism()
