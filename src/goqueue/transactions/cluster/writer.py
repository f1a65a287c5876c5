"""Messages in transactions over HTTP and gRPC, to partitions that any node leads.

The number of a message continues what is in the log of its partition, which its leader knows. So
the messages of one producer are published one request after the other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from goqueue.model.topic_partition import TopicPartition
from goqueue.publishing.handover import Handover
from goqueue.transactions.writer import TransactionWriter

if TYPE_CHECKING:
    from goqueue.publishing.targets import Targets
    from goqueue.transactions.writer import TransactionMessages, TransactionPublished


class ClusterTransactionWriter(TransactionWriter):
    """Publishes messages as part of a transaction that this node coordinates."""

    def __init__(self, *common: Any, targets: Targets) -> None:
        super().__init__(*common)
        self._targets = targets
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        """Of each producer with a request under way."""

    async def _numbered(
        self, asked: TransactionMessages, sequences: dict[int, int] | None
    ) -> TransactionPublished:
        if sequences is not None:
            return await self._store(asked, sequences)
        turn = self._turns.setdefault(asked.identity.producer_id, asyncio.Lock())
        async with turn:
            handover = Handover(*asked.identity)
            targets = [
                self._targets.of(TopicPartition(asked.topic_name, number))
                for number in asked.portions
            ]
            found = await asyncio.gather(*(each.position(handover) for each in targets))
            numbers = zip(asked.portions, (each.next_sequence for each in found), strict=True)
            return await self._store(asked, dict(numbers))
