"""What `goqueue pipeline run` shows while it runs and at its end, without a Spark to run."""

from __future__ import annotations

import io
import json
import os
import signal
import threading

import pytest
from msgspec.structs import replace
from rich.console import Console

from goqueue.cli.calls import Call, Globals
from goqueue.cli.errors import CliError
from goqueue.cli.spark import pipeline_run
from goqueue.cli.spark.job_options import stopping
from goqueue.spark.monitoring.progress import QueryProgress, RunProgress, RunReport
from goqueue.spark.pipelines.model import Pipeline

RUNNING = QueryProgress(
    name="revenue",
    sink="topic revenue",
    rows=12_000,
    rows_per_second=3400.4,
    lag=56,
    batch_id=7,
    batch_ms=120,
    watermark=1_700_000_000_000,
)
FAILED = QueryProgress(
    name="lake", sink="delta ./lake", state="failed", error="the \x1b[31mdisk is full"
)
PROGRESS = RunProgress(
    name="orders",
    state="running",
    started_at=1_700_000_000_000,
    master="local[2]",
    queries=(RUNNING, FAILED),
)


def drawn(progress: RunProgress, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(pipeline_run.picture(progress))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_the_picture_shows_figures_watermark_and_errors() -> None:
    text = drawn(PROGRESS)
    for part in ("12,000", "3,400", "56", "120 ms", "2023-11-14T22:13:20.000Z", "local[2]"):
        assert part in text
    assert "disk is full" in text
    assert "\x1b[31mdisk" not in text


def test_a_long_path_makes_no_figure_shorter() -> None:
    query = replace(RUNNING, sink="parquet /" + "far/" * 30 + "away")
    text = drawn(replace(PROGRESS, queries=(query,)), width=110)
    for part in ("running", "12,000", "3,400", "56", "120 ms", "2023-11-14T22:13:20.000Z"):
        assert part in text


def test_a_run_that_starts_has_a_picture_too() -> None:
    assert "starting" in drawn(RunProgress(name="orders"))


def test_lines_say_what_a_terminal_would_draw() -> None:
    first, second = pipeline_run.progress_lines(PROGRESS)
    assert first == "orders: revenue running: 12,000 rows, 3,400 rows/s, lag 56"
    assert second.endswith("disk is full")
    assert pipeline_run.progress_lines(RunProgress(name="n")) == ["n: starting"]


def test_a_state_is_said_once_and_a_change_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    say = pipeline_run._Lines()
    for progress in (RunProgress(name="n"), RunProgress(name="n"), PROGRESS, PROGRESS):
        say(progress)
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "n",
        "orders",
        "orders",
    ]


def test_the_summary_counts_rows_and_time() -> None:
    report = RunReport(last=PROGRESS, ended_at=1_700_000_090_000, warnings=("late",))
    summary = pipeline_run.summary(report)
    assert (summary["took"], summary["rows"]) == ("1m 30s", 12_000)
    assert [row["query"] for row in summary["queries"]] == ["revenue", "lake"]
    data = json.loads(json.dumps(report.as_dict()))
    assert data["queries"][1]["state"] == "failed"
    assert data["warnings"] == ["late"]


def test_without_spark_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.spark.requirements.find_spec", lambda _: None)
    with pytest.raises(CliError, match=r"pip install 'goqueue\[spark\]'"):
        pipeline_run.run(Call(Globals()), Pipeline(name="n"), pipeline_run.RunOptions())


def test_the_first_ctrl_c_asks_for_the_end_and_the_second_takes_it() -> None:
    stop = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    with stopping(stop, "micro-batch", (signal.SIGINT, signal.SIGTERM)) as received:
        os.kill(os.getpid(), signal.SIGTERM)
        assert (stop.is_set(), received) == (True, {signal.SIGTERM})
        stop.clear()
        os.kill(os.getpid(), signal.SIGINT)
        assert (stop.is_set(), received) == (True, {signal.SIGTERM, signal.SIGINT})
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
