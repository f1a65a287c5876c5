"""`goqueue health`: what a container, a supervisor or a script asks."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer

from goqueue.cli.calls import Call, command
from goqueue.cli.errors import UnreachableError
from goqueue.cli.times import span_ms
from goqueue.protocols.http.operations.operation_shapes import Readiness, Status

app = typer.Typer()

_LOOK_S: Final = 0.1


@command(app, "health")
def check_health(
    call: Call,
    *,
    ready: Annotated[
        bool, typer.Option("--ready", help="Ask whether it serves clients, not only responds.")
    ] = False,
    wait: Annotated[
        str | None,
        typer.Option("--wait", metavar="TIME", help="Wait this long until it serves clients."),
    ] = None,
) -> None:
    """Check that the server responds; the exit code is 1 when it does not."""
    deadline = time.monotonic() + (span_ms(wait, "--wait") or 0) / 1000
    while True:
        try:
            is_well, shown = _look(call, ready=ready or wait is not None)
        except UnreachableError:
            if time.monotonic() > deadline:
                raise
        else:
            if is_well or time.monotonic() > deadline:
                break
        time.sleep(_LOOK_S)
    call.show(shown)
    if not is_well:
        raise typer.Exit(1)


def _look(call: Call, *, ready: bool) -> tuple[bool, dict[str, Any]]:
    """Whether all is well, and what the server says."""
    if ready:
        status, answer = call.api.probe(Readiness, "/readyz?verbose=true")
        return status == 200, {"status": answer.status, **(answer.checks or {})}
    status, alive = call.api.probe(Status, "/healthz")
    return status == 200, {"status": alive.status}
