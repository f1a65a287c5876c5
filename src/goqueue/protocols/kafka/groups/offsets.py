"""How far groups have read: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.groups.encoding import CommittedOffset
from goqueue.groups.messages import CommitRequest, OffsetToCommit
from goqueue.model.errors import GoQueueError, GroupError
from goqueue.model.topic_partition import TopicPartition
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import BrokerApi, api
from goqueue.protocols.kafka.rights import (
    DELETE,
    GROUP_DESCRIBE,
    READ,
    TOPIC_DESCRIBE,
    TOPIC_READ,
    all_of,
    code_of,
    each_topic,
    group,
    within,
)
from goqueue.protocols.kafka.topic_ids import topic_with_id
from goqueue.protocols.kafka.turns import Each, encode_settled, in_turns, once_each
from goqueue.protocols.permissions import UNRESTRICTED, Permissions
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goqueue.access.rights import Right
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct

_TOPIC_IDS_FROM: Final = 10
_GROUPS_FROM: Final = 8
_GROUP_ERROR_FROM: Final = 2
_RETENTION_UNTIL: Final = 4


_OFFSETS_A_COMMIT: Final = 1000
"""Offsets stored at once; of a request with more, each part is stored for itself."""


def _uncommitted(_ctx: RequestContext, request: Struct, code: ErrorCode) -> Response:
    """Nothing was stored; an answer says why at each partition, having no other place."""
    return {
        "topics": [
            {**_offsets_undeleted(topic, code), "topic_id": topic.topic_id}
            for topic in request.topics
        ]
    }


def _offsets_undeleted(topic: Struct, code: ErrorCode) -> dict[str, Any]:
    return {
        "name": topic.name,
        "partitions": [
            {"partition_index": each.partition_index, "error_code": code}
            for each in topic.partitions
        ],
    }


class GroupOffsetsApi(BrokerApi):
    """Keeps consumers' places."""

    # --- OffsetCommit ----------------------------------------------------------------------------

    @api(
        ApiKey.OFFSET_COMMIT,
        right=all_of(group(READ), within(TOPIC_READ, note="each")),
        on_error=_uncommitted,
    )
    async def offset_commit(self, ctx: RequestContext, request: Struct) -> Response:
        """Store offsets; one result for each partition, whatever becomes of the others."""
        named = [(topic, *self._topic(ctx, topic, TOPIC_READ)) for topic in request.topics]
        outcomes = await self._commit(ctx, request, named)
        return {
            "topics": [
                {
                    "name": topic.name,
                    "topic_id": topic.topic_id,
                    "partitions": [
                        {
                            "partition_index": each.partition_index,
                            "error_code": code
                            or outcomes[TopicPartition(name, each.partition_index)],
                        }
                        for each in topic.partitions
                    ],
                }
                for topic, name, code in named
            ]
        }

    def _topic(self, ctx: RequestContext, topic: Struct, right: Right) -> tuple[str, ErrorCode]:
        """The name of a topic that a request names by name or by id, and what is wrong with it."""
        name = topic.name
        if ctx.version >= _TOPIC_IDS_FROM:
            try:
                name = topic_with_id(self._broker.topics, ctx.may, topic.topic_id).name
            except GoQueueError as error:
                return "", code_for(error)
        return name, ErrorCode.none if ctx.may.permits(right, name) else code_of(right)

    async def _commit(
        self, ctx: RequestContext, request: Struct, named: list[tuple[Struct, str, ErrorCode]]
    ) -> dict[TopicPartition, ErrorCode]:
        outcomes: dict[TopicPartition, ErrorCode] = {}
        offsets = []
        for topic, name, code in named:
            async for each in in_turns(topic.partitions if not code else ()):
                place = TopicPartition(name, each.partition_index)
                outcomes[place] = self._missing(request.group_id, *place)
                if not outcomes[place]:
                    offsets.append(
                        OffsetToCommit(
                            topic=name,
                            partition=each.partition_index,
                            offset=each.committed_offset,
                            leader_epoch=each.committed_leader_epoch,
                            metadata=each.committed_metadata or "",
                        )
                    )
        retention_ms = request.retention_time_ms if ctx.version <= _RETENTION_UNTIL else -1
        for start in range(0, max(len(offsets), 1), _OFFSETS_A_COMMIT):
            commit = CommitRequest(
                group_id=request.group_id,
                member_id=request.member_id,
                generation_or_epoch=request.generation_id_or_member_epoch,
                instance_id=request.group_instance_id,
                offsets=tuple(offsets[start : start + _OFFSETS_A_COMMIT]),
                retention_ms=retention_ms if retention_ms >= 0 else None,
            )
            try:
                result = await self._broker.groups.commit(commit)
            except GroupError as error:
                return dict.fromkeys(outcomes, code_for(error))
            for place, refusal in result.partitions:
                outcomes[place] = ErrorCode.none if refusal is None else code_for(refusal)
        return outcomes

    def _missing(self, group_id: str, topic: str, number: int) -> ErrorCode:
        try:
            self._broker.topics.catalogue.require(TopicPartition(topic, number))
        except GoQueueError as error:
            self._broker.groups.commit_refused(group_id, error)
            return code_for(error)
        return ErrorCode.none

    # --- OffsetFetch -----------------------------------------------------------------------------

    @api(
        ApiKey.OFFSET_FETCH,
        right=all_of(
            within(GROUP_DESCRIBE, note="each"),
            within(TOPIC_DESCRIBE, note="each; all offsets of a group are those that it covers"),
        ),
    )
    async def offset_fetch(self, ctx: RequestContext, request: Struct) -> Response:
        """The offsets of one group in old versions, of several since."""
        if ctx.version >= _GROUPS_FROM:
            groups = once_each(request.groups, key=lambda group: group.group_id)

            def describe(group: Struct) -> dict[str, Any]:
                return {"group_id": group.group_id, **self._fetch(ctx, group, request)}

            def answer() -> dict[str, Any]:
                return {"groups": Each(groups, describe)}

            group_ids = [group.group_id for group in groups]
        else:

            def answer() -> dict[str, Any]:
                found = self._fetch(ctx, request, request)
                if ctx.version < _GROUP_ERROR_FROM:
                    found.pop("error_code")
                return found

            group_ids = [request.group_id]
        return await encode_settled(ctx, answer, partial(self._broker.groups.settled, group_ids))

    def _fetch(self, ctx: RequestContext, group: Struct, request: Struct) -> dict[str, Any]:
        """One group's offsets: of the partitions asked for, or of all that it has."""
        if not ctx.may.permits(GROUP_DESCRIBE, group.group_id):
            return _refused_group(ctx, group)
        asked: list[TopicPartition] | None = None
        unknown: list[dict[str, Any]] = []
        if group.topics is not None:
            asked = []
            for topic in group.topics:
                name, code = self._topic(ctx, topic, TOPIC_DESCRIBE)
                if code:
                    unknown.append(_unknown_topic(ctx, topic, code))
                else:
                    asked.extend(TopicPartition(name, number) for number in topic.partition_indexes)
        member_id = group.member_id if ctx.version >= _GROUPS_FROM else None
        epoch = group.member_epoch if ctx.version >= _GROUPS_FROM else -1
        try:
            found = self._broker.groups.coordinator(group.group_id).fetch_offsets(
                group.group_id,
                asked,
                member_id=member_id,
                epoch=epoch,
                require_stable=bool(request.require_stable),
            )
        except GroupError as error:
            return {"error_code": code_for(error), "topics": []}
        if asked is None:
            found = self._queue_offsets(group.group_id) or found
        answers = _by_topic(found, ctx.may if asked is None else UNRESTRICTED)
        if ctx.version >= _TOPIC_IDS_FROM:
            for answer in answers:
                topic = self._broker.topics.catalogue.by_name.get(answer["name"])
                answer["topic_id"] = None if topic is None else topic.topic_id
        return {"error_code": ErrorCode.none, "topics": answers + unknown}

    def _queue_offsets(
        self, group_id: str
    ) -> dict[TopicPartition, CommittedOffset | GroupError | None]:
        """Where a queue group is: administrators see its lag, and its members ask otherwise."""
        group = self._broker.queues.find(group_id)
        if group is None or group.is_dormant:
            return {}
        offsets = self._broker.lag.committed(group_id)
        return {
            TopicPartition(place.topic, place.partition): CommittedOffset(offset, -1, "", 0)
            for place, offset in offsets.items()
        }

    # --- OffsetDelete ----------------------------------------------------------------------------

    @api(ApiKey.OFFSET_DELETE, right=all_of(group(DELETE), each_topic(READ, _offsets_undeleted)))
    async def offset_delete(self, ctx: RequestContext, request: Struct) -> Response:
        """Forget places in topics that a group does not read any more."""
        codes = {
            TopicPartition(topic.name, each.partition_index): ErrorCode.unknown_topic_or_partition
            for topic in request.topics
            for each in topic.partitions
        }
        topics = self._broker.topics.catalogue.by_name
        places = [place for place in codes if place[0] in topics]
        result = await self._broker.groups.delete_offsets(request.group_id, places)
        for place, error in result.partitions:
            codes[place] = ErrorCode.none if error is None else code_for(error)
        return {
            "error_code": ErrorCode.none,
            "topics": [
                {
                    "name": topic.name,
                    "partitions": [
                        {
                            "partition_index": each.partition_index,
                            "error_code": codes[TopicPartition(topic.name, each.partition_index)],
                        }
                        for each in topic.partitions
                    ],
                }
                for topic in request.topics
            ],
        }


def _offset_fields(offset: CommittedOffset | GroupError | None) -> dict[str, Any]:
    """What a client is told of one partition; -1 is Kafka's "nothing committed"."""
    if offset is None or isinstance(offset, GroupError):
        return {
            "committed_offset": -1,
            "committed_leader_epoch": -1,
            "metadata": "",
            "error_code": ErrorCode.none if offset is None else code_for(offset),
        }
    return {
        "committed_offset": offset.offset,
        "committed_leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "error_code": ErrorCode.none,
    }


def _by_topic(
    found: Mapping[TopicPartition, CommittedOffset | GroupError | None], may: Permissions
) -> list[dict[str, Any]]:
    """The offsets of the topics that a client may see."""
    topics: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for (name, number), offset in found.items():
        if may.allows(TOPIC_DESCRIBE, name):
            topics[name].append({"partition_index": number, **_offset_fields(offset)})
    return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]


def _refused_group(ctx: RequestContext, group: Struct) -> dict[str, Any]:
    """What is said of a group that the client may not describe; at each partition in version 1."""
    code = code_of(GROUP_DESCRIBE)
    asked = group.topics if ctx.version < _GROUP_ERROR_FROM else ()
    return {"error_code": code, "topics": [_unknown_topic(ctx, each, code) for each in asked or ()]}


def _unknown_topic(ctx: RequestContext, topic: Struct, code: ErrorCode) -> dict[str, Any]:
    nothing = {"committed_offset": -1, "committed_leader_epoch": -1, "metadata": ""}
    return {
        "name": topic.name,
        **({"topic_id": topic.topic_id} if ctx.version >= _GROUPS_FROM else {}),
        "partitions": [
            {"partition_index": number, **nothing, "error_code": code}
            for number in topic.partition_indexes
        ],
    }
