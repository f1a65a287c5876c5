"""Produce requests of transactions in a cluster, whose coordinators may be on other nodes.

The first batch of a transaction in a partition waits until the coordinator has let it in. What the
same producer sends behind it keeps its order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.kafka.records.implicit_join import ProduceJoining, Wanted
from goqueue.transactions.cluster.calls import AddRequest

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.transactions.cluster.verification import Verification


class ClusterJoining(ProduceJoining):
    """Verifies that transactions may write, or adds partitions to them, wherever they are."""

    first_version = 3
    """Since there are transactions."""

    def __init__(self, broker: Broker, verification: Verification) -> None:
        super().__init__(broker)
        self._verification = verification

    def _begin(self, wanted: Wanted) -> bool:
        return bool(self._verification.unverified(wanted.identity, wanted.partitions))

    async def _joined(self, wanted: Wanted) -> None:
        unverified = self._verification.unverified(wanted.identity, wanted.partitions)
        if unverified:
            refusal = await self._verification.verify(
                AddRequest(wanted.transactional_id, wanted.identity, tuple(unverified), wanted.adds)
            )
            if refusal is not None:
                raise refusal
