"""Runs a pipeline: its queries are started together, watched, and stopped together."""

from __future__ import annotations

import logging
import os
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from goqueue.spark import clock
from goqueue.spark.errors import SparkSourceError
from goqueue.spark.monitoring.failures import SPARK_ERRORS, may_work_again, reason_of, said_once
from goqueue.spark.monitoring.progress import QueryProgress, RunProgress, RunReport
from goqueue.spark.monitoring.query_progress import Watched
from goqueue.spark.monitoring.reporting import Reporter
from goqueue.spark.pipelines.execution.building import build_tables
from goqueue.spark.pipelines.execution.only_run import only_run
from goqueue.spark.pipelines.execution.sessions import DEFAULT_MASTER, active, session_for
from goqueue.spark.pipelines.execution.sinks import Output, outputs_of, start, write_once
from goqueue.spark.pipelines.execution.topics import link_of, prepare_topics
from goqueue.spark.pipelines.model import Pipeline, PipelineError, Problem
from goqueue.spark.pipelines.naming import group_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from goqueue.model.pipeline_reports import State

_log = logging.getLogger(__name__)

_LOOK_S: Final = 0.25
"""Between two looks at the queries."""
_SETTLE_S: Final = 30.0
_MAX_RESTARTS: Final = 12
"""Of one query in one run, and only after failures that have nothing to do with it."""
_LAST_BATCH_S: Final = 15.0
"""How long a query that is to stop may go on with its micro-batch; then it is cut off. What it has
written is not visible then, and is written by the next run."""


def run_pipeline(
    pipeline: Pipeline,
    *,
    progress: Callable[[RunProgress], None] | None = None,
    stop: threading.Event | None = None,
    available_now: bool = False,
    timeout_s: float | None = None,
    spark: SparkSession | None = None,
) -> RunReport:
    """Run a pipeline until it is done, fails, or is told to stop.

    Every sink is a streaming query called `PIPELINE-SINK` with a checkpoint of its own, from which
    the next run goes on. When one fails the others are stopped. How far the run is goes to the
    broker's `PUT /pipelines/NAME` (where the pipeline says `http`), and the offsets of each sink to
    the group `spark-PIPELINE-SINK`.

    Args:
        pipeline: What to run.
        progress: Is told how far it is, some times a second, in the calling thread.
        stop: When set, the queries end after the micro-batch that they are at.
        available_now: Do what is there and end, whatever the triggers say.
        timeout_s: Stop after so long, as if `stop` had been set.
        spark: The session to run in, which must be this pipeline's alone; by default one is made
            on the Spark of this process, which is started if there is none.

    Returns:
        How it ended; when a query has failed, `state` says so and `last.error` which one, and why.

    Raises:
        PipelineError: it cannot be started, or runs already; says all that is wrong.
        BrokerAwayError: the broker did not answer for `kafka.default.api.timeout.ms`.
        SessionError: there is no Spark to run on.
    """
    with only_run(pipeline):
        run = _Run(pipeline, progress, stop or threading.Event(), available_now=available_now)
        try:
            run.begin(spark)
            run.watch(None if timeout_s is None else clock.monotonic_s() + timeout_s)
            return run.end()
        except BaseException as error:
            run.give_up(error)
            raise
        finally:
            run.close()


@dataclass(slots=True)
class _Run:
    """A run, from its first report to its last."""

    pipeline: Pipeline
    listener: Callable[[RunProgress], None] | None
    stopping: threading.Event
    available_now: bool = field(kw_only=True)
    watched: list[Watched] = field(default_factory=list)
    written: list[QueryProgress] = field(default_factory=list)
    """What does not stream, and was written before the queries started."""
    outputs: dict[str, Output] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    spark: SparkSession | None = None
    state: State = "starting"
    error: str | None = None
    reporter: Reporter = field(init=False)
    last: RunProgress = field(init=False)

    def __post_init__(self) -> None:
        self.last = RunProgress(
            name=self.pipeline.name,
            started_at=clock.now_ms(),
            host=socket.gethostname(),
            pid=os.getpid(),
            master=self.pipeline.master or DEFAULT_MASTER,
            file=self.pipeline.file,
        )
        self.reporter = Reporter(link_of(self.pipeline), self.pipeline.http)

    # --- Beginning -------------------------------------------------------------------------------

    def begin(self, spark: SparkSession | None) -> None:
        """Start everything."""
        self.tell()
        partitions = prepare_topics(self.pipeline)
        spark = spark or session_for(self.pipeline)
        if not self.pipeline.is_remote:
            context = spark.sparkContext
            self.last = replace(self.last, master=context.master, spark_ui=context.uiWebUrl)
        self.spark = spark
        with said_once(), active(spark):
            tables = build_tables(spark, self.pipeline)
            outputs = outputs_of(self.pipeline, tables, partitions)
            for output in sorted(outputs, key=lambda each: each.is_streaming):
                if not self.stopping.is_set():
                    self._start(output)
        self.state = "running"
        self.tell()

    def _start(self, output: Output) -> None:
        said = QueryProgress(
            name=output.name,
            sink=output.shown,
            dead_letters=output.dead_letters,
            sources=output.topics,
        )
        try:
            if not output.is_streaming:
                write_once(output)
                done = replace(said, state="finished", updated_at=clock.now_ms())
                self.written.append(done)
            else:
                query = start(self.pipeline, output, available_now=self.available_now)
                group = group_name(self.pipeline, output.name)
                said = replace(said, group=group, id=str(query.id), run_id=str(query.runId))
                is_ending = self.available_now or output.trigger.available_now
                self.watched.append(Watched(said, query=query, is_ending=is_ending))
                self.outputs[output.name] = output
                self._settle(query)
        except (SparkSourceError, *SPARK_ERRORS) as error:
            problem = Problem(reason_of(error), line=output.line, path=output.path)
            raise PipelineError((problem,), self.pipeline.file) from error
        self.tell()

    def _settle(self, query: StreamingQuery) -> None:
        """Wait until the Python process of a query is there, before the next one needs one too."""
        deadline = clock.monotonic_s() + _SETTLE_S
        while query.isActive and query.status["message"].startswith("Initializing"):
            if clock.monotonic_s() > deadline or self.stopping.wait(_LOOK_S / 5):
                return

    # --- Watching --------------------------------------------------------------------------------

    def watch(self, deadline: float | None) -> None:
        """Look at the queries until all have ended, one has failed, or it is time to stop."""
        try:
            while self.look():
                if deadline is not None and clock.monotonic_s() >= deadline:
                    self.stopping.set()
                if self.stopping.wait(_LOOK_S):
                    self._stop_gently()
                    return
        except KeyboardInterrupt:
            self.stopping.set()
            self._stop_gently()

    def look(self) -> bool:
        """Learn how the queries are; says whether to go on."""
        for each in self.watched:
            each.look()
            if self._may_restart(each):
                self._restart(each)
        self.tell()
        going = [each for each in self.watched if each.query.isActive or self._may_restart(each)]
        failed = [each for each in self.watched if each.progress.state == "failed"]
        return bool(going) and all(each in going for each in failed)

    def _may_restart(self, each: Watched) -> bool:
        tried = self.restarts.get(each.progress.name, 0)
        is_wanted = tried < _MAX_RESTARTS and not self.stopping.is_set()
        return is_wanted and may_work_again(each.progress.error)

    def _restart(self, each: Watched) -> None:
        """Start a query again that failed by no fault of its own; its checkpoint knows where."""
        if self.spark is None:
            return
        name = each.progress.name
        self.restarts[name] = self.restarts.get(name, 0) + 1
        _log.warning("%s is started again: %s", name, each.progress.error)
        with suppress(*SPARK_ERRORS), active(self.spark):
            output = self.outputs[name]
            each.query = start(self.pipeline, output, available_now=self.available_now)
            self._settle(each.query)
            each.look()

    def _stop_gently(self) -> None:
        """Let each query end the micro-batch that it is at, and stop it before the next."""
        before = {each.progress.name: each.progress.batch_id for each in self.watched}
        deadline = clock.monotonic_s() + _LAST_BATCH_S
        busy = [each for each in self.watched if each.query.isActive]
        while busy and clock.monotonic_s() < deadline:
            self.look()
            for each in list(busy):
                is_next = each.progress.batch_id != before[each.progress.name]
                if is_next or not each.query.isActive or not _is_working(each):
                    each.stop()
                    busy.remove(each)
            clock.sleep(_LOOK_S / 5)
        for each in busy:
            each.stop()

    # --- Ending ----------------------------------------------------------------------------------

    def end(self) -> RunReport:
        """Stop what still runs, and say how it was."""
        self._stop_all()
        for each in self.watched:
            each.look()
        failed = [each.progress for each in self.watched if each.progress.state == "failed"]
        if failed:
            self.state = "failed"
            self.error = f"{failed[0].name} ({failed[0].sink}) failed: {failed[0].error}"
        elif any(each.progress.state == "stopped" for each in self.watched):
            self.state = "stopped"
        else:
            self.state = "stopped" if self.stopping.is_set() else "finished"
        self.tell()
        return RunReport(last=self.last, ended_at=clock.now_ms(), warnings=self._warnings())

    def _warnings(self) -> tuple[str, ...]:
        return tuple(
            f"{each.progress.name}: {each.progress.late_rows} rows were later than the "
            "watermark allows and were dropped"
            for each in self.watched
            if each.progress.late_rows
        )

    def give_up(self, error: BaseException) -> None:
        """It could not be started, or somebody interrupts it."""
        self._stop_all()
        is_wish = isinstance(error, KeyboardInterrupt)
        self.state = "stopped" if is_wish else "failed"
        self.error = None if is_wish else reason_of(error)
        self.last = replace(self.last, state=self.state, error=self.error)
        self.reporter.tell(self.last)

    def _stop_all(self) -> None:
        for each in self.watched:
            with suppress(*SPARK_ERRORS):  # it may be ending by itself, with an error of its own
                each.stop()

    def close(self) -> None:
        """Send the last report."""
        self.reporter.close()

    def tell(self) -> None:
        """Tell everybody how it is."""
        queries = (*self.written, *(each.progress for each in self.watched))
        self.last = replace(self.last, state=self.state, error=self.error, queries=queries)
        groups = {
            each.progress.group: each.offsets
            for each in self.watched
            if each.progress.group is not None
        }
        self.reporter.tell(self.last, groups)
        if self.listener is not None:
            self.listener(self.last)


def _is_working(each: Watched) -> bool:
    status = each.query.status
    return bool(status["isTriggerActive"] and status["isDataAvailable"])
