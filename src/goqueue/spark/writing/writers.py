"""Writing: tasks put rows into transactions of their own, and the driver commits them together.

Spark runs an attempt of a task wherever it likes, twice at the same time if it likes, and tells the
driver which attempts have won. Nobody sees anything of any attempt before the driver's commit,
which is one decision of the broker and can be repeated.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from goqueue.spark.errors import SparkSourceError
from goqueue.spark.kafka.atomic_commit import abort_atomically, commit_atomically
from goqueue.spark.kafka.sharing import shared_cluster
from goqueue.spark.writing.pacing import paced
from goqueue.spark.writing.task import write_rows
from goqueue.spark.writing.task_identity import Attempt, micro_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from goqueue.spark.kafka.producing import Producer
    from goqueue.spark.options.write_options import WriteOptions

_log = logging.getLogger(__name__)

_DAY_MS: Final = 24 * 3600 * 1000
STREAM_KEEP_MS: Final = 90 * _DAY_MS
"""How long the broker remembers the last batch of a query that is not running."""
BATCH_KEEP_MS: Final = _DAY_MS
"""The same for a write without a name, which is only ever repeated by its own driver."""


@dataclass
class Written(WriterCommitMessage):
    """What an attempt of a task has written, for the driver to commit."""

    series: str
    producer: Producer | None
    """None: no row, or no transaction."""
    rows: int


class GoQueueBatchWriter(DataSourceArrowWriter):
    """For `df.write`: all rows at once, or none."""

    def __init__(self, options: WriteOptions, columns: Mapping[str, int]) -> None:
        self._options = options
        self._columns = columns
        # Made on the driver; Spark sends a copy to the tasks, and keeps one for the commit.
        self._series, self._number = _identity(options)

    def write(  # type: ignore[override]  # Spark's Arrow writers narrow it themselves
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """What one attempt of one task does."""
        attempt = Attempt.current(self._series, self._number)
        return _written(iterator, self._options, self._columns, attempt)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """The winners count from here on."""
        keep_ms = STREAM_KEEP_MS if self._options.application else BATCH_KEEP_MS
        _commit(self._options, messages, self._number, keep_ms)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing counts."""
        _abort(self._options, self._series, self._number, messages)


class GoQueueStreamWriter(DataSourceStreamArrowWriter):
    """For `df.writeStream`: each micro-batch once, whatever happens to tasks and driver."""

    def __init__(self, options: WriteOptions, columns: Mapping[str, int]) -> None:
        self._options = options
        self._columns = columns

    def write(  # type: ignore[override]  # Spark's Arrow writers narrow it themselves
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """What one attempt of one task does."""
        query_id, batch_id = "", 0
        if self._options.is_transactional:
            query_id, batch_id = micro_batch(
                "write with guarantee=at-least-once, or in foreachBatch with txnAppId and "
                "txnVersion",
            )
        attempt = Attempt.current(f"spark-{query_id}", batch_id)
        return _written(iterator, self._options, self._columns, attempt)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """The winners count from here on, unless this batch did before."""
        _commit(self._options, messages, batchId, STREAM_KEEP_MS)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing of this batch counts."""
        for message in messages:
            if isinstance(message, Written):
                _abort(self._options, message.series, batchId, messages)
                return


def _identity(options: WriteOptions) -> tuple[str, int]:
    """What a batch write is known by; an application may write one number to several topics."""
    if options.application is None:
        return f"spark-batch-{uuid.uuid4()}", 0
    name, number = options.application
    target = "" if options.topic is None else f"/{options.topic}"
    return f"spark-{name}{target}", number


def _written(
    iterator: Iterator[pa.RecordBatch],
    options: WriteOptions,
    columns: Mapping[str, int],
    attempt: Attempt,
) -> Written:
    rows_in_time = paced(iterator, options.task_rows_per_s)
    producer, rows = write_rows(rows_in_time, options, columns, attempt)
    return Written(attempt.series, producer, rows)


def _commit(
    options: WriteOptions,
    messages: Sequence[WriterCommitMessage | None],
    number: int,
    keep_ms: int,
) -> None:
    written = [each for each in messages if isinstance(each, Written)]
    if not (options.is_transactional and written):
        return
    series = written[0].series
    is_new = commit_atomically(
        shared_cluster(options.link), series, number, _producers(messages), keep_ms
    )
    if not is_new:
        _log.warning("batch %d of %s was committed before: nothing was written", number, series)


def _abort(
    options: WriteOptions,
    series: str,
    number: int,
    messages: Sequence[WriterCommitMessage | None],
) -> None:
    if not options.is_transactional:
        return
    with contextlib.suppress(SparkSourceError):  # what is not aborted now is by its timeout
        abort_atomically(shared_cluster(options.link), series, number, _producers(messages))


def _producers(messages: Sequence[WriterCommitMessage | None]) -> list[Producer]:
    return [
        each.producer
        for each in messages
        if isinstance(each, Written) and each.producer is not None
    ]
