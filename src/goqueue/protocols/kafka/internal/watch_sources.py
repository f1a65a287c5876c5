"""WatchSources: how far partitions can be read that queue groups of another node read.

The answer waits until there is news of one of them. Beside the watermarks it holds what the node
that asks has not heard yet: which messages are not in the normal lane, which transactions were
aborted.
"""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.delivery import Priority
from goqueue.model.topic_partition import TopicPartition
from goqueue.partitions.waiting import Waiter
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.rights import NODES
from goqueue.reading.remote_source import LANE_RUN
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from goqueue.partitions.partition import Partition
    from goqueue.partitions.partitions import Partitions
    from goqueue.protocols.kafka.context import RequestContext, Response
    from goqueue.topics.catalogue import Topics
    from goqueue.wire.kafka.reading import Struct

_ABORTED: Final = struct.Struct(">qqqq")
_MAX_WAIT_MS: Final = 5_000
"""Whoever wants to wait for longer asks again."""


class WatchSourcesApi:
    """Answers for the partitions that this node leads."""

    def __init__(self, topics: Topics, partitions: Partitions) -> None:
        self._topics = topics
        self._partitions = partitions

    @api(ApiKey.WATCH_SOURCES, 0, 0, right=NODES, long_poll=True)
    async def watch(self, _ctx: RequestContext, request: Struct) -> Response:
        """What the node does not know yet; nothing when the time is over."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + min(request.max_wait_ms, _MAX_WAIT_MS) / 1000
        waiter = Waiter(1)
        led = [self._led(asked) for asked in request.partitions]
        try:
            while True:
                waiter.begin(1)
                for partition in led:
                    if partition is not None:
                        partition.waiters.add(waiter)
                        partition.stable_waiters.add(waiter)
                told = [
                    news
                    for asked, partition in zip(request.partitions, led, strict=True)
                    if (news := _news(asked, partition)) is not None
                ]
                left_s = deadline_s - loop.time()
                if told or left_s <= 0:
                    break
                await waiter.wait(left_s)
        finally:
            for partition in led:
                if partition is not None:
                    partition.waiters.discard(waiter)
                    partition.stable_waiters.discard(waiter)
        return {"throttle_time_ms": 0, "error_code": ErrorCode.none, "partitions": told}

    def _led(self, asked: Struct) -> Partition | None:
        topic = self._topics.catalogue.by_id.get(asked.topic_id)
        if topic is None:
            return None
        found = self._partitions.find(TopicPartition(topic.name, asked.partition_index))
        return found if found is not None and found.is_leading else None


def _news(asked: Struct, partition: Partition | None) -> dict[str, Any] | None:
    answer: dict[str, Any] = {
        "topic_id": asked.topic_id,
        "partition_index": asked.partition_index,
        "error_code": ErrorCode.none,
        "leader_epoch": -1,
        "log_start": 0,
        "high_watermark": 0,
        "last_stable": 0,
        "lane_runs": b"",
        "aborted": b"",
    }
    if partition is None or not partition.is_leading:
        return {**answer, "error_code": ErrorCode.not_leader_or_follower}
    end, stable, start = partition.high_watermark, partition.last_stable, partition.log_start
    known = (asked.leader_epoch, asked.high_watermark, asked.last_stable, asked.log_start)
    if known == (partition.leader_epoch, end, stable, start):
        return None
    lanes, first = partition.lanes, max(asked.high_watermark, start)
    runs = [
        LANE_RUN.pack(lane, *run)
        for lane in Priority
        if lane is not Priority.NORMAL and not lanes.is_flat
        for run in lanes.runs(lane, first, end)
    ]
    aborted = [
        _ABORTED.pack(*each)
        for each in partition.transactions.aborted()
        if asked.marker_known < each.marker_offset < end
    ]
    return {
        **answer,
        "leader_epoch": partition.leader_epoch,
        "log_start": start,
        "high_watermark": end,
        "last_stable": stable,
        "lane_runs": b"".join(runs),
        "aborted": b"".join(aborted),
    }
