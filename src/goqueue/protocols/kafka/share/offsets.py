"""How far share groups have read: the calls that describe, move and forget their start offsets."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import (
    CoordinatorUnavailableError,
    GoQueueError,
    OffsetOutOfRangeError,
    UnknownTopicError,
)
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import api
from goqueue.protocols.kafka.rights import (
    DELETE,
    DESCRIBE,
    READ,
    TOPIC_DESCRIBE,
    all_of,
    code_of,
    each_group,
    each_topic,
    group,
    within,
)
from goqueue.protocols.kafka.turns import Each, encode_settled, once_each
from goqueue.queues.delivery.pages import MessageState
from goqueue.queues.share.members import ShareMembers
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct
    from goqueue.protocols.permissions import Permissions
    from goqueue.queues.delivery.group import QueueGroup


_UNREAD: Final = -1


def _undescribed(group: Struct, code: ErrorCode) -> dict[str, Any]:
    return {"group_id": group.group_id, "topics": [], "error_code": code, "error_message": None}


def _unaltered(topic: Struct, code: ErrorCode) -> dict[str, Any]:
    return {
        "topic_name": topic.topic_name,
        "topic_id": None,
        "partitions": [
            {"partition_index": each.partition_index, "error_code": code, "error_message": None}
            for each in topic.partitions
        ],
    }


def _undeleted(topic: Struct, code: ErrorCode) -> dict[str, Any]:
    return {
        "topic_name": topic.topic_name,
        "topic_id": None,
        "error_code": code,
        "error_message": None,
    }


def _refused_topic(name: str, numbers: list[int]) -> dict[str, Any]:
    nothing = {"start_offset": _UNREAD, "leader_epoch": 0, "lag": _UNREAD}
    code = code_of(TOPIC_DESCRIBE)
    return {
        "topic_name": name,
        "topic_id": None,
        "partitions": [
            {"partition_index": each, **nothing, "error_code": code, "error_message": None}
            for each in dict.fromkeys(numbers)
        ],
    }


class ShareOffsetsApi:
    """What administrators do with the offsets of share groups."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._queues = broker.queues
        self._members = ShareMembers(broker)

    # --- DescribeShareGroupOffsets ---------------------------------------------------------------

    @api(
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        right=all_of(
            each_group(DESCRIBE, _undescribed, name="group_id"),
            within(TOPIC_DESCRIBE, note="each; all offsets of a group are those that it covers"),
        ),
    )
    async def describe(self, ctx: RequestContext, request: Struct) -> Response:
        """Where each group has its oldest message that it is not done with."""
        groups = once_each(request.groups, key=lambda each: each.group_id)
        if self._queues.in_cluster:
            await self._known(each.group_id for each in groups)
        return await encode_settled(
            ctx,
            lambda: {"groups": Each(groups, partial(self._describe, ctx.may))},
            partial(self._broker.groups.settled, [each.group_id for each in groups]),
        )

    async def _known(self, group_ids: Iterable[str]) -> None:
        """Wait for the ends of partitions that other nodes lead; of a silent leader, for a while.

        Of a group that has not been read from yet, nobody has asked for them before.
        """
        sources = self._queues.sources
        for group_id in group_ids:
            with suppress(CoordinatorUnavailableError):
                read = self._members.find(group_id)
                found = () if read is None else map(sources.find, read.queues)
                waits = [sources.known(each.id) for each in found if each is not None]
                await asyncio.gather(*waits, return_exceptions=True)

    def _describe(self, may: Permissions, asked: Struct) -> dict[str, Any]:
        """What there is to say of a group; of one that is not there, that it has read nothing."""
        try:
            group = self._members.find(asked.group_id)
        except CoordinatorUnavailableError as error:
            return {"group_id": asked.group_id, "topics": [], **_outcome(error)}
        wanted: dict[str, list[int]] = defaultdict(list)
        if asked.topics is None and group is not None:
            for key in group.queues:
                partition = self._queues.sources.find(key)
                if partition is not None and may.allows(TOPIC_DESCRIBE, partition.id.topic):
                    wanted[partition.id.topic].append(partition.id.partition)
        for topic in asked.topics or ():
            wanted[topic.topic_name] += topic.partitions
        return {
            "group_id": asked.group_id,
            "topics": [
                {
                    "topic_name": name,
                    "topic_id": self._topic_id(name),
                    "partitions": [
                        self._place(group, TopicPartition(name, each))
                        for each in dict.fromkeys(numbers)
                    ],
                }
                if may.permits(TOPIC_DESCRIBE, name)
                else _refused_topic(name, numbers)
                for name, numbers in sorted(wanted.items())
            ],
        }

    def _place(self, group: QueueGroup | None, partition_id: TopicPartition) -> dict[str, Any]:
        """Where a group is in a partition: -1 as long as it has acknowledged nothing of it."""
        topic_id, partition, queue = self._topic_id(partition_id.topic), None, None
        if topic_id is not None:
            key = topic_id, partition_id.partition
            partition = self._queues.sources.find(key)
            queue = None if group is None else group.queues.get(key)
        answer = {"partition_index": partition_id.partition, "leader_epoch": 0}
        if group is None or partition is None or queue is None or not queue.is_read:
            return {**answer, "start_offset": _UNREAD, "lag": _UNREAD}
        start = max(queue.start, partition.log_start)
        end = partition.readable_to(group.isolation)
        done = queue.window.in_state(start, end, MessageState.SETTLED)
        return {
            **answer,
            "start_offset": start,
            "leader_epoch": partition.leader_epoch,
            "lag": max(end - start, 0) - sum(to - from_ for from_, to in done),
        }

    def _topic_id(self, name: str) -> UUID | None:
        topic = self._broker.topics.catalogue.by_name.get(name)
        return None if topic is None else topic.topic_id

    # --- AlterShareGroupOffsets ------------------------------------------------------------------

    @api(
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        right=all_of(
            group(READ), each_topic(READ, _unaltered, name="topic_name", answers="responses")
        ),
    )
    async def alter(self, ctx: RequestContext, request: Struct) -> Response:
        """Let a group without members go on elsewhere; each partition for itself.

        A group that does not exist is made.
        """
        refused: dict[TopicPartition, GoQueueError] = {}
        offsets: dict[TopicPartition, int] = {}
        for topic in request.topics:
            for each in topic.partitions:
                partition_id = TopicPartition(topic.topic_name, each.partition_index)
                try:
                    await self._check(partition_id, each.start_offset)
                    offsets[partition_id] = each.start_offset
                except GoQueueError as error:
                    refused[partition_id] = error
        try:
            if offsets:
                await self._members.make(request.group_id)
                await self._queues.reset(request.group_id, offsets)
        except GoQueueError as error:
            return {"error_code": code_for(error), "error_message": str(error), "responses": []}
        return {
            "error_code": ErrorCode.none,
            "responses": [
                {
                    "topic_name": topic.topic_name,
                    "topic_id": self._topic_id(topic.topic_name),
                    "partitions": [
                        {
                            "partition_index": each.partition_index,
                            **_outcome(
                                refused.get(TopicPartition(topic.topic_name, each.partition_index))
                            ),
                        }
                        for each in topic.partitions
                    ],
                }
                for topic in request.topics
            ],
        }

    async def _check(self, partition_id: TopicPartition, offset: int) -> None:
        """Refuse an offset that the leader of the partition does not have."""
        ends = await self._broker.positions.ends(partition_id)
        if not _UNREAD <= offset <= ends.high_watermark:
            raise OffsetOutOfRangeError(offset, ends.log_start, ends.high_watermark)

    # --- DeleteShareGroupOffsets -----------------------------------------------------------------

    @api(
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        right=all_of(
            group(DELETE), each_topic(READ, _undeleted, name="topic_name", answers="responses")
        ),
    )
    async def delete(self, ctx: RequestContext, request: Struct) -> Response:
        """Let a group without members forget what it knows of topics."""
        names = list(dict.fromkeys(each.topic_name for each in request.topics))
        refused: dict[str, GoQueueError] = {}
        try:
            group = self._members.group(request.group_id)
            for name in names:
                if not any(key[0] == self._topic_id(name) for key in group.queues):
                    refused[name] = UnknownTopicError(
                        f"group {request.group_id!r} has no offsets of topic {name!r}"
                    )
            known = [name for name in names if name not in refused]
            await self._queues.close_topics(request.group_id, known)
        except GoQueueError as error:
            return {"error_code": code_for(error), "error_message": str(error), "responses": []}
        return {
            "error_code": ErrorCode.none,
            "responses": [
                {
                    "topic_name": name,
                    "topic_id": self._topic_id(name),
                    **_outcome(refused.get(name)),
                }
                for name in names
            ],
        }


def _outcome(error: GoQueueError | None) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.none if error is None else code_for(error),
        "error_message": None if error is None else str(error),
    }
