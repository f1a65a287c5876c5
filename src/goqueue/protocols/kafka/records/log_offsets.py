"""Offsets of the log: by time, by epoch, and deleting the records below one."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GoQueueError, LeaderUnavailableError, OffsetNotAvailableError
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.records.fetch import isolation_of
from goqueue.protocols.kafka.registry import BrokerApi, api
from goqueue.protocols.kafka.rights import DELETE, DESCRIBE, each_topic
from goqueue.protocols.kafka.turns import Each, encode_in_turns, in_turns, once_each
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.partitions.partition import Isolation, Partition
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.storage.lookup import TimestampHit
    from goqueue.wire.kafka.frames import Response
    from goqueue.wire.kafka.reading import Struct

LATEST: Final = -1
EARLIEST: Final = -2
LATEST_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
_NOTHING: Final = -1
_HIGH_WATERMARK: Final = -1
_OFFSET_NOT_AVAILABLE_FROM: Final = 5


def _no_offset(asked: Struct, code: ErrorCode) -> dict[str, Any]:
    return {
        "partition_index": asked.partition_index,
        "error_code": code,
        "offset": _NOTHING,
        "timestamp": -1,
    }


def _refused(ctx: RequestContext, request: Struct, code: ErrorCode) -> Response:
    """Nothing was looked for; an answer says why at each partition, having no other place."""
    return {"topics": [_not_listed(topic, code) for topic in request.topics]}


def _not_listed(topic: Struct, code: ErrorCode) -> dict[str, Any]:
    return {
        "name": topic.name,
        "partitions": [_no_offset(asked, code) for asked in topic.partitions],
    }


def _no_epoch(topic: Struct, code: ErrorCode) -> dict[str, Any]:
    nothing = {"error_code": code, "leader_epoch": -1, "end_offset": _NOTHING}
    return {
        "topic": topic.topic,
        "partitions": [{"partition": each.partition, **nothing} for each in topic.partitions],
    }


def _not_deleted(topic: Struct, code: ErrorCode) -> dict[str, Any]:
    nothing = {"error_code": code, "low_watermark": _NOTHING}
    return {
        "name": topic.name,
        "partitions": [
            {"partition_index": each.partition_index, **nothing} for each in topic.partitions
        ],
    }


class OffsetsApi(BrokerApi):
    """Finds and moves the ends of partitions."""

    # --- ListOffsets -----------------------------------------------------------------------------

    @api(ApiKey.LIST_OFFSETS, right=each_topic(DESCRIBE, _not_listed), on_error=_refused)
    async def list_offsets(self, ctx: RequestContext, request: Struct) -> Response:
        """The offset of a moment, or of an end, in each partition asked for."""
        isolation = isolation_of(request.isolation_level)
        return {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        await self._list_offset(ctx.version, topic.name, asked, isolation)
                        async for asked in in_turns(
                            once_each(topic.partitions, key=lambda p: p.partition_index)
                        )
                    ],
                }
                for topic in request.topics
            ]
        }

    async def _list_offset(
        self, version: int, topic: str, asked: Struct, isolation: Isolation
    ) -> dict[str, Any]:
        answer = {"partition_index": asked.partition_index, "error_code": ErrorCode.none}
        try:
            partition = self._broker.partitions.partition(
                TopicPartition(topic, asked.partition_index)
            )
            partition.check_leader_epoch(asked.current_leader_epoch)
            if self._broker.facts.is_cluster:
                _check_end(partition, asked.timestamp)
            offset, timestamp = await self._find(partition, asked.timestamp, isolation)
        except OffsetNotAvailableError as error:
            is_known = version >= _OFFSET_NOT_AVAILABLE_FROM
            return _no_offset(asked, code_for(error if is_known else LeaderUnavailableError))
        except GoQueueError as error:
            return _no_offset(asked, code_for(error))
        epoch = partition.epochs.epoch_at(offset) if offset >= 0 else -1
        return {**answer, "offset": offset, "timestamp": timestamp, "leader_epoch": epoch}

    async def _find(
        self, partition: Partition, timestamp: int, isolation: Isolation
    ) -> tuple[int, int]:
        if timestamp == LATEST:
            return partition.readable_to(isolation), -1
        if timestamp in {EARLIEST, EARLIEST_LOCAL}:
            return partition.log_start, -1
        if timestamp != LATEST_TIMESTAMP and timestamp < 0:
            return _NOTHING, -1  # the ends of storage tiers that there are none of
        hit = await asyncio.get_running_loop().run_in_executor(
            self._broker.executor, _search, partition, timestamp
        )
        if hit is None or hit.offset >= partition.readable_to(isolation):
            return _NOTHING, -1
        return hit.offset, hit.timestamp_ms

    # --- OffsetForLeaderEpoch --------------------------------------------------------------------

    @api(ApiKey.OFFSET_FOR_LEADER_EPOCH, right=each_topic(DESCRIBE, _no_epoch, name="topic"))
    async def offset_for_leader_epoch(self, ctx: RequestContext, request: Struct) -> Response:
        """Where the records of an epoch end, so that a client notices a truncated log."""

        def describe(topic: Struct) -> dict[str, Any]:
            return {
                "topic": topic.topic,
                "partitions": Each(topic.partitions, partial(self._epoch_end, topic.topic)),
            }

        return await encode_in_turns(ctx, {"topics": Each(request.topics, describe)})

    def _epoch_end(self, topic: str, asked: Struct) -> dict[str, Any]:
        answer = {"partition": asked.partition, "error_code": ErrorCode.none}
        try:
            partition = self._broker.partitions.partition(TopicPartition(topic, asked.partition))
            partition.check_leader_epoch(asked.current_leader_epoch)
        except GoQueueError as error:
            return {
                **answer,
                "error_code": code_for(error),
                "leader_epoch": -1,
                "end_offset": _NOTHING,
            }
        if asked.leader_epoch == partition.leader_epoch:
            return {
                **answer,
                "leader_epoch": partition.leader_epoch,
                "end_offset": partition.log_end,
            }
        end = None  # of an epoch that is still to come
        if asked.leader_epoch < partition.leader_epoch:
            end = partition.epochs.end_of(asked.leader_epoch, partition.log_end)
        return {
            **answer,
            "leader_epoch": end.epoch if end else -1,
            "end_offset": end.start_offset if end else _NOTHING,
        }

    # --- DeleteRecords ---------------------------------------------------------------------------

    @api(ApiKey.DELETE_RECORDS, right=each_topic(DELETE, _not_deleted))
    async def delete_records(self, ctx: RequestContext, request: Struct) -> Response:
        """Let partitions start later."""
        return {
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        await self._delete(topic.name, p) async for p in in_turns(topic.partitions)
                    ],
                }
                for topic in request.topics
            ]
        }

    async def _delete(self, topic: str, asked: Struct) -> dict[str, Any]:
        answer = {"partition_index": asked.partition_index, "error_code": ErrorCode.none}
        try:
            start = await self._broker.delete_records(
                TopicPartition(topic, asked.partition_index),
                None if asked.offset == _HIGH_WATERMARK else asked.offset,
            )
        except GoQueueError as error:
            return {**answer, "error_code": code_for(error), "low_watermark": _NOTHING}
        return {**answer, "low_watermark": start}


def _check_end(partition: Partition, timestamp: int) -> None:
    """Refuse to tell the end of a partition while its leader is so new that it may tell too little.

    A leader does not know how far its predecessor has committed until its followers have caught up
    with the beginning of its epoch (KIP-207): readers would see offsets go back.
    """
    newest = partition.epochs.starts[-1:]
    if (
        timestamp not in {EARLIEST, EARLIEST_LOCAL}
        and newest
        and newest[0].epoch == partition.leader_epoch
        and partition.high_watermark < newest[0].start_offset
    ):
        raise OffsetNotAvailableError(
            f"{partition.id} is led anew in epoch {partition.leader_epoch} and its high watermark "
            f"is {partition.high_watermark}, below the start of that epoch: try again"
        )


def _search(partition: Partition, timestamp: int) -> TimestampHit | None:
    """Look for a moment in the log; reads the disk, so it belongs in a thread."""
    if timestamp == LATEST_TIMESTAMP:
        return partition.find_latest_time()
    return partition.find_time(timestamp)
