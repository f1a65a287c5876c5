"""Producer ids, and who is writing to a partition."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import (
    GoQueueError,
    InvalidTransactionRequestError,
    TransactionCoordinatorUnavailableError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.context import RequestContext
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.limits import MAX_SMALL_ELEMENTS
from goqueue.protocols.kafka.registry import Waiting, api
from goqueue.protocols.kafka.rights import (
    ID_WRITE,
    IDEMPOTENT_WRITE,
    READ,
    TOPIC_WRITE,
    all_of,
    each_topic,
    within,
)
from goqueue.protocols.kafka.transactions.fenced_codes import known_to
from goqueue.protocols.kafka.turns import Each, encode_in_turns
from goqueue.transactions.messages import Identity, InitRequest
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode
from goqueue.wire.kafka.errors import RequestError
from goqueue.wire.kafka.frames import (
    RequestPrefix,
    has_flexible_header,
    parse_body,
    parse_client_id,
)
from goqueue.wire.kafka.primitives import Cursor

if TYPE_CHECKING:
    from goqueue.broker.log_broker import LogBroker
    from goqueue.partitions.partition import Partition
    from goqueue.protocols.kafka.context import Peer
    from goqueue.protocols.permissions import Permissions
    from goqueue.transactions.service import Transactions
    from goqueue.wire.kafka.frames import Response
    from goqueue.wire.kafka.reading import Struct


_FENCED_FROM: Final = 4


def _refused(ctx: RequestContext, request: Struct, code: ErrorCode) -> Response:
    return {
        "error_code": known_to(ctx.version, code, fenced_from=_FENCED_FROM),
        "producer_id": -1,
        "producer_epoch": -1,
    }


def _undescribed(topic: Struct, code: ErrorCode) -> dict[str, Any]:
    nothing: dict[str, Any] = {"error_code": code, "active_producers": []}
    return {
        "name": topic.name,
        "partitions": [
            {"partition_index": number, **nothing} for number in topic.partition_indexes
        ],
    }


class ProducersApi:
    """Gives producers their identity."""

    def __init__(self, broker: LogBroker, transactions: Transactions | None = None) -> None:
        """Without `transactions`, no producer has a transactional id."""
        self._broker = broker
        self._transactions = transactions

    def init_idempotent(
        self, frame: memoryview, peer: Peer, version: int, correlation_id: int
    ) -> Waiting | None:
        """`init_producer_id` for a producer without a transactional id."""
        cursor = Cursor(frame)
        cursor.elements_left = MAX_SMALL_ELEMENTS
        key = ApiKey.INIT_PRODUCER_ID
        try:
            client_id = parse_client_id(cursor, flexible=has_flexible_header(key, version))
            request = parse_body(cursor, key, version)
        except RequestError:
            return None
        if request.transactional_id is not None or not peer.session.permissions.is_open:
            return None
        ctx = RequestContext(RequestPrefix(key, version, correlation_id), client_id, peer)
        return Waiting(ctx, self.init_producer_id(ctx, request), request)

    @api(
        ApiKey.INIT_PRODUCER_ID,
        right=all_of(
            within(ID_WRITE, note="of the producer, if it has one"),
            within(IDEMPOTENT_WRITE, TOPIC_WRITE, note="if it has none; WRITE on any topic"),
        ),
        on_error=_refused,
        straight=init_idempotent,
    )
    async def init_producer_id(self, ctx: RequestContext, request: Struct) -> Response:
        """An identity: a new one, or the next of a transactional id."""
        if not ctx.may.is_open:
            self._check(ctx.may, request.transactional_id)
        identity = await self._identity(request)
        return {
            "error_code": ErrorCode.none,
            "producer_id": identity.producer_id,
            "producer_epoch": identity.epoch,
        }

    @staticmethod
    def _check(may: Permissions, transactional_id: str | None) -> None:
        """Refuse an identity to a client that may write nothing with it."""
        if transactional_id is not None:
            may.require(ID_WRITE, transactional_id)
        else:
            may.require(IDEMPOTENT_WRITE)

    async def _identity(self, request: Struct) -> Identity:
        if request.transactional_id is None:
            # One that a client had before is not continued, as in Kafka.
            return Identity(await self._broker.producer_ids.allocate(), 0)
        if self._transactions is None:
            raise TransactionCoordinatorUnavailableError(
                "the transaction coordinator has not started yet; try again"
            )
        expected = Identity(request.producer_id, request.producer_epoch)
        if (expected.producer_id < 0) != (expected.epoch < 0):
            raise InvalidTransactionRequestError(
                f"producer id {expected.producer_id} and epoch {expected.epoch}: give both or none"
            )
        return await self._transactions.init_producer(
            InitRequest(
                transactional_id=request.transactional_id,
                timeout_ms=request.transaction_timeout_ms,
                expected=None if expected.producer_id < 0 else expected,
            )
        )

    @api(ApiKey.DESCRIBE_PRODUCERS, right=each_topic(READ, _undescribed))
    async def describe_producers(self, ctx: RequestContext, request: Struct) -> Response:
        """The idempotent producers that a partition remembers."""
        numbers: defaultdict[str, dict[int, None]] = defaultdict(dict)
        for topic in request.topics:
            numbers[topic.name].update(dict.fromkeys(topic.partition_indexes))

        def describe(name: str) -> dict[str, Any]:
            places = [TopicPartition(name, number) for number in numbers[name]]
            return {"name": name, "partitions": Each(places, self._describe)}

        return await encode_in_turns(ctx, {"topics": Each(list(numbers), describe)})

    def _describe(self, partition_id: TopicPartition) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "partition_index": partition_id.partition,
            "error_code": ErrorCode.none,
            "error_message": None,
            "active_producers": [],
        }
        try:
            partition = self._broker.partitions.partition(partition_id)
        except GoQueueError as error:
            return {**answer, "error_code": code_for(error), "error_message": str(error)}
        answer["active_producers"] = [
            {
                "producer_id": producer_id,
                "producer_epoch": state.epoch,
                "last_sequence": state.last_sequence,
                "last_timestamp": state.last_timestamp_ms,
                "coordinator_epoch": state.coordinator_epoch,
                "current_txn_start_offset": _first_offset(partition, producer_id),
            }
            for producer_id, state in partition.sequences
        ]
        return answer


def _first_offset(partition: Partition, producer_id: int) -> int:
    first = partition.transactions.first_of(producer_id)
    return -1 if first is None else first
