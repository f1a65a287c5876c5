"""`goqueue transaction`: which transactions are open, and ending one that hangs."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm
from goqueue.cli.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="Look at transactions and end those that hang.")

IdArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="TRANSACTIONAL_ID", help="The producer's transactional id.")
]


@command(app, "list")
def list_transactions(
    call: Call,
    *,
    state: Annotated[
        str | None, typer.Option("--state", help="Only those in this state, such as Ongoing.")
    ] = None,
) -> None:
    """List all transactional ids and where each stands."""
    found = call.api.get("/transactions", state=state)["transactions"]
    call.show(found, [_row(each) for each in found], empty="no transactions")


@command(app, "describe")
def describe_transaction(call: Call, name: IdArgument) -> None:
    """Show one transactional id: its producer, its transaction, the partitions in it."""
    found = call.api.get("/transactions", transactional_id=name)["transactions"]
    if not found:
        raise UsageError(f"there is no transactional id {name!r}")
    call.show(found[0])


@command(app, "abort")
def abort_transaction(call: Call, name: IdArgument, force: ForceOption = False) -> None:
    """End an open transaction for its producer, which is fenced."""
    confirm(f"The open transaction of {name} will be lost.", force=force)
    call.show(call.api.post("/transactions/abort", body={"transactional_id": name}))


def _row(transaction: dict[str, Any]) -> dict[str, Any]:
    return {
        "transactional_id": transaction["transactional_id"],
        "state": transaction["state"],
        "producer": transaction["producer_id"],
        "epoch": transaction["epoch"],
        "started_at": transaction["started_at"],
        "partitions": sum(map(len, transaction["partitions"].values())),
    }
