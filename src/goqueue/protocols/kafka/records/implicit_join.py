"""Partitions that a Produce request adds to its transaction (KIP-890, transaction.version 2).

From version 12 on a transactional producer does not call AddPartitionsToTxn: the broker adds the
partitions that the request writes to. As a rule that costs nothing but a look. Under
`fsync=always` the first write to a partition waits until the coordinator's log is on the disk; the
requests of the same producer behind it keep their order, because its batches are numbered.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeAlias

from goqueue.model.errors import (
    BatchError,
    ConcurrentTransactionsError,
    FencedTransactionError,
    GoQueueError,
    InvalidTransactionStateError,
    TopicError,
    TransactionCoordinatorUnavailableError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.model.tuples import NamedTuple
from goqueue.protocols.kafka.errors import code_for
from goqueue.records.batch import BatchInfo, peek
from goqueue.transactions.messages import Identity
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.frames import Bare, Encoded, Response, Whole

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from goqueue.broker.broker import Broker
    from goqueue.topics.catalogue import Topics
    from goqueue.wire.kafka.produce import ProduceRequest, TopicData

    Written: TypeAlias = Response | Awaitable[Response | None] | None
    """The answer, or what it has to be waited for with."""

IMPLICIT_FROM: Final = 12
_ABORTABLE_FROM: Final = 11


class Wanted(NamedTuple):
    """What a request writes to, as part of whose transaction."""

    transactional_id: str
    identity: Identity
    partitions: tuple[TopicPartition, ...]
    adds: bool = True
    """The partitions are added; otherwise they must have been, which is verified in a cluster."""


class ProduceJoining:
    """Adds partitions to transactions before anything is written to them."""

    first_version = IMPLICIT_FROM
    """The first version of Produce of which requests come here."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._transactions = broker.transactions
        self._turns: dict[int, asyncio.Future[None]] = {}
        """Of each producer with a request that waits: when the last of them has written. As many
        as there are such requests, which the listener bounds."""

    def wanted(self, request: ProduceRequest, version: int) -> Wanted | None:
        """What a request adds to its transaction; None when nothing in it is transactional."""
        identity: Identity | None = None
        partitions = []
        for topic in request.topics:
            for data in topic.partitions:
                try:
                    place = TopicPartition(name_of(self._broker.topics, topic), data.partition)
                    info = self._transactional(place, data.records)
                except (BatchError, TopicError):
                    continue  # whoever publishes it is told why not
                if info is not None:
                    identity = Identity(info.producer_id, info.producer_epoch)
                    partitions.append(place)
        if identity is None or request.transactional_id is None:
            return None
        adds = version >= IMPLICIT_FROM
        return Wanted(request.transactional_id, identity, tuple(partitions), adds)

    def _transactional(self, place: TopicPartition, records: memoryview | None) -> BatchInfo | None:
        info = None if records is None else peek(records)
        if info is None or not info.is_transactional:
            return None
        topic, _ = self._broker.partitions.resolve(place)
        return None if topic.is_internal else info

    def run(self, wanted: Wanted, write: Callable[[GoQueueError | None], Written]) -> Written:
        """Write once the partitions are part of the transaction; `write` hears why they are not."""
        before = self._turns.get(wanted.identity.producer_id)
        if before is None:
            try:
                if not self._begin(wanted):
                    return write(None)
            except GoQueueError as error:
                return write(error)
        mine = self._turns[wanted.identity.producer_id] = asyncio.Future()
        task = asyncio.ensure_future(self._in_turn(wanted, before, mine, write))
        task.add_done_callback(lambda _: self._end_turn(wanted, mine))
        return task

    def _begin(self, wanted: Wanted) -> bool:
        """Join at once if that is possible; whether there is something to wait for."""
        return self._transactions.join(wanted.transactional_id, wanted.identity, wanted.partitions)

    async def _joined(self, wanted: Wanted) -> None:
        """Return when what is wanted may be written, or raise why it may not."""
        if self._begin(wanted):
            await self._transactions.durable(wanted.transactional_id)

    async def _in_turn(
        self,
        wanted: Wanted,
        before: asyncio.Future[None] | None,
        mine: asyncio.Future[None],
        write: Callable[[GoQueueError | None], Written],
    ) -> Response | None:
        if before is not None:
            await asyncio.wait((before,))
        refusal: GoQueueError | None = None
        try:
            await self._joined(wanted)
        except GoQueueError as error:
            refusal = error
        written = write(refusal)
        self._end_turn(wanted, mine)
        if written is None or isinstance(written, Encoded | dict | Bare | Whole):
            return written
        return await written

    def _end_turn(self, wanted: Wanted, mine: asyncio.Future[None]) -> None:
        if not mine.done():
            mine.set_result(None)
        if self._turns.get(wanted.identity.producer_id) is mine:
            del self._turns[wanted.identity.producer_id]


def name_of(topics: Topics, topic: TopicData) -> str:
    """What a topic is called that a request may name by its id. Raises `UnknownTopicError`."""
    if topic.topic_id is not None:
        return topics.catalogue.topic_with_id(topic.topic_id).name
    return topic.name or ""


def code_of(error: GoQueueError, version: int) -> ErrorCode:
    """What a producer is told; as in Kafka, in words that producers know what to do with."""
    if isinstance(error, FencedTransactionError):
        return ErrorCode.invalid_producer_epoch
    if isinstance(error, ConcurrentTransactionsError | TransactionCoordinatorUnavailableError):
        return ErrorCode.not_enough_replicas  # every producer tries again after that
    if isinstance(error, InvalidTransactionStateError) and version >= _ABORTABLE_FROM:
        return ErrorCode.transaction_abortable
    return code_for(error)
