"""Producer ids, and who is writing to a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from goqueue.broker.partition import PartitionId
from goqueue.model.errors import GoQueueError, InvalidTransactionRequestError
from goqueue.protocols.kafka.api_keys import ApiKey
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import api

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.codec import Response
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.protocols.kafka.reading import Struct


class ProducersApi:
    """Gives idempotent producers their identity."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @api(ApiKey.INIT_PRODUCER_ID, 0, 5)
    async def init_producer_id(self, ctx: RequestContext, request: Struct) -> Response:
        """A new identity; one that a client had before is not continued, as in Kafka."""
        if request.transactional_id is not None:
            raise InvalidTransactionRequestError("transactions are not served by this broker")
        producer_id = await self._broker.producer_ids.allocate()
        return {"error_code": ErrorCode.none, "producer_id": producer_id, "producer_epoch": 0}

    @api(ApiKey.DESCRIBE_PRODUCERS, 0, 0)
    def describe_producers(self, ctx: RequestContext, request: Struct) -> Response:
        """The idempotent producers that a partition remembers."""
        return {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        self._describe(PartitionId(topic.name, number))
                        for number in topic.partition_indexes
                    ],
                }
                for topic in request.topics
            ]
        }

    def _describe(self, partition_id: PartitionId) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "partition_index": partition_id.number,
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
                "coordinator_epoch": -1,
                "current_txn_start_offset": -1,
            }
            for producer_id, state in partition.sequences
        ]
        return answer
