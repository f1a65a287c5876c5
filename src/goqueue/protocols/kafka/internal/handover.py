"""Messages that another node moves to a partition that this one leads, and what became of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError, OutOfOrderSequenceError, UnknownTopicError
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import NODES
from goqueue.publishing.delayed import Origin, SplitBatch
from goqueue.publishing.handover import Handover
from goqueue.publishing.remote_target import NOWHERE
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.protocols.kafka.context import RequestContext, Response
    from goqueue.publishing.local_target import LocalTarget
    from goqueue.publishing.targets import Targets
    from goqueue.topics.catalogue import Topics
    from goqueue.wire.kafka.reading import Struct

_DONE: Final = {"error_code": ErrorCode.none, "error_name": "", "error_message": ""}


class HandoverApi:
    """Serves `goqueue.publishing.remote_target.RemoteTarget` of the other nodes."""

    def __init__(self, topics: Topics, targets: Targets) -> None:
        self._topics = topics
        self._targets = targets

    @api(ApiKey.HAND_OVER, 0, 0, right=NODES)
    async def hand_over(self, _ctx: RequestContext, request: Struct) -> Response:
        """Store a batch; it is committed when this is answered."""
        try:
            target, batch = self._target(request), bytearray(request.batch)
            if request.is_published:
                placed = await target.publish(
                    batch, delivery=request.delivery, traced=request.traced
                )
            else:
                if (refusal := target.partition.not_enough) is not None:
                    raise refusal.with_traceback(None)
                placed = await target.append(batch)
            if placed.duplicate:
                raise OutOfOrderSequenceError(
                    f"{target.id}: another batch has the sequence of one that was moved there"
                )
        except GoQueueError as error:
            return _refused(error, first_offset=-1, end_offset=-1)
        return {
            **_DONE,
            "first_offset": placed.first_offset,
            "end_offset": placed.end_offset,
        }

    @api(ApiKey.FIND_BATCHES, 0, 0, right=NODES)
    async def find_batches(self, _ctx: RequestContext, request: Struct) -> Response:
        """Where the next batch of a producer goes, or which ones the committed log has."""
        try:
            target = self._target(request)
            handover = Handover(request.producer_id, request.producer_epoch)
            found: set[int] = set()
            if request.from_offset != NOWHERE:
                found = await target.found(
                    handover.producer_id, handover.epoch, request.from_offset
                )
            position = target.known_position(handover)
        except GoQueueError as error:
            return _refused(error, next_sequence=-1, end_offset=-1, batches=[])
        return {
            **_DONE,
            "next_sequence": position.next_sequence,
            "end_offset": position.end_offset,
            "batches": [{"base_sequence": each} for each in sorted(found)],
        }

    @api(ApiKey.FIND_RESTS, 0, 0, right=NODES)
    async def find_rests(self, _ctx: RequestContext, request: Struct) -> Response:
        """What became of the rests of batches of which a part waits."""
        batches = [
            SplitBatch(
                each.producer_id,
                each.producer_epoch,
                each.base_sequence,
                Origin(each.leader_epoch, each.end_offset),
                each.first_id,
            )
            for each in request.batches
        ]
        try:
            rests = await self._target(request).rests(batches)
        except GoQueueError as error:
            return _refused(error, batches=[])
        return {**_DONE, "batches": [{"rest": each} for each in rests]}

    def _target(self, request: Struct) -> LocalTarget:
        topic = self._topics.catalogue.by_id.get(request.topic_id)
        if topic is None:
            raise UnknownTopicError(f"there is no topic with the id {request.topic_id}")
        return self._targets.local(TopicPartition(topic.name, request.partition_index))


def _refused(error: GoQueueError, **fields: Any) -> dict[str, Any]:
    return {
        "error_code": code_for(error),
        "error_name": type(error).__name__,
        "error_message": str(error),
        **fields,
    }
