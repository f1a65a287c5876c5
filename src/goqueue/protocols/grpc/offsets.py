"""OffsetService: how far groups have read, looked at and set from outside."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from goqueue.groups.messages import CommitRequest, OffsetToCommit
from goqueue.model.errors import GoQueueError, InvalidGroupIdError, TopicError
from goqueue.model.lag import PartitionLag
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.grpc.conversions import outcome, position_of
from goqueue.protocols.grpc.rights import TOPIC_DESCRIBE, caller
from goqueue.wire.grpc.v1 import goqueue_pb2 as pb
from goqueue.wire.grpc.v1.goqueue_pb2_grpc import OffsetServiceServicer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grpc.aio import ServicerContext

    from goqueue.broker.broker import Broker


class OffsetService(OffsetServiceServicer):
    """For groups whose members are elsewhere, or gone."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def CommitOffsets(
        self, request: pb.CommitOffsetsRequest, context: ServicerContext[Any, Any]
    ) -> pb.CommitOffsetsResponse:
        """Note how far a group without members has read; an outcome for each partition."""
        _check_group(request.group)
        places = [TopicPartition(each.topic, each.partition) for each in request.offsets]
        errors: list[TopicError | None] = [self._missing(place) for place in places]
        for missing in filter(None, errors):
            self._broker.groups.commit_refused(request.group, missing)
        known = [
            OffsetToCommit(topic=each.topic, partition=each.partition, offset=each.offset)
            for each, error in zip(request.offsets, errors, strict=True)
            if error is None
        ]
        response = pb.CommitOffsetsResponse()
        refused: dict[TopicPartition, GoQueueError | None] = {}
        queue_group = self._broker.queues.find(request.group)
        if known and queue_group is not None and not queue_group.is_dormant:
            offsets = {TopicPartition(each.topic, each.partition): each.offset for each in known}
            await self._broker.group_administrator.set_offsets(request.group, offsets)
        elif known:
            commit = CommitRequest(group_id=request.group, offsets=tuple(known))
            outcomes = await self._broker.groups.commit(commit)
            refused = {TopicPartition(*place): error for place, error in outcomes.partitions}
        for place, error in zip(places, errors, strict=True):
            response.outcomes.append(outcome(place, error or refused.get(place)))
        return response

    def _missing(self, place: TopicPartition) -> TopicError | None:
        try:
            self._broker.topics.catalogue.require(place)
        except TopicError as error:
            return error
        return None

    async def FetchOffsets(
        self, request: pb.FetchOffsetsRequest, context: ServicerContext[Any, Any]
    ) -> pb.FetchOffsetsResponse:
        """Where a group goes on reading, and how far it is behind."""
        _check_group(request.group)
        return await self._broker.groups.told(partial(self._fetched, request), request.group)

    def _fetched(self, request: pb.FetchOffsetsRequest) -> pb.FetchOffsetsResponse:
        if not request.partitions:
            return pb.FetchOffsetsResponse(offsets=committed_offsets(self._broker, request.group))
        committed = self._broker.lag.committed(request.group)
        response = pb.FetchOffsetsResponse()
        for each in request.partitions:
            place = TopicPartition(each.topic, each.partition)
            figures = self._broker.figures.known(place)
            found = PartitionLag(*place, committed.get(place), figures.log_start, figures.log_end)
            response.offsets.append(_committed_offset(found))
        return response

    async def ResetOffsets(
        self, request: pb.ResetOffsetsRequest, context: ServicerContext[Any, Any]
    ) -> pb.ResetOffsetsResponse:
        """Let a group go on reading elsewhere, or see what that would change."""
        changes = await self._broker.group_administrator.reset_offsets(
            request.group,
            request.topic,
            position_of(request.to, request.offset, request.timestamp_ms),
            partitions=list(request.partitions) or None,
            dry_run=request.dry_run,
        )
        return pb.ResetOffsetsResponse(
            changes=(
                pb.OffsetChange(
                    topic=each.topic, partition=each.partition, before=each.before, after=each.after
                )
                for each in changes
            )
        )


def committed_offsets(broker: Broker, group: str) -> Iterator[pb.CommittedOffset]:
    """Every partition that the group has committed an offset of, or that a member reads."""
    lags = caller().visible(TOPIC_DESCRIBE, broker.lag.of(group), lambda each: each.topic)
    return map(_committed_offset, lags)


def _committed_offset(each: PartitionLag) -> pb.CommittedOffset:
    return pb.CommittedOffset(
        topic=each.topic,
        partition=each.partition,
        offset=each.committed,
        log_end=each.log_end,
        lag=each.lag,
    )


def _check_group(name: str) -> None:
    if not name:
        raise InvalidGroupIdError("group: a group needs a name")
