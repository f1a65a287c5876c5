"""How far Spark is with a query, told while somebody waits for it."""

from __future__ import annotations

import threading
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from goqueue.spark.jobs.report import Progress

_LOOK_S: Final = 0.2


@contextmanager
def watched(spark: SparkSession, stage: str, progress: Progress) -> Iterator[None]:
    """Tell how many of Spark's tasks are done, until the block ends.

    Over Spark Connect nothing is known of tasks; then only the beginning and the end are told.
    """
    progress(stage, 0)
    context = _context(spark)
    if context is None:
        yield
        progress(stage, 1, 1)
        return
    name = f"goqueue-{uuid.uuid4()}"
    context.setJobGroup(name, f"goqueue: {stage}")
    is_over = threading.Event()
    watcher = threading.Thread(
        target=_watch, args=(context.statusTracker(), name, stage, progress, is_over), daemon=True
    )
    watcher.start()
    try:
        yield
    finally:
        is_over.set()
        watcher.join()
        context.setLocalProperty("spark.jobGroup.id", None)
        context.setLocalProperty("spark.job.description", None)
    progress(stage, 1, 1)


def _context(spark: SparkSession) -> Any | None:
    try:
        return spark.sparkContext
    except Exception:  # noqa: BLE001 - Spark Connect refuses in ways that differ by version
        return None


def _watch(
    tracker: Any, name: str, stage: str, progress: Progress, is_over: threading.Event
) -> None:
    told = (0, 0)
    while not is_over.wait(_LOOK_S):
        done = total = 0
        for job in tracker.getJobIdsForGroup(name):
            info = tracker.getJobInfo(job)
            for stage_id in info.stageIds if info else ():
                found = tracker.getStageInfo(stage_id)
                done += found.numCompletedTasks if found else 0
                total += found.numTasks if found else 0
        if total and (done, total) != told and not is_over.is_set():
            told = (done, total)
            progress(stage, done, total)
