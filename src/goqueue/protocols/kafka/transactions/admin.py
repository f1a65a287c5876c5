"""Transactions for administrators: list, describe, and end by hand what hangs."""

from __future__ import annotations

from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError
from goqueue.model.patterns import whole_match
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.markers import Marker
from goqueue.protocols.kafka.errors import ErrorCode, code_for
from goqueue.protocols.kafka.limits import MAX_PATTERN_CHARS
from goqueue.protocols.kafka.registry import api
from goqueue.protocols.kafka.rights import (
    ALTER,
    CLUSTER_ACTION,
    DESCRIBE,
    ID_DESCRIBE,
    TOPIC_DESCRIBE,
    all_of,
    cluster,
    each_transactional_id,
    within,
)
from goqueue.protocols.kafka.turns import Each, encode_in_turns
from goqueue.transactions.marker_writer import MarkerRequest, MarkerWriter
from goqueue.transactions.messages import TransactionFilter, TransactionView
from goqueue.transactions.states import TransactionState
from goqueue.transactions.transaction import by_topic
from goqueue.wire.kafka.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct
    from goqueue.protocols.permissions import Permissions

_RENEWING_VERSION: Final = 2


def _listed(line: TransactionView) -> dict[str, Any]:
    return {
        "transactional_id": line.transactional_id,
        "producer_id": line.producer_id,
        "transaction_state": line.state,
    }


def _undescribed(transactional_id: Any, code: ErrorCode) -> dict[str, Any]:
    return {
        "error_code": code,
        "transactional_id": transactional_id,
        "transaction_state": "",
        "transaction_timeout_ms": 0,
        "transaction_start_time_ms": -1,
        "producer_id": -1,
        "producer_epoch": -1,
        "topics": [],
    }


def _unwritten(_ctx: RequestContext, request: Struct, code: ErrorCode) -> Response:
    return _markers(request, repeat(code))


def _markers(request: Struct, codes: Iterator[ErrorCode]) -> dict[str, Any]:
    """What became of each marker of a request, in its order."""
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [
                    {
                        "name": topic.name,
                        "partitions": [
                            {"partition_index": number, "error_code": next(codes)}
                            for number in topic.partition_indexes
                        ],
                    }
                    for topic in marker.topics
                ],
            }
            for marker in request.markers
        ]
    }


class TransactionAdminApi:
    """Shows transactions, and ends them."""

    def __init__(self, broker: Broker) -> None:
        self._transactions = broker.transactions
        self._markers = MarkerWriter(broker.partitions, broker.groups)

    @api(ApiKey.LIST_TRANSACTIONS, right=within(ID_DESCRIBE, note="the ids that it covers"))
    async def list_transactions(self, ctx: RequestContext, request: Struct) -> Response:
        """The transactional ids that the filters let through."""
        states = {state.value for state in TransactionState}
        pattern = request.transactional_id_pattern
        wanted = TransactionFilter(
            states=frozenset(request.state_filters),
            producer_ids=frozenset(request.producer_id_filters),
            min_duration_ms=request.duration_filter,
        )
        if pattern:
            matches = whole_match(pattern, max_chars=MAX_PATTERN_CHARS)
            wanted = TransactionFilter(
                wanted.states, wanted.producer_ids, wanted.min_duration_ms, matches
            )
        listed = await self._transactions.listed(wanted)
        found = ctx.may.visible(ID_DESCRIBE, listed, lambda line: line.transactional_id)
        return await encode_in_turns(
            ctx,
            {
                "error_code": ErrorCode.none,
                "unknown_state_filters": sorted(wanted.states - states),
                "transaction_states": Each(found, _listed),
            },
        )

    @api(
        ApiKey.DESCRIBE_TRANSACTIONS,
        right=all_of(
            each_transactional_id(
                DESCRIBE, _undescribed, array="transactional_ids", answers="transaction_states"
            ),
            within(TOPIC_DESCRIBE, note="the topics that it covers"),
        ),
    )
    async def describe_transactions(self, ctx: RequestContext, request: Struct) -> Response:
        """Each transactional id that was asked for."""
        asked = list(dict.fromkeys(request.transactional_ids))
        await self._transactions.told(lambda: None)
        return await encode_in_turns(
            ctx, {"transaction_states": Each(asked, partial(self._describe, ctx.may))}
        )

    def _describe(self, may: Permissions, transactional_id: str) -> dict[str, Any]:
        try:
            found = self._transactions.describe(transactional_id)
        except GoQueueError as error:
            return _undescribed(transactional_id, code_for(error))
        return {
            "error_code": ErrorCode.none,
            "transactional_id": transactional_id,
            "transaction_state": found.state,
            "transaction_timeout_ms": found.timeout_ms,
            "transaction_start_time_ms": found.started_ms,
            "producer_id": found.producer_id,
            "producer_epoch": found.epoch,
            "topics": [
                {"topic": topic, "partitions": list(numbers)}
                for topic, numbers in by_topic(found.partitions)
                if may.allows(TOPIC_DESCRIBE, topic)
            ],
        }

    @api(ApiKey.WRITE_TXN_MARKERS, right=cluster(ALTER, CLUSTER_ACTION), on_error=_unwritten)
    async def write_txn_markers(self, ctx: RequestContext, request: Struct) -> Response:
        """End transactions in single partitions.

        A coordinator ends what it has decided, an administrator aborts one that hangs.
        """
        asked = [
            MarkerRequest(
                TopicPartition(topic.name, number),
                marker.producer_id,
                marker.producer_epoch,
                Marker.COMMIT if marker.transaction_result else Marker.ABORT,
                marker.coordinator_epoch,
                (marker.transaction_version or 0) >= _RENEWING_VERSION,
            )
            for marker in request.markers
            for topic in marker.topics
            for number in topic.partition_indexes
        ]
        return _markers(request, map(_code, await self._markers.write(asked)))


def _code(outcome: GoQueueError | None) -> ErrorCode:
    return ErrorCode.none if outcome is None else code_for(outcome)
