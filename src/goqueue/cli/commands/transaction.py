"""`goqueue transaction`: list transactions, and abort hanging ones."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import typer

from goqueue.cli.calls import Call, ForceOption, command, confirm
from goqueue.cli.errors import UsageError
from goqueue.protocols.http.transactions.transaction_shapes import TransactionList, TransactionOut

app = typer.Typer(no_args_is_help=True, help="List transactions, and abort hanging ones.")

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
    """List all transactional ids and their states."""
    found = call.api.get(TransactionList, "/transactions", state=state).transactions
    call.show(
        found,
        [_row(each) for each in found],
        empty="no transactions: no producer has a transactional id, or other filters find some",
    )


@command(app, "describe")
def describe_transaction(call: Call, name: IdArgument) -> None:
    """Show one transactional id: its producer, its transaction, the partitions in it."""
    listed = call.api.get(TransactionList, "/transactions", transactional_id=name)
    if not listed.transactions:
        raise UsageError(f"there is no transactional id {name!r}")
    call.show(listed.transactions[0])


@command(app, "abort")
def abort_transaction(call: Call, name: IdArgument, force: ForceOption = False) -> None:
    """Abort an open transaction; its producer is fenced."""
    confirm(f"The open transaction of {name} will be aborted.", force=force)
    body = {"transactional_id": name}
    call.show(call.api.post(TransactionOut, "/transactions/abort", body=body))


def _row(transaction: TransactionOut) -> dict[str, Any]:
    return {
        "transactional_id": transaction.transactional_id,
        "state": transaction.state,
        "producer": transaction.producer_id,
        "epoch": transaction.epoch,
        "started_at": transaction.started_at,
        "partitions": sum(map(len, transaction.partitions.values())),
    }
