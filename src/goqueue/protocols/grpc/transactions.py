"""TransactionService: producers, and their transactions from begin to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.protocols.grpc.conversions import outcome, publish_response
from goqueue.protocols.grpc.errors import InvalidRequestError
from goqueue.protocols.grpc.publish_requests import Incoming
from goqueue.protocols.grpc.rights import ID_DESCRIBE, ID_WRITE, TOPIC_DESCRIBE, caller
from goqueue.protocols.own_producers import own_transactional_id
from goqueue.transactions.messages import Identity, InitRequest, TransactionFilter, TransactionView
from goqueue.transactions.states import TransactionState
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import TransactionServiceServicer

if TYPE_CHECKING:
    from grpc.aio import ServicerContext

    from goqueue.broker.broker import Broker
    from goqueue.runtime.tasks import Turns

HEARTBEAT_MS: Final = 3000
"""How often a producer with an open transaction is told to be heard of."""


class TransactionService(TransactionServiceServicer):
    """Producers and their transactions."""

    def __init__(self, broker: Broker, turns: Turns) -> None:
        self._broker = broker
        self._incoming = Incoming(broker.clock, turns)
        self._transactions = broker.transactions

    # --- Producers -------------------------------------------------------------------------------

    async def InitProducer(
        self, request: pb.InitTransactionalProducerRequest, context: ServicerContext[Any, Any]
    ) -> pb.TransactionalProducer:
        """Give a transactional id to a producer; whoever had it is fenced."""
        settings = self._transactions.settings
        identity = await self._transactions.init_producer(
            InitRequest(
                transactional_id=request.transactional_id,
                timeout_ms=request.transaction_timeout_ms or settings.default_timeout_ms,
                session_timeout_ms=settings.session_timeout_ms,
            )
        )
        return pb.TransactionalProducer(
            producer_id=identity.producer_id,
            epoch=identity.epoch,
            session_timeout_ms=settings.session_timeout_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )

    async def Heartbeat(
        self, request: pb.TransactionRequest, context: ServicerContext[Any, Any]
    ) -> pb.Transaction:
        """Be heard of, so that an open transaction is not taken for abandoned."""
        transactional_id, identity = await self._who(request)
        self._transactions.heartbeat(transactional_id, identity)
        return self._described(transactional_id)

    async def _who(
        self, request: pb.TransactionRequest | pb.AbortTransactionRequest
    ) -> tuple[str, Identity]:
        identity = _identity(request.producer)
        return await self._own_id(identity, request.transactional_id), identity

    async def _own_id(self, identity: Identity, claimed: str | None = None) -> str:
        """The transactional id of a producer, which must be the client's."""
        return await own_transactional_id(
            self._transactions, caller(), identity.producer_id, claimed
        )

    def _described(self, transactional_id: str) -> pb.Transaction:
        return _transaction(self._transactions.describe(transactional_id))

    # --- One transaction -------------------------------------------------------------------------

    async def BeginTransaction(
        self, request: pb.TransactionRequest, context: ServicerContext[Any, Any]
    ) -> pb.Transaction:
        """Open a transaction; a producer can have one at a time."""
        transactional_id, identity = await self._who(request)
        await self._transactions.begin(transactional_id, identity)
        return self._described(transactional_id)

    async def AddPartition(
        self, request: pb.AddPartitionRequest, context: ServicerContext[Any, Any]
    ) -> pb.Transaction:
        """Say that the transaction writes to a partition."""
        identity = _identity(request.producer)
        transactional_id = await self._own_id(identity)
        place = TopicPartition(request.topic, request.partition)
        self._broker.topics.catalogue.require(place)
        await self._transactions.add_partitions(transactional_id, identity, [place])
        return self._described(transactional_id)

    async def Publish(
        self, request: pb.TransactionalPublishRequest, context: ServicerContext[Any, Any]
    ) -> pb.TransactionalPublishResponse:
        """Publish messages that count with the commit."""
        identity = _identity(request.producer)
        if not caller().is_open:
            await self._own_id(identity)
        published = await self._broker.transaction_writer.publish(
            identity,
            request.topic,
            await self._incoming.rows(request.messages),
            request.first_sequence if request.HasField("first_sequence") else None,
        )
        return pb.TransactionalPublishResponse(
            results=publish_response(0, published.results).results, duplicate=published.duplicate
        )

    async def SendOffsets(
        self, request: pb.SendOffsetsRequest, context: ServicerContext[Any, Any]
    ) -> pb.SendOffsetsResponse:
        """Say how far a group has read; it counts with the commit."""
        offsets = {
            TopicPartition(each.topic, each.partition): each.offset for each in request.offsets
        }
        identity = _identity(request.producer)
        if not caller().is_open:
            await self._own_id(identity)
        outcomes = await self._broker.transaction_offsets.stage(
            identity,
            request.group,
            offsets,
            member_id=request.member_id or None,
            generation=request.generation if request.HasField("generation") else None,
        )
        return pb.SendOffsetsResponse(
            outcomes=(
                outcome(TopicPartition(*place), error) for place, error in outcomes.partitions
            )
        )

    async def CommitTransaction(
        self, request: pb.TransactionRequest, context: ServicerContext[Any, Any]
    ) -> pb.Transaction:
        """Let everything of the transaction count."""
        transactional_id, identity = await self._who(request)
        await self._transactions.end(transactional_id, identity, Marker.COMMIT)
        return self._described(transactional_id)

    async def AbortTransaction(
        self, request: pb.AbortTransactionRequest, context: ServicerContext[Any, Any]
    ) -> pb.Transaction:
        """Let nothing of it count; without a producer, an administrator ends what hangs."""
        if request.HasField("producer"):
            transactional_id, identity = await self._who(request)
            await self._transactions.end(transactional_id, identity, Marker.ABORT)
            return self._described(transactional_id)
        caller().require(ID_WRITE, request.transactional_id)
        await self._transactions.abort(request.transactional_id)
        return self._described(request.transactional_id)

    # --- Looking ---------------------------------------------------------------------------------

    async def ListTransactions(
        self, request: pb.ListTransactionsRequest, context: ServicerContext[Any, Any]
    ) -> pb.ListTransactionsResponse:
        """The transactional ids and where each stands, by name."""
        known = {state.value for state in TransactionState}
        unknown = sorted(set(request.states) - known)
        if unknown:
            raise InvalidRequestError(f"states: {unknown} are none of {sorted(known)}")
        wanted = TransactionFilter(frozenset(request.states))
        found = await self._transactions.listed(wanted)
        found = caller().visible(ID_DESCRIBE, found, lambda each: each.transactional_id)
        found.sort(key=lambda each: each.transactional_id)
        return pb.ListTransactionsResponse(transactions=map(_transaction, found))

    async def DescribeTransaction(
        self, request: pb.DescribeTransactionRequest, context: ServicerContext[Any, Any]
    ) -> pb.Transaction:
        """One transactional id."""
        return self._described(request.transactional_id)


def _identity(producer: pb.ProducerIdentity) -> Identity:
    return Identity(producer.producer_id, producer.epoch)


def _transaction(view: TransactionView) -> pb.Transaction:
    """A transactional id, with the topics that the client may see."""
    may = caller()
    return pb.Transaction(
        transactional_id=view.transactional_id,
        transaction_id=view.transaction_id,
        producer_id=view.producer_id,
        epoch=view.epoch,
        state=view.state,
        transaction_timeout_ms=view.timeout_ms,
        started_at_ms=max(view.started_ms, 0),
        updated_at_ms=view.updated_ms,
        partitions=(
            pb.TopicPartition(topic=topic, partition=number)
            for topic, number in view.partitions
            if may.allows(TOPIC_DESCRIBE, topic)
        ),
    )
