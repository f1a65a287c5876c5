"""Writing to a table: tasks write files that nobody sees, the driver commits those of the winners.

Spark runs an attempt of a task wherever it likes, twice at the same time if it likes, and tells the
driver which attempts have won. The driver's commit can be repeated: a batch counts once.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from goqueue.spark.errors import SparkSourceError
from goqueue.spark.lake.committing import Batch, commit, discard
from goqueue.spark.lake.task import Plan, write_files
from goqueue.spark.writing.task_identity import Attempt, micro_batch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from goqueue.spark.lake.staging import DataFile

_log = logging.getLogger(__name__)


@dataclass
class Written(WriterCommitMessage):
    """What an attempt of a task has written, for the driver to commit."""

    series: str
    files: list[DataFile] = field(default_factory=list)


class LakeBatchWriter(DataSourceArrowWriter):
    """For `df.write`: all rows at once, or none."""

    def __init__(self, plan: Plan, application: tuple[str, int] | None) -> None:
        self._plan = plan
        self._is_named = application is not None
        # Made on the driver; Spark sends a copy to the tasks, and keeps one for the commit.
        self._series, self._number = application or (f"batch-{uuid.uuid4()}", 0)

    def write(  # type: ignore[override]  # Spark's Arrow writers narrow it themselves
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """What one attempt of one task does."""
        attempt = Attempt.current(self._series, self._number)
        return Written(self._series, write_files(iterator, self._plan, attempt))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """The winners count from here on."""
        batch = Batch(
            self._plan.schema,
            _files(messages),
            self._series,
            self._number,
            is_numbered=self._is_named,
            is_overwrite=self._plan.is_overwrite,
        )
        _commit(self._plan, batch)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing counts."""
        _abort(self._plan, messages)


class LakeStreamWriter(DataSourceStreamArrowWriter):
    """For `df.writeStream`: each micro-batch once, whatever happens to tasks and driver."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def write(  # type: ignore[override]  # Spark's Arrow writers narrow it themselves
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        """What one attempt of one task does."""
        identity = micro_batch("write in foreachBatch, with txnAppId and txnVersion")
        attempt = Attempt.current(*identity)
        return Written(attempt.series, write_files(iterator, self._plan, attempt))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """The winners count from here on, unless this batch did before."""
        series = next((each.series for each in messages if isinstance(each, Written)), None)
        batch = Batch(
            self._plan.schema,
            _files(messages),
            series,
            batchId,
            is_overwrite=self._plan.is_overwrite,
        )
        _commit(self._plan, batch)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's own
        """Nothing of this batch counts."""
        _abort(self._plan, messages)


def _commit(plan: Plan, batch: Batch) -> None:
    if not commit(plan.table, batch):
        _log.warning(
            "batch %d of %s was committed before: nothing was written", batch.number, batch.series
        )


def _abort(plan: Plan, messages: Sequence[WriterCommitMessage | None]) -> None:
    with contextlib.suppress(SparkSourceError):  # what is not deleted now is by `vacuum`
        discard(plan.table, _files(messages))


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[DataFile]:
    return [file for each in messages if isinstance(each, Written) for file in each.files]
