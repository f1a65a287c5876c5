"""Stored batches of a replica in either role, for another whose own are damaged."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from goqueue.model.errors import DamagedRangeError, GoQueueError
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import NODES
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.partitions.partitions import Partitions
    from goqueue.protocols.kafka.context import RequestContext, Response
    from goqueue.topics.catalogue import Topics
    from goqueue.wire.kafka.reading import Struct

_ANSWER_BYTES: Final = 1024 * 1024
"""Of batches in one answer, unless a single one is larger."""


class BatchesApi:
    """Reads what is open here; what turns out to be damaged here too is reported."""

    def __init__(self, topics: Topics, partitions: Partitions) -> None:
        self._topics = topics
        self._partitions = partitions

    @api(ApiKey.READ_BATCHES, 0, 0, right=NODES)
    async def read_batches(self, _ctx: RequestContext, request: Struct) -> Response:
        """The batches from an offset on."""
        topic = self._topics.catalogue.by_id.get(request.topic_id)
        name = "" if topic is None else topic.name
        partition = self._partitions.find(TopicPartition(name, request.partition_index))
        if partition is None:
            return _answer(ErrorCode.unknown_topic_or_partition)
        try:
            region = partition.read(request.offset, _ANSWER_BYTES)
            if region is None:
                return _answer(ErrorCode.offset_out_of_range)
            return _answer(ErrorCode.none, (await asyncio.to_thread(region.load)).data)
        except DamagedRangeError as error:
            partition.report_damage(error)
            return _answer(ErrorCode.corrupt_message)
        except GoQueueError as error:
            return _answer(code_for(error))


def _answer(code: ErrorCode, batches: bytes | bytearray = b"") -> Response:
    return {"throttle_time_ms": 0, "error_code": code, "batches": bytes(batches)}
