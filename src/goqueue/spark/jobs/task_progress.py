"""How far Spark is with the queries of a job, told while somebody waits for them.

Spark's status tracker counts tasks; which share of a query's tasks is done stands for the share of
its rows. Spark Connect has no such tracker: there, a query only begins and ends.
"""

from __future__ import annotations

import threading
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark import SparkContext, StatusTracker
    from pyspark.sql import SparkSession

    from goqueue.spark.jobs.report import Progress

_EVERY_S: Final = 0.25


@contextmanager
def watched(spark: SparkSession, stage: str, progress: Progress) -> Iterator[None]:
    """Tell `progress` how many of Spark's tasks are done, until the block ends."""
    progress(stage, 0)
    with _tasks(spark, stage, lambda done, total: progress(stage, done, total)):
        yield
    progress(stage, 1, 1)


@contextmanager
def rows_done(
    spark: SparkSession,
    progress: Progress,
    stage: str,
    total: int,
    *,
    before: int = 0,
    here: int | None = None,
) -> Iterator[None]:
    """Tell `progress` how far the queries inside of the block are.

    Args:
        spark: The session.
        progress: Called with the progress.
        stage: What it is called.
        total: How many rows the stage has in all.
        before: How many of them were done before the block.
        here: How many the block does; the rest of the stage by default.
    """
    part = total - before if here is None else here
    furthest = 0.0

    def tell(done: int, tasks: int) -> None:
        nonlocal furthest
        furthest = max(furthest, done / tasks)  # a query may turn out to have more of them
        progress(stage, before + round(part * furthest), total)

    progress(stage, before, total)
    with _tasks(spark, stage, tell):
        yield
    progress(stage, before + part, total)


@contextmanager
def _tasks(spark: SparkSession, stage: str, tell: Callable[[int, int], None]) -> Iterator[None]:
    """Tell how many tasks are done, and how many there are; nothing over Spark Connect."""
    context = _context(spark)
    if context is None:
        yield
        return
    group = f"goqueue-{uuid.uuid4()}"
    context.setJobGroup(group, f"goqueue: {stage}")
    over = threading.Event()
    thread = threading.Thread(
        target=_watch,
        args=(context.statusTracker(), group, over, tell),
        name="goqueue-progress",
        daemon=True,
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(name, None)  # type: ignore[arg-type]  # None unsets it


def _context(spark: SparkSession) -> SparkContext | None:
    """The driver's context; None over Spark Connect, which has none to give."""
    with suppress(Exception):  # which error it is has changed from version to version
        return spark.sparkContext
    return None


def _watch(
    tracker: StatusTracker, group: str, over: threading.Event, tell: Callable[[int, int], None]
) -> None:
    told = (0, 0)
    while not over.wait(_EVERY_S):
        with suppress(Exception):  # what is shown must never stop what is done
            found = _count(tracker, group)
            if found[1] and found != told and not over.is_set():
                told = found
                tell(*found)


def _count(tracker: StatusTracker, group: str) -> tuple[int, int]:
    """How many of the tasks that are known of are done, and how many there are."""
    tasks = completed = 0
    for number in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(number)
        for stage_id in job.stageIds if job else ():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                tasks += stage.numTasks
                completed += stage.numCompletedTasks
    return completed, tasks
