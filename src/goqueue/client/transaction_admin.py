"""Transactions as an administrator sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.client.types import TransactionInfo
from goqueue.model.topic_partition import TopicPartition
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb

if TYPE_CHECKING:
    from goqueue.client.channels import Channels


class AsyncTransactions:
    """`client.transactions`: what an administrator sees."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    async def list(self, *states: str) -> list[TransactionInfo]:
        """The transactional ids in any of the states, by name; without states, all."""
        answer = await self._channels.ask(
            lambda s: s.transactions.ListTransactions,
            pb.ListTransactionsRequest(states=states),
            pb.ListTransactionsResponse,
        )
        return [_info(each) for each in answer.transactions]

    async def describe(self, transactional_id: str) -> TransactionInfo:
        """One transactional id."""
        request = pb.DescribeTransactionRequest(transactional_id=transactional_id)
        return _info(
            await self._channels.ask(
                lambda s: s.transactions.DescribeTransaction, request, pb.Transaction
            )
        )

    async def abort(self, transactional_id: str) -> TransactionInfo:
        """End a transaction that hangs; its producer is fenced."""
        request = pb.AbortTransactionRequest(transactional_id=transactional_id)
        return _info(
            await self._channels.ask(
                lambda s: s.transactions.AbortTransaction, request, pb.Transaction, again=False
            )
        )


def _info(transaction: pb.Transaction) -> TransactionInfo:
    return TransactionInfo(
        transaction.transactional_id,
        transaction.transaction_id,
        transaction.state,
        transaction.producer_id,
        transaction.epoch,
        transaction.transaction_timeout_ms,
        transaction.started_at_ms or None,
        transaction.updated_at_ms,
        tuple(TopicPartition(each.topic, each.partition) for each in transaction.partitions),
    )
