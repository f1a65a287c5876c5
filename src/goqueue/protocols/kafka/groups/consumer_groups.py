"""The newer group protocol (KIP-848): one heartbeat says and answers everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.groups.messages import ConsumerHeartbeat
from goqueue.model.errors import GroupError
from goqueue.protocols.kafka.errors import ErrorCode, code_for
from goqueue.protocols.kafka.groups.describing import (
    DESCRIBED,
    SUBSCRIBED,
    by_topic_id,
    describe_groups,
    with_names,
)
from goqueue.protocols.kafka.registry import ApiKey, BrokerApi, api
from goqueue.protocols.kafka.rights import TOPIC_DESCRIBE

if TYPE_CHECKING:
    from collections.abc import Collection

    from goqueue.groups.consumer.member import ConsumerMember
    from goqueue.model.topic_partition import TopicIdPartition
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct

_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


class ConsumerGroupsApi(BrokerApi):
    """Members of groups whose assignment the broker computes."""

    @api(ApiKey.CONSUMER_GROUP_HEARTBEAT, right=SUBSCRIBED)
    async def heartbeat(self, ctx: RequestContext, request: Struct) -> Response:
        """Join, stay, take over an assignment, or go."""
        names, owned = request.subscribed_topic_names, request.topic_partitions
        heartbeat = ConsumerHeartbeat(
            group_id=request.group_id,
            member_id=request.member_id,
            epoch=request.member_epoch,
            instance_id=request.instance_id,
            rack_id=request.rack_id,
            client_id=ctx.client_id or "",
            client_host=ctx.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            subscribed_names=None if names is None else frozenset(names),
            subscribed_regex=request.subscribed_topic_regex,
            server_assignor=request.server_assignor,
            owned=None
            if owned is None
            else frozenset((each.topic_id, number) for each in owned for number in each.partitions),
        )
        try:
            result = await self._broker.groups.consumer_heartbeat(heartbeat)
        except GroupError as error:
            return {
                "error_code": code_for(error),
                "error_message": str(error),
                "member_id": request.member_id,
                "assignment": None,
            }
        assignment = result.assignment
        return {
            "error_code": ErrorCode.none,
            "error_message": None,
            "member_id": result.member_id,
            "member_epoch": result.epoch,
            "heartbeat_interval_ms": result.heartbeat_interval_ms,
            "assignment": None
            if assignment is None
            else {"topic_partitions": by_topic_id(self._told(ctx, assignment))},
        }

    def _told(
        self, ctx: RequestContext, assignment: Collection[TopicIdPartition]
    ) -> list[TopicIdPartition]:
        """What a member is told of its assignment: a pattern may match what it must not see."""
        topics = self._broker.topics.catalogue.by_id
        return [
            each
            for each in sorted(assignment)
            if ctx.may.is_open
            or each[0] not in topics
            or ctx.may.allows(TOPIC_DESCRIBE, topics[each[0]].name)
        ]

    @api(ApiKey.CONSUMER_GROUP_DESCRIBE, right=DESCRIBED)
    async def describe(self, ctx: RequestContext, request: Struct) -> Response:
        """Each group asked for, with its members and where they are heading."""
        settled = self._broker.groups.settled
        return await describe_groups(
            ctx, request, self._describe, settled, group_state="", assignor_name=""
        )

    def _describe(self, group_id: str) -> dict[str, Any]:
        group = self._broker.groups.coordinator(group_id).describe_consumer(group_id)
        return {
            "group_state": group.state,
            "group_epoch": group.epoch,
            "assignment_epoch": group.target_epoch,
            "assignor_name": group.assignor,
            "members": [self._member(member) for member in group.members],
        }

    def _member(self, member: ConsumerMember) -> dict[str, Any]:
        topics = self._broker.topics.catalogue.by_id
        return {
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "rack_id": member.rack_id,
            "member_epoch": member.epoch,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "subscribed_topic_names": sorted(member.subscribed_names),
            "subscribed_topic_regex": member.subscribed_regex or None,
            "assignment": with_names(sorted(member.assigned), topics),
            "target_assignment": with_names(sorted(member.target), topics),
            "member_type": _CLASSIC_MEMBER if member.classic else _CONSUMER_MEMBER,
        }
