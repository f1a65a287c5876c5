"""Which task writes, and for which batch of which query: what makes a repetition known as one."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from pyspark.taskcontext import TaskContext

from goqueue.spark.errors import SparkSourceError

QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
"""What Spark calls these in a task's local properties. No documented API says so: tests do."""


def task_context() -> TaskContext:
    """The task that this process runs.

    Raises:
        SparkSourceError: it runs none.
    """
    context = TaskContext.get()
    if context is None:
        raise SparkSourceError("rows are written by Spark's tasks only")
    return context


class Attempt(NamedTuple):
    """One attempt of one task, and the batch that it writes a part of."""

    series: str
    """The query, or the name of a batch write."""
    number: int
    """The batch in that series."""
    task: int
    attempt: int

    @classmethod
    def current(cls, series: str, number: int) -> Self:
        """The attempt that this process runs.

        Raises:
            SparkSourceError: it runs no task.
        """
        context = task_context()
        return cls(series, number, context.partitionId(), context.taskAttemptId())


def micro_batch(otherwise: str) -> tuple[str, int]:
    """The query that this task works for, and the number of its batch.

    Raises:
        SparkSourceError: Spark does not say; `otherwise` says what to do then.
    """
    context = task_context()
    query_id = context.getLocalProperty(QUERY_ID)
    batch_id = context.getLocalProperty(BATCH_ID)
    if query_id is None or batch_id is None:
        raise SparkSourceError(
            "this Spark does not tell its tasks which query and batch they belong to "
            f"({QUERY_ID}, {BATCH_ID}): {otherwise}"
        )
    return query_id, int(batch_id)
