"""`goqueue worker`: run the tasks of an app."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

from goqueue.cli.errors import CliError
from goqueue.cli.output import fail
from goqueue.cli.times import span_ms

_MAX_PREFETCH: Final = 5000

app = typer.Typer()


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@app.command("worker")
def run_worker(
    target: Annotated[str, typer.Argument(metavar="MODULE:APP", help="The app, as in tasks:app.")],
    *,
    processes: Annotated[
        int, typer.Option("--processes", min=1, help="The number of processes.")
    ] = 1,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            min=1,
            max=_MAX_PREFETCH,
            help="Tasks that a process runs at a time. (default: 10; of an exclusive group, 1)",
        ),
    ] = None,
    prefetch: Annotated[
        int | None,
        typer.Option(
            "--prefetch",
            min=1,
            max=_MAX_PREFETCH,
            help="Unacknowledged messages that a process may have, waiting ones included. "
            "(default: the concurrency)",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", metavar="TOPIC", help="Take from this topic only; may be repeated."
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="The broker, in place of the app's own or of GOQUEUE_ADDRESS.",
        ),
    ] = None,
    stop_timeout: Annotated[
        str,
        typer.Option(
            "--stop-timeout",
            metavar="DURATION",
            help="How long running tasks may take to finish after SIGTERM or Ctrl-C.",
        ),
    ] = "25s",
    log_level: Annotated[LogLevel, typer.Option("--log-level", help="The log level.")] = (
        LogLevel.INFO
    ),
) -> None:
    """Run the tasks of an app, in processes that are restarted when they die.

    SIGTERM or Ctrl-C: take no more messages, let running tasks finish, return the messages of those
    that do not finish in time. A second signal: do not wait.
    """
    try:
        stop_timeout_ms = span_ms(stop_timeout, "--stop-timeout", may_be_zero=True)
    except CliError as error:
        fail(str(error), error.exit_code)
    from goqueue.worker.settings import WorkerSettings  # noqa: PLC0415 - not for the help
    from goqueue.worker.supervisor import supervise  # noqa: PLC0415 - as above

    settings = WorkerSettings(
        app=target,
        address=address,
        concurrency=concurrency,
        prefetch=prefetch,
        topics=tuple(topic or ()),
        stop_timeout_s=(stop_timeout_ms or 0) / 1000,
        log_level=log_level.value,
    )
    raise typer.Exit(supervise(settings, processes))
