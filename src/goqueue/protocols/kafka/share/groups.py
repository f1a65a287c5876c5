"""Members of share groups (KIP-932): ShareGroupHeartbeat and ShareGroupDescribe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from goqueue.model.errors import GroupError
from goqueue.protocols.kafka.errors import ErrorCode, code_for
from goqueue.protocols.kafka.groups.describing import (
    DESCRIBED,
    SUBSCRIBED,
    by_topic_id,
    describe_groups,
    with_names,
)
from goqueue.protocols.kafka.registry import ApiKey, api
from goqueue.protocols.kafka.share.queue_members import QueueHeartbeats
from goqueue.queues.share.members import LEAVING_EPOCH, ShareHeartbeat, ShareMembers

if TYPE_CHECKING:
    from goqueue.broker.broker import Broker
    from goqueue.protocols.kafka.context import RequestContext, Response, Struct
    from goqueue.protocols.kafka.share.fetch_connections import FetchConnections
    from goqueue.protocols.kafka.share.sessions import ShareSessions
    from goqueue.queues.delivery.members import SharedMember

_ASSIGNOR: Final = "simple"
"""Kafka's name for its only assignor of share groups."""


class ShareGroupsApi:
    """Lets share consumers in, and shows who is there."""

    def __init__(
        self, broker: Broker, sessions: ShareSessions, connections: FetchConnections
    ) -> None:
        self._broker = broker
        self._queues = QueueHeartbeats(broker, connections)
        self._members = ShareMembers(broker)
        self._sessions = sessions

    @api(ApiKey.SHARE_GROUP_HEARTBEAT, right=SUBSCRIBED)
    async def heartbeat(self, ctx: RequestContext, request: Struct) -> Response:
        """Join, stay or go."""
        if request.queue is not None:
            return await self._queues.heartbeat(ctx, request)
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
            if said.epoch == LEAVING_EPOCH and not self._may_have_session(said):
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
            "assignment": None if assigned is None else {"topic_partitions": by_topic_id(assigned)},
        }

    def _may_have_session(self, said: ShareHeartbeat) -> bool:
        """Whether a member that leaves may still say what became of messages.

        In a cluster it has its sessions with the leaders, which end them.
        """
        return self._broker.facts.is_cluster or (said.group_id, said.member_id) in self._sessions

    @api(ApiKey.SHARE_GROUP_DESCRIBE, right=DESCRIBED)
    async def describe(self, ctx: RequestContext, request: Struct) -> Response:
        """Each group asked for, with its members and what they read."""
        settled = self._broker.groups.settled
        return await describe_groups(
            ctx, request, self._describe, settled, group_state="Dead", assignor_name=""
        )

    def _describe(self, group_id: str) -> dict[str, Any]:
        group = self._members.group(group_id)
        return {
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
            "assignment": with_names(reads, topics),
        }
