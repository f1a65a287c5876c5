"""What the nodes of a cluster tell of their transactions, in one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.http.api.merging import by_name
from goqueue.protocols.http.transactions.transaction_shapes import TransactionList

if TYPE_CHECKING:
    from goqueue.protocols.http.api.parts import Part
    from goqueue.protocols.http.api.places import Arguments


def merge_transactions(parts: list[Part], _arguments: Arguments) -> TransactionList:
    """The transactional ids of all nodes by name."""
    listed = (line for each in parts for line in each.answer.transactions)
    found = by_name(listed, "transactional_id")
    return TransactionList(found, len(found))
