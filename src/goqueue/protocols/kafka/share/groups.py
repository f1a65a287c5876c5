"""Members of share groups (KIP-932): ShareGroupHeartbeat and ShareGroupDescribe."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from goqueue.broker.share_members import LEAVING_EPOCH, ShareHeartbeat, ShareMembers
from goqueue.model.errors import GoQueueError, GroupError
from goqueue.protocols.kafka.access.operations import NO_OPERATIONS, group_operations
from goqueue.protocols.kafka.errors import code_for
from goqueue.protocols.kafka.registry import api
from goqueue.protocols.kafka.turns import Each, encode_in_turns
from goqueue.wire.kafka.api_keys import ApiKey
from goqueue.wire.kafka.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from goqueue.broker.broker import Broker
    from goqueue.delivery.group import QueueKey
    from goqueue.delivery.members import SharedMember
    from goqueue.protocols.kafka.context import RequestContext
    from goqueue.protocols.kafka.share.sessions import ShareSessions
    from goqueue.wire.kafka.codec import Response
    from goqueue.wire.kafka.reading import Struct

_ASSIGNOR: Final = "simple"
"""Kafka's name for its only assignor of share groups."""


class ShareGroupsApi:
    """Lets share consumers in, and shows who is there."""

    def __init__(self, broker: Broker, sessions: ShareSessions) -> None:
        self._broker = broker
        self._members = ShareMembers(broker)
        self._sessions = sessions

    @api(ApiKey.SHARE_GROUP_HEARTBEAT, 1, 1)
    async def heartbeat(self, ctx: RequestContext, request: Struct) -> Response:
        """Join, stay or go."""
        names = request.subscribed_topic_names
        said = ShareHeartbeat(
            request.group_id,
            request.member_id,
            request.member_epoch,
            None if names is None else frozenset(names),
            request.rack_id,
            ctx.client_id or "",
            ctx.client_host,
        )
        try:
            result = await self._members.heartbeat(said)
            if (
                said.epoch == LEAVING_EPOCH
                and (said.group_id, said.member_id) not in self._sessions
            ):
                await self._members.release(said.group_id, said.member_id)
        except GroupError as error:
            return {
                "error_code": code_for(error),
                "error_message": str(error),
                "member_id": request.member_id,
            }
        assigned = result.assigned
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "member_id": result.member_id,
            "member_epoch": result.epoch,
            "heartbeat_interval_ms": result.heartbeat_ms,
            "assignment": None if assigned is None else {"topic_partitions": _by_topic(assigned)},
        }

    @api(ApiKey.SHARE_GROUP_DESCRIBE, 1, 1)
    async def describe(self, ctx: RequestContext, request: Struct) -> Response:
        """Each group asked for, with its members and what they read."""
        group_ids = list(dict.fromkeys(request.group_ids))
        operations = group_operations(asked=request.include_authorized_operations)
        return await encode_in_turns(
            ctx, {"groups": Each(group_ids, partial(self._describe, operations))}
        )

    def _describe(self, operations: int, group_id: str) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "error_code": ErrorCode.none,
            "error_message": None,
            "group_id": group_id,
            "group_state": "Dead",
            "group_epoch": 0,
            "assignment_epoch": 0,
            "assignor_name": "",
            "members": [],
            "authorized_operations": NO_OPERATIONS,
        }
        try:
            group = self._members.group(group_id)
        except GoQueueError as error:
            return {**answer, "error_code": code_for(error), "error_message": str(error)}
        return {
            **answer,
            "authorized_operations": operations,
            "group_state": "Stable" if len(group.members) else "Empty",
            "group_epoch": group.members.epoch,
            "assignment_epoch": group.members.epoch,
            "assignor_name": _ASSIGNOR,
            "members": [self._member(member) for member in group.members],
        }

    def _member(self, member: SharedMember) -> dict[str, Any]:
        topics = self._broker.topics.catalogue.by_id
        reads = self._broker.queues.keys_of(member)
        return {
            "member_id": member.member_id,
            "rack_id": member.rack_id or None,
            "member_epoch": member.epoch,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "subscribed_topic_names": sorted(member.topics),
            "assignment": {
                "topic_partitions": [
                    {**each, "topic_name": topics[each["topic_id"]].name}
                    for each in _by_topic(reads)
                    if each["topic_id"] in topics
                ]
            },
        }


def _by_topic(partitions: Iterable[QueueKey]) -> list[dict[str, Any]]:
    numbers: defaultdict[UUID, list[int]] = defaultdict(list)
    for topic_id, number in partitions:
        numbers[topic_id].append(number)
    return [{"topic_id": topic_id, "partitions": each} for topic_id, each in numbers.items()]
