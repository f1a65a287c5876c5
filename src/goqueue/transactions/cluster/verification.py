"""The first batch of a transaction in a partition: the leader asks the coordinator about it.

A batch that arrives after its transaction has ended would open another one that nobody ends. So
the leader lets a producer's batches in only once the coordinator has said that the transaction is
open for the partition; later ones follow without a question (KIP-890). Between the question and
the batch the transaction may end: its marker takes the permission away, and so does another leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from goqueue.model.errors import (
    ConcurrentTransactionsError,
    GoQueueError,
    TransactionCoordinatorUnavailableError,
)
from goqueue.transactions.registry import unknown_producer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from goqueue.model.topic_partition import TopicPartition
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.records.batch import BatchInfo
    from goqueue.transactions.cluster.calls import AddRequest
    from goqueue.transactions.messages import Identity


class _Permission(msgspec.Struct, eq=False):
    """What a leader knows of a transaction that has no batch in its partition yet."""

    epoch: int
    """Of the producer."""
    leader_epoch: int
    is_given: bool = False


class Verification:
    """Lets transactions into the partitions that this node leads."""

    def __init__(
        self, partitions: Partitions, ask: Callable[[AddRequest], Awaitable[None]]
    ) -> None:
        """`ask` asks the coordinator of an id, wherever it is, and raises its refusal."""
        self._partitions = partitions
        self._ask = ask

    def unverified(
        self, identity: Identity, places: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Of partitions, those that a producer's transaction is not known to be open in."""
        return [
            place
            for place in places
            if (partition := self._partitions.find(place)) is not None
            and not _is_open(partition, *identity)
        ]

    async def verify(self, request: AddRequest) -> GoQueueError | None:
        """Ask the coordinator about partitions; returns why the producer may not write there."""
        producer_id, epoch = request.identity
        asked: list[tuple[Partition, _Permission]] = []
        for place in request.places:
            partition = self._partitions.find(place)
            if partition is not None:
                permission = _Permission(epoch, partition.leader_epoch)
                partition.verifying[producer_id] = permission
                asked.append((partition, permission))
        try:
            await self._ask(request)
        except GoQueueError as error:
            for partition, permission in asked:
                if partition.verifying.get(producer_id) is permission:
                    del partition.verifying[producer_id]
            return error
        for partition, permission in asked:
            if partition.verifying.get(producer_id) is not permission:
                return ConcurrentTransactionsError(
                    f"a transaction of producer {producer_id} ended in {partition.id} while it was "
                    "verified; send the batch again"
                )
            permission.is_given = True
        return None

    def check(self, info: BatchInfo, place: TopicPartition) -> None:
        """Let a batch in that belongs to a transaction which is known to be open here.

        Raises:
            UnknownProducerError: it is nobody's.
            TransactionCoordinatorUnavailableError: it is not known; whoever sends it asks first.
        """
        if info.producer_id < 0:
            raise unknown_producer(info.producer_id)
        partition = self._partitions.partition(place)
        if _is_open(partition, info.producer_id, info.producer_epoch):
            return
        permission = partition.verifying.pop(info.producer_id, None)
        if (
            not isinstance(permission, _Permission)
            or not permission.is_given
            or permission.epoch != info.producer_epoch
            or permission.leader_epoch != partition.leader_epoch
        ):
            raise TransactionCoordinatorUnavailableError(
                f"the transaction of producer {info.producer_id} in {place} is not verified; send "
                "the batch again"
            )


def _is_open(partition: Partition, producer_id: int, epoch: int) -> bool:
    """Whether a batch of this epoch is in the log, and no marker behind it."""
    return (
        partition.transactions.first_of(producer_id) is not None
        and partition.sequences.epoch_of(producer_id) == epoch
    )
