"""`goqueue maintenance`: status of retention and TTL, and resuming them after a clock jump."""

from __future__ import annotations

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm
from goqueue.protocols.http.operations.operation_shapes import MaintenanceResumed, MaintenanceStatus

app = typer.Typer(no_args_is_help=True, help="Status of retention and TTL, and resuming them.")


@command(app, "status")
def show_status(call: Call) -> None:
    """Show whether retention and TTL run; a jump of the wall clock stops them."""
    call.show(call.api.get(MaintenanceStatus, "/admin/maintenance"))


@command(app, "resume")
def resume_maintenance(call: Call, force: ForceOption = False) -> None:
    """Accept the wall clock after a jump, and resume retention and TTL."""
    found = call.api.get(MaintenanceStatus, "/admin/maintenance")
    if found.reason is not None:
        confirm(
            f"{found.reason.partition(':')[0].capitalize()}. Messages that now exceed "
            "their retention will be deleted.",
            force=force,
        )
    call.show(call.api.post(MaintenanceResumed, "/admin/maintenance/resume", body={}))
