"""What coordinators and leaders of partitions ask each other about transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import (
    ConcurrentTransactionsError,
    FencedProducerError,
    FencedTransactionError,
    GoQueueError,
    InvalidTransactionStateError,
    TransactionCoordinatorUnavailableError,
    UnknownProducerError,
)
from goqueue.model.topic_partition import TopicPartition, numbers_by_topic
from goqueue.model.tuples import NamedTuple
from goqueue.partitions.markers import Marker
from goqueue.transactions.cluster.batched_calls import BatchedCalls
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goqueue.topics.routes import Routes
    from goqueue.transactions.messages import Ending, Identity
    from goqueue.wire.kafka.reading import Struct

_ADD_PARTITIONS_VERSION: Final = 4
_WRITE_MARKERS_VERSION: Final = 1
_COMMIT_WAIT_S: Final = 3.0
"""Markers are answered when they are committed, or after a while that they are not."""

_REFUSALS: Final[dict[int, type[GoQueueError]]] = {
    ErrorCode.invalid_producer_id_mapping: UnknownProducerError,
    ErrorCode.invalid_txn_state: InvalidTransactionStateError,
    ErrorCode.producer_fenced: FencedTransactionError,
    ErrorCode.invalid_producer_epoch: FencedProducerError,
    ErrorCode.concurrent_transactions: ConcurrentTransactionsError,
}


class AddRequest(NamedTuple):
    """Partitions that a producer writes to, in the transaction of an id."""

    transactional_id: str
    identity: Identity
    places: tuple[TopicPartition, ...]
    adds: bool
    """They are added to the transaction; otherwise they must have been."""


class EndingPart(NamedTuple):
    """The part of a decided transaction that one node carries out."""

    ending: Ending
    places: tuple[TopicPartition, ...]
    coordinator_epoch: int


class TransactionCalls:
    """Asks other nodes; what is asked of one node at the same time goes together."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._adding = BatchedCalls[AddRequest, int](self._add)
        self._ending = BatchedCalls[EndingPart, dict[TopicPartition, int]](self._end)

    async def add(self, node_id: int, request: AddRequest) -> None:
        """Let the coordinator on a node add partitions to a transaction, or look for them.

        Raises:
            TransactionError: it refuses.
            ClusterError: it cannot be reached.
        """
        code = await self._adding.ask(node_id, request)
        if code:
            raise refusal_of(code, node_id, request)

    async def end(self, node_id: int, part: EndingPart) -> dict[TopicPartition, int]:
        """Let a node end a transaction in its partitions; returns the error code of each.

        Raises:
            ClusterError: it cannot be reached.
        """
        return await self._ending.ask(node_id, part)

    async def stop(self) -> None:
        """Ask nothing more."""
        await self._adding.stop()
        await self._ending.stop()

    async def _add(self, node_id: int, requests: Sequence[AddRequest]) -> list[int]:
        answer = await self._routes.peers.ask(
            node_id,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            _ADD_PARTITIONS_VERSION,
            transactions=[
                {
                    "transactional_id": each.transactional_id,
                    "producer_id": each.identity.producer_id,
                    "producer_epoch": each.identity.epoch,
                    "verify_only": not each.adds,
                    "topics": _topics(each.places, "name", "partitions"),
                }
                for each in requests
            ],
        )
        results = answer.results_by_transaction
        return [answer.error_code or _worst(each) for each in results]

    async def _end(
        self, node_id: int, parts: Sequence[EndingPart]
    ) -> list[dict[TopicPartition, int]]:
        answer = await self._routes.peers.ask(
            node_id,
            ApiKey.WRITE_TXN_MARKERS,
            _WRITE_MARKERS_VERSION,
            wait_s=_COMMIT_WAIT_S,
            markers=[
                {
                    "producer_id": part.ending.identity.producer_id,
                    "producer_epoch": part.ending.identity.epoch,
                    "transaction_result": part.ending.marker is Marker.COMMIT,
                    "coordinator_epoch": part.coordinator_epoch,
                    "topics": _topics(part.places, "name", "partition_indexes"),
                }
                for part in parts
            ],
        )
        return [
            {
                TopicPartition(topic.name, each.partition_index): each.error_code
                for topic in marker.topics
                for each in topic.partitions
            }
            for marker in answer.markers
        ]


def refusal_of(code: int, node_id: int, request: AddRequest) -> GoQueueError:
    """What the coordinator on another node has said, as an error of this one."""
    kind = _REFUSALS.get(code, TransactionCoordinatorUnavailableError)
    name = ErrorCode(code).name
    return kind(
        f"the coordinator of {request.transactional_id!r} on node {node_id} refuses producer "
        f"{request.identity} in {', '.join(map(str, request.places))}: {name}"
    )


def _worst(result: Struct) -> int:
    """The first refusal among those of the partitions; as a rule they are all the same."""
    codes = (
        each.partition_error_code
        for topic in result.topic_results
        for each in topic.results_by_partition
    )
    return next((int(code) for code in codes if code), 0)


def _topics(places: Sequence[TopicPartition], name: str, numbers: str) -> list[dict[str, Any]]:
    return [
        {name: topic, numbers: list(found)} for topic, found in numbers_by_topic(places).items()
    ]
