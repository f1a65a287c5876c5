"""What the coordinators of this node know of producers, for nodes that know only their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import NODES
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.protocols.kafka.context import RequestContext, Response
    from goqueue.transactions.service import Transactions
    from goqueue.wire.kafka.reading import Struct


class FindProducersApi:
    """Answers for the partitions of the transactions' topic that are led and loaded here."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    @api(ApiKey.FIND_PRODUCERS, 0, 0, right=NODES)
    async def find_producers(self, _ctx: RequestContext, request: Struct) -> Response:
        """The producers that are known here, and which partitions that is said for."""
        asked = [each.producer_id for each in request.producers]
        found = await self._transactions.told(lambda: self._transactions.find_here(asked))
        return {
            "throttle_time_ms": 0,
            "error_code": ErrorCode.none,
            "shards": [{"number": each} for each in sorted(found.shards)],
            "producers": [
                {
                    "transactional_id": each.transactional_id,
                    "producer_id": each.producer_id,
                    "is_open": each.is_open,
                    "partitions": [
                        {"topic": topic, "partition_index": number}
                        for topic, number in sorted(each.partitions)
                    ],
                }
                for each in found.producers
            ],
        }
