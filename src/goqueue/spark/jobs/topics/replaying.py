"""A time range of a topic, back to a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.spark.jobs.ledger import open_ledger
from goqueue.spark.jobs.link import Link
from goqueue.spark.jobs.messages import TopicMessages, sql_problems
from goqueue.spark.jobs.piecework import DEFAULT_PIECE_ROWS, Pace, partition_rows, refuse
from goqueue.spark.jobs.report import JobReport, Progress, Table, silent
from goqueue.spark.jobs.topics.copying import (
    MessageSelection,
    Target,
    check_target,
    copy_messages,
    ensure_target,
    settle,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from goqueue.spark.jobs.moments import Moment


def replay(
    spark: SparkSession,
    servers: str,
    topic: str,
    target: str,
    *,
    start: Moment | None = None,
    end: Moment | None = None,
    keys: Sequence[bytes] = (),
    where: str | None = None,
    keep_partition: bool = False,
    partitions: int | None = None,
    partitioner: str = "mmh3",
    rate: float | None = None,
    fail_on_data_loss: bool = True,
    checkpoint: str | Path | None = None,
    piece_rows: int = DEFAULT_PIECE_ROWS,
    options: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> JobReport:
    """Write the messages of a time range again, in order by key, each once.

    Keys, values, headers and times are kept. What is replayed is settled when the job begins: it
    may go to the same topic.

    Args:
        spark: The session.
        servers: The broker's Kafka address.
        topic: The topic to read.
        target: The topic to write; created with the settings of the source if it does not exist.
        start: Only messages of this time or later; a `timedelta` counts back from the first run.
        end: Only messages before this time.
        keys: Only messages with one of these keys.
        where: Only messages that match this SQL condition.
        keep_partition: Write to the original partition, instead of by key.
        partitions: The partitions of a new target; by default as many as the topic has.
        partitioner: The partitioner for keys: `mmh3` or `murmur2`.
        rate: The rate limit in rows per second.
        fail_on_data_loss: Whether messages that were deleted before they were copied are an
            error, or a warning.
        checkpoint: A folder for the progress, from which a killed job resumes.
        piece_rows: How many rows are committed at once.
        options: Options of the connection.
        progress: Called with the progress of the job.

    Raises:
        OptionsError: arguments are invalid; it lists all problems.
        TopicMissingError: there is no such topic.
        DataLossError: messages were deleted before they were copied.
    """
    link = Link(servers, options or {})
    wanted = MessageSelection(start, end, tuple(keys), where)
    to = Target(target, keep_partition, partitioner, rate)
    refuse(
        check_target(to, piece_rows, partitions)
        + sql_problems(spark, "where", where, is_condition=True)
    )
    topic_id = link.topic_id(topic)
    identity = {
        "job": "replay", "topic": topic, "topic_id": topic_id, "target": target,
        "keep_partition": keep_partition, "partitioner": partitioner, **wanted.identity(),
    }  # fmt: skip
    with open_ledger(checkpoint, identity) as ledger:
        messages = TopicMessages(spark, link, topic, wanted.filters(ledger), fail_on_data_loss)
        settled = settle(ledger, messages)
        is_new = ensure_target(link, ledger, to, partitions, like=topic)
        outcome = copy_messages(
            spark, link, messages, to,
            ledger=ledger, settled=settled, progress=progress,
            pace=Pace(piece_rows, fails_on_loss=fail_on_data_loss),
        )  # fmt: skip
        return JobReport(
            "replay",
            {"topic": topic, "target": target, "target_made": is_new, **outcome.summary()},
            [Table("partitions", partition_rows(ledger, outcome))],
            warnings=outcome.warnings,
        )
