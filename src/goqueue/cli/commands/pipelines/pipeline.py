"""`goqueue pipeline`: check, show and run pipelines, and see those that run."""

from __future__ import annotations

import json
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from goqueue.cli.calls import Call, ForceOption, command
from goqueue.cli.commands.pipelines import job
from goqueue.cli.errors import CliError, UsageError
from goqueue.cli.output import Format, note, printable, shortened
from goqueue.cli.spark.job_command import ConfOption  # noqa: TC001 - Typer looks it up
from goqueue.cli.spark.pipeline_view import plan_lines, query_rows
from goqueue.cli.times import show_span, show_time, span_ms
from goqueue.model.pipeline_reports import PipelineReport
from goqueue.protocols.http.operations.operation_shapes import PipelineList

if TYPE_CHECKING:
    from goqueue.spark.pipelines.files.loaded import Loaded
    from goqueue.spark.pipelines.model import Pipeline, Problem
    from goqueue.spark.pipelines.planning import Plan
    from goqueue.spark.pipelines.surveying import Survey

_MAX_SHOWN: Final = 100

app = typer.Typer(no_args_is_help=True, help="Run, check and inspect Spark pipelines.")
app.add_typer(job.app, name="job", hidden=True)  # as it was called before `goqueue job`

FileArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="FILE", help="A pipeline: a .yaml or a .py file.")
]
FilesArgument: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="Pipelines: .yaml or .py files.")
]
NameArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the pipeline in its file.")
]
_GUESS_S = 2.0
"""How long a plan waits for a broker that it was not told to ask."""


@command(app, "run")
def run_file(
    call: Call,
    file: FileArgument,
    *,
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="MASTER",
            help="The Spark master, overriding the file: local[2], spark://host:7077, "
            "or sc://host:15002 for Spark Connect.",
        ),
    ] = None,
    conf: ConfOption = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process what exists, then end.")
    ] = False,
    run_for: Annotated[
        str | None,
        typer.Option("--run-for", metavar="TIME", help="Stop after this time, such as 90s or 1h."),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh", help="Delete the checkpoints: everything is read and written again."
        ),
    ] = False,
    force: ForceOption = False,
) -> None:
    """Run a pipeline until it finishes, fails, or Ctrl-C; each sink resumes from its checkpoint.

    Ctrl-C stops it after the current micro-batch. A second Ctrl-C stops it immediately.
    """
    from goqueue.cli.spark.pipeline_run import RunOptions, run  # noqa: PLC0415 - only the command in use

    run_for_ms = span_ms(run_for, "--run-for")
    pipeline = _pipeline(file)
    run(
        call,
        pipeline,
        RunOptions(
            master=master,
            conf=conf or (),
            available_now=available_now,
            run_for_s=None if run_for_ms is None else run_for_ms / 1000,
            fresh=fresh,
            force=force,
        ),
    )


@command(app, "validate")
def validate_files(
    call: Call,
    files: FilesArgument,
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
) -> None:
    """Report all problems of pipelines with their lines, without Spark and without a broker.

    Each problem is printed as FILE:LINE:COLUMN: PATH: TEXT. The exit code is 1 if there is one.
    """
    found = [(each, _load(each)) for each in files]
    is_bad = any(_is_bad(loaded, strict=strict) for _, loaded in found)
    if call.output is Format.TABLE:
        for file, loaded in found:
            for line in _problem_lines(loaded.problems, file):
                typer.echo(printable(line))
            if not _is_bad(loaded, strict=strict):
                typer.echo(f"{printable(file)}: OK ({_counts(loaded)})")
    else:
        call.show([_judgement(file, loaded, strict=strict) for file, loaded in found])
    if is_bad:
        raise typer.Exit(1)


@command(app, "schema")
def show_schema(_call: Call) -> None:
    """Print the JSON Schema of pipeline files, for editors: completion, help and checks."""
    from goqueue.spark.pipelines.files.json_schema import pipeline_schema  # noqa: PLC0415 - only the command in use

    typer.echo(json.dumps(pipeline_schema(), indent=2))


@command(app, "plan")
def plan_file(
    call: Call,
    file: FileArgument,
    *,
    connect: Annotated[
        bool | None,
        typer.Option(
            "--connect/--no-connect",
            help="Show the topics and their lag, and fail if the broker is unavailable; or do not "
            "connect. By default they are shown if the broker responds quickly.",
        ),
    ] = None,
) -> None:
    """Show the tables of a pipeline, and the sources, state and target of each sink.

    Nothing is started or changed. With --connect the exit code is 1 if a topic is missing.
    """
    from goqueue.spark.pipelines.planning import plan_of  # noqa: PLC0415 - only the command in use

    pipeline = _pipeline(file)
    plan = plan_of(pipeline)
    found = None if connect is False else _survey(call, pipeline, plan, is_asked=bool(connect))
    if call.output is Format.TABLE:
        for line in plan_lines(plan, found):
            typer.echo(printable(line))
    else:
        survey = {"topics": None, "waiting": None} if found is None else found.as_dict()
        call.show({**plan.as_dict(), **survey})
    if connect and found is not None and any(each.is_missing for each in found.topics):
        raise typer.Exit(1)


@command(app, "list")
def list_pipelines(call: Call) -> None:
    """List the pipelines that report to the broker."""
    answer = call.api.get(PipelineList, "/pipelines")
    call.show(
        answer,
        [_row(each) for each in answer.pipelines],
        empty="no pipelines: `goqueue pipeline run FILE` runs one",
    )


@command(app, "status")
def show_status(call: Call, name: NameArgument) -> None:
    """Show a pipeline: its queries, their rates and their lag."""
    found = call.api.get(PipelineReport, "/pipelines/{}", name)
    shown = {
        "pipeline": found.name,
        "state": found.state,
        "since": _moment(found.started_at),
        "heard": _ago(found.updated_at),
        "where": f"{found.host or '-'} (process {found.pid or '-'})",
        "spark": found.master,
        "spark ui": found.spark_ui,
        "file": found.file,
        "error": found.error,
        "queries": query_rows(found.queries),
    }
    call.show(found, shown)


@command(app, "demo")
def run_demo(
    call: Call,
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder for all files; created if needed.")
    ] = Path("goqueue-demo"),
    *,
    orders: Annotated[
        int, typer.Option("--orders", min=1, max=1_000_000, help="The number of orders.")
    ] = 20_000,
    stay: Annotated[
        bool, typer.Option("--stay", help="Keep the broker running, with its console.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", "-f", help="Replace the folder of an earlier demo.")
    ] = False,
) -> None:
    """Run a demo pipeline with its own broker: orders, sums, dead letters and an archive.

    Running brokers are not affected. The pipeline file stays in the folder, for experiments.
    """
    from goqueue.cli.spark.demo import run_demo as run  # noqa: PLC0415 - only the command in use

    run(folder, orders, call.output, stay=stay, force=force)


# --- Files ---------------------------------------------------------------------------------------


def _load(file: str) -> Loaded:
    from goqueue.spark.pipelines.files.loading import load_file  # noqa: PLC0415 - start-up stays light

    if not Path(file).exists():
        raise UsageError(f"there is no file {file}")
    with redirect_stdout(sys.stderr):  # where a pipeline in Python prints, when it is read
        return load_file(file)


def _pipeline(file: str) -> Pipeline:
    """The pipeline of a file; what is wrong with it goes to standard error, all of it."""
    loaded = _load(file)
    for line in _problem_lines(loaded.problems, file):
        note(line)
    errors = [each for each in loaded.problems if not each.is_warning]
    if errors or loaded.pipeline is None:
        count = len(errors)
        raise CliError(
            f"{file} has {count} problem{'' if count == 1 else 's'}: nothing was started"
        )
    return loaded.pipeline


def _is_bad(loaded: Loaded, *, strict: bool) -> bool:
    if loaded.pipeline is None:
        return True
    return any(strict or not each.is_warning for each in loaded.problems)


def _problem_lines(problems: tuple[Problem, ...], file: str) -> list[str]:
    from dataclasses import replace  # noqa: PLC0415 - as above

    from goqueue.spark.pipelines.model import show_problem  # noqa: PLC0415 - as above

    marked = (
        replace(each, message=f"warning: {each.message}") if each.is_warning else each
        for each in problems
    )
    return [show_problem(each, file) for each in marked]


def _counts(loaded: Loaded) -> str:
    pipeline = loaded.pipeline
    assert pipeline is not None
    parts = {
        "source": len(pipeline.sources),
        "step": len(pipeline.steps),
        "sink": len(pipeline.sinks),
    }
    return ", ".join(f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in parts.items())


def _judgement(file: str, loaded: Loaded, *, strict: bool) -> dict[str, Any]:
    return {
        "file": file,
        "ok": not _is_bad(loaded, strict=strict),
        "problems": [
            {
                "severity": "warning" if each.is_warning else "error",
                "line": each.line,
                "column": each.column,
                "path": each.path,
                "message": each.message,
            }
            for each in loaded.problems
        ],
    }


def _survey(call: Call, pipeline: Pipeline, plan: Plan, *, is_asked: bool) -> Survey | None:
    from goqueue.spark.errors import SparkSourceError  # noqa: PLC0415 - as above
    from goqueue.spark.pipelines.surveying import survey  # noqa: PLC0415 - as above

    patience_s = call.target().timeout_s if is_asked else _GUESS_S
    try:
        return survey(pipeline, plan.queries, patience_s=patience_s)
    except SparkSourceError as error:
        if is_asked:
            raise CliError(str(error)) from error
        note(f"the plan has no data of the broker: {error}")
        return None


# --- What the broker knows -----------------------------------------------------------------------


def _row(found: PipelineReport) -> dict[str, Any]:
    lags = [each.lag for each in found.queries if each.lag is not None]
    is_going = found.state == "running"
    rates = [each.rows_per_second for each in found.queries if each.rows_per_second]
    return {
        "pipeline": found.name,
        "state": found.state,
        "queries": len(found.queries),
        "rows/s": round(sum(rates)) if rates and is_going else None,
        "lag": sum(lags) if lags else None,
        "since": _moment(found.started_at),
        "heard": _ago(found.updated_at),
        "error": shortened(found.error, _MAX_SHOWN) or None,
    }


def _moment(timestamp_ms: int | None) -> str | None:
    return None if timestamp_ms is None else show_time(timestamp_ms)


def _ago(timestamp_ms: int) -> str:
    return f"{show_span(max(time.time() - timestamp_ms / 1000, 0))} ago"
