"""`goqueue health`: what a container or a supervisor asks every few seconds."""

from __future__ import annotations

from typing import Annotated

import typer

from goqueue.cli.calls import Call, command
from goqueue.protocols.http.operations.operation_shapes import Readiness, Status

app = typer.Typer()


@command(app, "health")
def check_health(
    call: Call,
    *,
    ready: Annotated[
        bool, typer.Option("--ready", help="Ask whether it serves clients, not only responds.")
    ] = False,
) -> None:
    """Check that the server responds; the exit code is 1 when it does not."""
    if ready:
        status, answer = call.api.probe(Readiness, "/readyz?verbose=true")
        call.show({"status": answer.status, **(answer.checks or {})})
    else:
        status, alive = call.api.probe(Status, "/healthz")
        call.show({"status": alive.status})
    if status != 200:
        raise typer.Exit(1)
