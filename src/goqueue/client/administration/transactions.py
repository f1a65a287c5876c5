"""`client.transactions`: what an administrator sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from goqueue.client.administration.calls import Calls
from goqueue.client.administration.groups import places
from goqueue.client.types import TransactionInfo
from goqueue.model.errors import UnknownTransactionalIdError

if TYPE_CHECKING:
    from goqueue.client.link.link import Link


class TransactionStats(msgspec.Struct, frozen=True):
    """Transactions and their producers."""

    active: int
    """Open transactions."""
    by_state: dict[str, int]
    """Transactional ids."""
    producers: int
    """Transactional ids."""
    sequence_states: int
    """Producer states of all partitions."""
    log_size_bytes: int
    records_since_snapshot: int
    """Records that a start would replay."""


class _Transaction(msgspec.Struct):
    transactional_id: str
    transaction_id: str
    producer_id: int
    epoch: int
    state: str
    transaction_timeout_ms: int
    started_at: int | None
    updated_at: int
    partitions: dict[str, list[int]]


class _Transactions(msgspec.Struct):
    transactions: list[_Transaction]


class AsyncTransactions:
    """`client.transactions`: what an administrator sees."""

    def __init__(self, link: Link) -> None:
        self._calls = Calls(link)

    async def list(self, *states: str) -> list[TransactionInfo]:
        """The transactional ids in any of the states, by name; without states, all."""
        found = []
        for state in dict.fromkeys(states) or (None,):
            answer = await self._calls.get(_Transactions, "/transactions", state=state)
            found += [_transaction(each) for each in answer.transactions]
        return sorted(found, key=lambda each: each.transactional_id)

    async def describe(self, transactional_id: str) -> TransactionInfo:
        """One transactional id."""
        answer = await self._calls.get(
            _Transactions, "/transactions", transactional_id=transactional_id
        )
        for each in answer.transactions:
            return _transaction(each)
        raise UnknownTransactionalIdError(f"there is no transactional id {transactional_id!r}")

    async def abort(self, transactional_id: str) -> TransactionInfo:
        """End a transaction that hangs; its producer is fenced."""
        body = {"transactional_id": transactional_id}
        return _transaction(await self._calls.post(_Transaction, "/transactions/abort", body=body))

    async def stats(self) -> TransactionStats:
        """How many transactions and producers there are."""
        return await self._calls.get(TransactionStats, "/transactions/stats")


def _transaction(found: _Transaction) -> TransactionInfo:
    return TransactionInfo(
        found.transactional_id,
        found.transaction_id,
        found.state,
        found.producer_id,
        found.epoch,
        found.transaction_timeout_ms,
        found.started_at or None,
        found.updated_at,
        places(found.partitions),
    )
