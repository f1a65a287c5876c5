"""`goqueue cluster`: what runs there, and its health."""

from __future__ import annotations

import typer

from goqueue.cli.calls import Call, command
from goqueue.cli.errors import UnreachableError
from goqueue.cli.output import plain
from goqueue.cli.times import show_size, show_span
from goqueue.protocols.http.operations.operation_shapes import Readiness, Stats, Version

app = typer.Typer(no_args_is_help=True, help="The state of the server.")


@command(app, "info")
def show_info(call: Call) -> None:
    """Show the version, uptime and totals of the server."""
    stats = call.api.get(Stats, "/stats")
    version = call.api.get(Version, "/version")
    info = {"server": call.api.target.server, **plain(stats), **plain(version)}
    del info["topics"]
    shown = {"uptime_s": show_span(stats.uptime_s), "size_bytes": show_size(stats.size_bytes)}
    table = {
        name.removesuffix("_s").removesuffix("_bytes"): v for name, v in (info | shown).items()
    }
    call.show(info, table)


@command(app, "health")
def show_health(call: Call) -> None:
    """Check the health of the server; the exit code is 1 when it is not healthy."""
    status, answer = call.api.probe(Readiness, "/readyz?verbose=true")
    if answer.checks is None or answer.broker is None:
        raise UnreachableError(f"{call.api.target.server} answered {status}: {answer.status}")
    failed = answer.broker.failed_partitions
    checks = {
        **answer.checks,
        "partitions": f"{len(failed)} refuse messages: {', '.join(failed)}" if failed else "ok",
    }
    healthy = status == 200 and not failed and checks.get("clock", "ok") == "ok"
    health = {"healthy": healthy, "checks": checks}
    call.show(health, {"healthy": healthy, **checks})
    if not healthy:
        raise typer.Exit(1)
