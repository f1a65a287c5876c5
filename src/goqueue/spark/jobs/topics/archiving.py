"""A topic to a table, a day a folder; what has come since is added when the job is run again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import (
    Observation,
    functions as F,  # noqa: N812 - as everyone writes it
)

from goqueue.spark.errors import OptionsError
from goqueue.spark.jobs.ledger import Ledger, Piece, open_ledger
from goqueue.spark.jobs.link import Link, ranges_of
from goqueue.spark.jobs.messages import Filters, TopicMessages
from goqueue.spark.jobs.moments import DAY_MS, Moment, as_ms
from goqueue.spark.jobs.piecework import (
    DEFAULT_PIECE_ROWS,
    Pace,
    Work,
    Written,
    do_pieces,
    message_bytes,
    partition_rows,
    refuse,
)
from goqueue.spark.jobs.reading import load_topic
from goqueue.spark.jobs.report import JobReport, Progress, Table, silent
from goqueue.spark.lake import LakeTable, describe_table, lake_table, merge_small_files
from goqueue.spark.lake.options import DEFAULT_TARGET_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, SparkSession


COLUMNS: Final = "key value topic partition offset timestamp timestampType headers"
DATE_COLUMN: Final = "date"


def archive(
    spark: SparkSession,
    servers: str,
    topic: str,
    table: str | Path | LakeTable,
    *,
    table_format: str = "parquet",
    until: Moment | None = None,
    merge: bool = True,
    target_file_bytes: int = DEFAULT_TARGET_BYTES,
    fail_on_data_loss: bool = True,
    checkpoint: str | Path | None = None,
    piece_rows: int = DEFAULT_PIECE_ROWS,
    options: Mapping[str, str] | None = None,
    progress: Progress = silent,
) -> JobReport:
    """Add what a topic has, and the table has not yet, to a table that has a folder a day.

    All that a message has becomes a column: key, value, topic, partition, offset, timestamp,
    timestampType and headers; `date` is the day of its timestamp in UTC. A message is in the table
    once, whenever the job is killed and however often it is run. Several topics may share a table.

    Args:
        spark: The session.
        servers: The broker's Kafka address.
        topic: The topic to read.
        table: The table's folder, or a table as `goqueue.spark.lake.lake_table` describes it.
        table_format: `parquet`, `delta` or `iceberg`, where `table` is a folder.
        until: Only messages before this time; the next run continues there.
        merge: Merge small files at the end.
        target_file_bytes: The target size of merged files.
        fail_on_data_loss: Whether messages that were deleted before they were archived are an
            error, or a warning.
        checkpoint: The folder for the progress; `TABLE.checkpoint/TOPIC` by default.
        piece_rows: How many rows are committed at once.
        options: Options of the connection.
        progress: Called with the progress of the job.

    Raises:
        OptionsError: arguments are invalid; it lists all problems.
        TopicMissingError: there is no such topic.
        DataLossError: messages were deleted before they were archived.
        LakeError: the table cannot be written.
    """
    link = Link(servers, options or {})
    to = lake_table(table_format, table) if isinstance(table, str | Path) else table
    refuse([] if piece_rows > 0 else [f"piece_rows: expected 1 and up, not {piece_rows}"])
    topic_id = link.topic_id(topic)
    folder = Path(checkpoint or f"{to.path}.checkpoint/{topic}")
    identity = {
        "job": "archive", "topic": topic, "topic_id": topic_id,
        "table": str(to.path), "format": str(to.format),
    }  # fmt: skip
    messages = TopicMessages(spark, link, topic, Filters(end_ms=as_ms(until)))
    with open_ledger(folder, identity) as ledger:
        before = describe_table(to)
        if before is None and ledger.entries.rows:
            text = (
                f"checkpoint: {ledger.entries.rows} messages were archived to {to.path}, and there "
                f"is no table any more: to archive them again, remove {folder}"
            )
            raise OptionsError([text])
        outcome = do_pieces(
            Work(
                spark=spark,
                ledger=ledger,
                there=messages.there,
                write=_Writer(spark, link, topic, to, fails_on_loss=fail_on_data_loss),
                progress=progress,
                stage=f"archiving {topic}",
                pace=Pace(piece_rows, fail_on_data_loss),
            )
        )
        added = describe_table(to)
        files_before = before.file_count if before else 0
        files_added = added.file_count if added else 0
        if merge and added is not None:
            merge_small_files(
                to, target_file_bytes, lambda *done_of: progress("merging files", *done_of)
            )
        after = describe_table(to)
        return JobReport(
            "archive",
            {
                "topic": topic, "table": str(to.path), "format": str(to.format),
                **outcome.summary(),
                "files_before": files_before,
                "files_written": max(0, files_added - files_before),
                "files_after": after.file_count if after else 0,
                "table_rows": after.row_count if after else 0,
                "table_bytes": after.size_bytes if after else 0,
                "lag": _lag(link, topic, ledger),
            },
            [Table("partitions", partition_rows(ledger, outcome))],
            warnings=outcome.warnings,
        )  # fmt: skip


class _Writer:
    """Adds pieces to the table, each under its number."""

    def __init__(
        self,
        spark: SparkSession,
        link: Link,
        topic: str,
        table: LakeTable,
        *,
        fails_on_loss: bool,
    ) -> None:
        self._spark = spark
        self._link = link
        self._topic = topic
        self._table = table
        self._fails_on_loss = fails_on_loss

    def __call__(self, piece: Piece, app: str) -> Written:
        frame = load_topic(
            self._spark,
            self._link,
            self._topic,
            COLUMNS,
            piece.ranges,
            failOnDataLoss=str(self._fails_on_loss).lower(),
        )
        seen = Observation()
        (
            frame.observe(
                seen,
                F.count(F.lit(1)).alias("rows"),
                F.sum(message_bytes()).alias("size_bytes"),
            )
            .select("*", _day().alias(DATE_COLUMN))
            .write.format("goqueue_lake")
            .options(
                **self._table.options(),
                partitionBy=DATE_COLUMN,
                txnAppId=app,
                txnVersion=str(piece.number),
            )
            .mode("append")
            .save()
        )
        found = seen.get
        return Written(found["rows"], found["size_bytes"] or 0)


def _day() -> Column:
    """The day of a message in UTC, whatever the session's time zone is."""
    return F.date_from_unix_date(F.floor(F.unix_millis("timestamp") / DAY_MS).cast("int"))


def _lag(link: Link, topic: str, ledger: Ledger) -> int:
    """How many offsets are there now that are not in the table."""
    with link.cluster() as cluster:
        return ledger.left(ranges_of(cluster, topic))
