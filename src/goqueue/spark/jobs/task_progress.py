"""How far the rows of a job are while a batch query works on some of them.

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

_EVERY_S: Final = 0.3


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
        progress: Whom to tell.
        stage: What it is called.
        total: How many rows the stage has in all.
        before: How many of them were done before the block.
        here: How many the block does; the rest of the stage by default.
    """
    part = total - before if here is None else here
    progress(stage, before, total)
    context = _context(spark)
    if context is None:
        yield
    else:
        with _watched(
            context, stage, lambda share: progress(stage, before + round(part * share), total)
        ):
            yield
    progress(stage, before + part, total)


@contextmanager
def _watched(context: SparkContext, stage: str, tell: Callable[[float], None]) -> Iterator[None]:
    group = f"goqueue-{uuid.uuid4()}"
    context.setJobGroup(group, stage)
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
    tracker: StatusTracker, group: str, over: threading.Event, tell: Callable[[float], None]
) -> None:
    furthest = 0.0
    while not over.wait(_EVERY_S):
        with suppress(Exception):  # what is shown must never stop what is done
            furthest = max(furthest, _share(tracker, group))
            tell(furthest)


def _share(tracker: StatusTracker, group: str) -> float:
    """Which share of the tasks that are known of is done."""
    tasks = completed = 0
    for number in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(number)
        for stage_id in job.stageIds if job else ():
            stage = tracker.getStageInfo(stage_id)
            if stage is not None:
                tasks += stage.numTasks
                completed += stage.numCompletedTasks
    return completed / tasks if tasks else 0.0
