"""`goqueue pipeline run`: Spark works in a thread of its own while this one shows how far it is.

The thread is more than comfort: Spark takes Ctrl-C for itself in the thread that starts it, and
would throw away the micro-batch under way. Here it only asks for the end.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from goqueue.cli.calls import INTERRUPTED, Call, confirm, parse_pairs
from goqueue.cli.errors import CliError
from goqueue.cli.output import Format, figure, note, printable
from goqueue.cli.spark.job_options import stopping
from goqueue.cli.spark.pipeline_view import query_rows
from goqueue.cli.spark.redirects import stderr_to_file, stdout_to_stderr
from goqueue.cli.times import show_span
from goqueue.model.errors import GoQueueError
from goqueue.spark.errors import SparkMissingError
from goqueue.spark.monitoring.progress import RunProgress, RunReport
from goqueue.spark.pipelines.execution.only_run import only_run
from goqueue.spark.pipelines.execution.sessions import DEFAULT_MASTER, SessionError
from goqueue.spark.pipelines.model import ConsoleSink, Pipeline
from goqueue.spark.requirements import INSTALL, check_spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import RenderableType


_LOOK_S: Final = 0.2
_LINE_EVERY_S: Final = 10.0
"""Between two lines about the same state where nothing can be drawn."""
_SHOWN: Final = ("query", "sink", "state", "rows", "rows/s", "lag", "batch", "took", "watermark")
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_SPOKEN: Final = {"spark.log.level": "ERROR"}
"""It goes to a file here, where more may be said than on a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What the command line says about a run."""

    master: str | None = None
    conf: Sequence[str] = ()
    available_now: bool = False
    run_for_s: float | None = None
    fresh: bool = False
    force: bool = False


def run(call: Call, pipeline: Pipeline, options: RunOptions) -> None:
    """Run a pipeline, show how it goes and what it did.

    Raises:
        CliError: it cannot be started.
    """
    pipeline = replace(
        pipeline,
        master=options.master or pipeline.master,
        conf={**_SPOKEN, **pipeline.conf, **parse_pairs(options.conf, "--conf")},
    )
    _need_spark(pipeline.master or DEFAULT_MASTER)
    if options.fresh:
        _forget(pipeline, force=options.force)
    is_drawn = call.output is Format.TABLE and not any(
        isinstance(each, ConsoleSink) for each in pipeline.sinks
    )
    running = _Running(pipeline, options)
    log = Path(tempfile.gettempdir(), f"goqueue-spark-{os.getpid()}.log")
    # What console sinks and steps print is no part of a report for programs.
    aside = nullcontext() if call.output is Format.TABLE else stdout_to_stderr()
    with aside, stderr_to_file(log):
        try:
            with (
                stopping(running.stop, "micro-batch", _STOP_SIGNALS) as received,
                _display(is_drawn=is_drawn) as show,
            ):
                running.start()
                while running.is_alive():
                    running.join(_LOOK_S)
                    show(running.progress)
        finally:
            _keep_or_remove(log, running)
    _finish(call, running)
    if signal.SIGINT in received:
        raise typer.Exit(INTERRUPTED)


def _need_spark(master: str) -> None:
    try:
        check_spark(master)
    except SparkMissingError as error:
        raise CliError(str(error)) from error


def _forget(pipeline: Pipeline, *, force: bool) -> None:
    folder = Path(pipeline.checkpoints, pipeline.name)
    if "://" in pipeline.checkpoints:
        raise CliError(f"--fresh: {pipeline.checkpoints} is not a local folder: delete it yourself")
    if folder.exists():
        confirm(
            f"{folder} will be deleted: the pipeline will read everything again, and write it to "
            "its sinks a second time.",
            force=force,
        )
        try:
            with only_run(pipeline):  # what a run is using stays
                shutil.rmtree(folder)
        except GoQueueError as error:
            raise CliError(str(error)) from error


class _Running(threading.Thread):
    """The run, and what is known of it."""

    def __init__(self, pipeline: Pipeline, options: RunOptions) -> None:
        super().__init__(name="goqueue-pipeline", daemon=True)
        self.stop = threading.Event()
        self.progress: RunProgress = RunProgress(name=pipeline.name)
        self.report: RunReport | None = None
        self.error: Exception | None = None
        self._pipeline = pipeline
        self._options = options

    def run(self) -> None:
        """Whatever goes wrong is kept for the other thread."""
        try:
            from goqueue.spark.pipelines.execution.running import run_pipeline  # noqa: PLC0415 - needs Spark

            self.report = run_pipeline(
                self._pipeline,
                progress=self._learn,
                stop=self.stop,
                available_now=self._options.available_now,
                timeout_s=self._options.run_for_s,
            )
        except Exception as error:  # noqa: BLE001 - raised again where it can be shown
            self.error = error

    def _learn(self, progress: RunProgress) -> None:
        self.progress = progress


def _keep_or_remove(log: Path, running: _Running) -> None:
    """What Spark has said is of use when it explains more than our own sentence does."""
    error, report = running.error, running.report
    has_failed = report is not None and report.state == "failed"
    is_odd = error is not None and not isinstance(error, GoQueueError)
    is_wanted = has_failed or is_odd or isinstance(error, SessionError)
    if is_wanted and log.stat().st_size:
        note(f"Spark's log: {log}")
    else:
        log.unlink()


def _finish(call: Call, running: _Running) -> None:
    error, report = running.error, running.report
    if isinstance(error, GoQueueError):
        raise CliError(str(error)) from error
    if isinstance(error, ImportError):
        raise CliError(f"pipelines run on Spark: {INSTALL} ({error})") from error
    if error is not None:
        from goqueue.spark.monitoring.failures import reason_of  # noqa: PLC0415 - needs Spark

        raise CliError(reason_of(error)) from error
    assert report is not None
    for text in report.warnings:
        note(f"warning: {text}")
    call.show(report.as_dict(), summary(report))
    if report.state == "failed":
        raise CliError(report.last.error or "the pipeline failed")


def summary(report: RunReport) -> dict[str, Any]:
    """What a run did, for people."""
    last = report.last
    columns = ("query", "sink", "state", "rows", "batch", "lag", "error")
    rows = query_rows(last.queries)
    return {
        "pipeline": last.name,
        "state": report.state,
        "took": show_span((report.ended_at - last.started_at) / 1000),
        "rows": sum(each.rows for each in last.queries),
        "queries": [{name: row[name] for name in columns} for row in rows],
    }


# --- While it runs -------------------------------------------------------------------------------


def _display(*, is_drawn: bool) -> AbstractContextManager[Callable[[RunProgress], None]]:
    from rich.console import Console  # noqa: PLC0415 - start-up stays light

    console = Console(stderr=True, highlight=False)
    if is_drawn and console.is_terminal:
        return _live(console)
    return nullcontext(_Lines())


@contextmanager
def _live(console: Any) -> Iterator[Callable[[RunProgress], None]]:
    """A table that is drawn over and over."""
    from rich.live import Live  # noqa: PLC0415 - start-up stays light

    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda progress: live.update(picture(progress), refresh=True)


class _Lines:
    """A line when something changes, and now and then, where nothing can be drawn."""

    def __init__(self) -> None:
        self._said: tuple[str, ...] = ()
        self._said_at = 0.0

    def __call__(self, progress: RunProgress) -> None:
        states = (progress.state, *(each.state for each in progress.queries))
        now = time.monotonic()
        is_news = states != self._said
        if not is_news and (now - self._said_at < _LINE_EVERY_S or not progress.queries):
            return
        self._said, self._said_at = states, now
        for line in progress_lines(progress):
            note(line)


def progress_lines(progress: RunProgress) -> list[str]:
    """A run at one moment, a line a query."""
    if not progress.queries:
        return [f"{progress.name}: {progress.state}"]
    lines = []
    for each in progress.queries:
        facts = [f"{each.rows:,} rows"]
        if each.rows_per_second:
            facts.append(f"{each.rows_per_second:,.0f} rows/s")
        if each.lag is not None:
            facts.append(f"lag {each.lag:,}")
        if each.error is not None:
            facts.append(each.error)
        lines.append(f"{progress.name}: {each.name} {each.state}: {', '.join(facts)}")
    return lines


def picture(progress: RunProgress) -> RenderableType:
    """A run at one moment, as a table."""
    from rich import box  # noqa: PLC0415 - start-up stays light
    from rich.console import Group  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    rows = query_rows(progress.queries)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in _SHOWN:
        is_text = name in {"query", "sink", "state", "watermark"}
        table.add_column(
            name,
            justify="left" if is_text else "right",
            no_wrap=name != "sink",  # a long path gives way, and no figure does
            overflow="fold" if name == "sink" else "ellipsis",
        )
    for row in rows:
        table.add_row(*(Text(figure(row[name])) for name in _SHOWN))
    state = f"{progress.name}  {progress.state}  on {progress.master or 'Spark'}"
    troubles = [progress.error, *(each.error for each in progress.queries)]
    is_well = not any(troubles)
    return Group(
        Text(printable(state), "bold green" if is_well else "bold red"),
        table,
        *(Text(printable(each), "red") for each in troubles if each),
        Text("Ctrl-C stops it after the current micro-batch", "dim"),
    )
